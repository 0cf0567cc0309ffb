/* device.h - CUDA's words for g++: what a .cu file finds when it is built for the simulated device.
 * Only what kernels/cuda uses; a word that is missing here fails the build, and is added then. */
#ifndef BERTH_KERNELS_SIMT_DEVICE_H
#define BERTH_KERNELS_SIMT_DEVICE_H
#ifdef __cplusplus
#include "kernels/simt/simt.h"
#include "kernels/simt/words.h"
#include <math.h>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__ static // one block runs at a time
#define threadIdx (simt_here->thread)
#define blockIdx (simt_here->block)
#define blockDim (simt_here->block_dim)
#define gridDim (simt_here->grid_dim)

struct dim3 : simt_dim3 {
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : simt_dim3{a, b, c} {
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

struct __half {
    uint16_t word;
};
struct __nv_bfloat16 {
    uint16_t word;
};
static inline float __half2float(__half h) {
    return simt_from_f16(h.word);
}
static inline __half __float2half(float f) {
    return {simt_to_f16(f)};
}
static inline __half __ushort_as_half(unsigned short u) {
    return {u};
}
static inline float __bfloat162float(__nv_bfloat16 b) {
    return simt_from_bf16(b.word);
}
static inline __nv_bfloat16 __float2bfloat16(float f) {
    return {simt_to_bf16(f)};
}
static inline float __uint_as_float(unsigned u) {
    return simt_float(u);
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}

static inline void __syncthreads() {
    simt_barrier();
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    simt_warp_barrier(mask);
}
template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "one word");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(value));
    word = simt_shuffle(mask, word, lane & (SIMT_LANES - 1));
    memcpy(&value, &word, sizeof(value));
    return value;
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T value, int other) {
    return __shfl_sync(mask, value, (int)(threadIdx.x % SIMT_LANES) ^ other);
}

/* The kernel's arguments, by value, as a launch keeps them. */
template <class... P> struct simt_call {
    void (*kernel)(P...);
    std::tuple<P...> arguments;
    static void run(const void *call) {
        const simt_call *c = (const simt_call *)call;
        std::apply(c->kernel, c->arguments);
    }
};
#endif
#endif
