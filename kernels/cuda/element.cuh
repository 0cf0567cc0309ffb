/* element.cuh - rows of any element type as floats, eight neighbouring values to a lane.
 * Every row that the backend makes begins at a multiple of 16 bytes and has room up to a multiple
 * of 8 values, which hold zeros; so 16-byte accesses need no remainder, and no value is masked but
 * where a mean is taken. For device code. */
#ifndef BERTH_KERNELS_CUDA_ELEMENT_CUH
#define BERTH_KERNELS_CUDA_ELEMENT_CUH
#include "kernels/cuda/ptx.h"

enum { LANES = 32, VECTOR = 8, WARP_VALUES = LANES * VECTOR };

static __device__ inline void unpack_pair(float *v, uint32_t pair, const __nv_bfloat16 *) {
    v[0] = __uint_as_float(pair << 16), v[1] = __uint_as_float(pair & 0xffff0000u);
}
static __device__ inline void unpack_pair(float *v, uint32_t pair, const __half *) {
    v[0] = __half2float(__ushort_as_half((unsigned short)(pair & 0xffffu)));
    v[1] = __half2float(__ushort_as_half((unsigned short)(pair >> 16)));
}
static __device__ inline uint32_t pack_pair(float low, float high, const __nv_bfloat16 *) {
    return ptx_pack_bf16x2(low, high);
}
static __device__ inline uint32_t pack_pair(float low, float high, const __half *) {
    return ptx_pack_f16x2(low, high);
}

/* v[0..8) = p[0..8); p at a multiple of 16 bytes. */
template <class T> static __device__ inline void load8(float *v, const T *p) {
    const uint4 u = *(const uint4 *)p;
    unpack_pair(v, u.x, p), unpack_pair(v + 2, u.y, p);
    unpack_pair(v + 4, u.z, p), unpack_pair(v + 6, u.w, p);
}
template <> __device__ inline void load8<float>(float *v, const float *p) {
    const float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
template <class T> static __device__ inline void store8(T *p, const float *v) {
    uint4 u;
    u.x = pack_pair(v[0], v[1], p), u.y = pack_pair(v[2], v[3], p);
    u.z = pack_pair(v[4], v[5], p), u.w = pack_pair(v[6], v[7], p);
    *(uint4 *)p = u;
}
template <> __device__ inline void store8<float>(float *p, const float *v) {
    ((float4 *)p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    ((float4 *)p)[1] = make_float4(v[4], v[5], v[6], v[7]);
}

/* Two neighbours, at a multiple of their size. */
template <class T> static __device__ inline void store2(T *p, float a, float b) {
    *(uint32_t *)p = pack_pair(a, b, p);
}
template <> __device__ inline void store2<float>(float *p, float a, float b) {
    p[0] = a, p[1] = b;
}

static __device__ inline float to_float(float x) {
    return x;
}
static __device__ inline float to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
static __device__ inline float to_float(__half x) {
    return __half2float(x);
}
static __device__ inline void put(float *p, float v) {
    *p = v;
}
static __device__ inline void put(__nv_bfloat16 *p, float v) {
    *p = __float2bfloat16(v);
}
static __device__ inline void put(__half *p, float v) {
    *p = __float2half(v);
}

static __device__ inline float warp_sum(float v) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    }
    return v;
}
static __device__ inline float warp_max(float v) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
    }
    return v;
}
#endif
