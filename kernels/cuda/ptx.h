/* ptx.h - the instructions that have no name in C, each behind one function, and shared memory.
 * Beside each stands what the simulated device does in its place (PTX: the one, or the other).
 * Operands are 32-bit registers: a pair of 16-bit values, the first in the low half. Fragments are
 * as the PTX manual draws them for m16n8k16 (mma) and m8n8 (ldmatrix). Source: NVIDIA, PTX ISA,
 * "Matrix multiply-accumulate operation using mma instruction", "ldmatrix", "cp.async". */
#ifndef BERTH_KERNELS_CUDA_PTX_H
#define BERTH_KERNELS_CUDA_PTX_H
#ifdef BERTH_SIMT
#include "kernels/simt/device.h"
#define PTX(instruction, simulated) simulated
#define CUDA_SHARED(T, name) T *name = (T *)simt_shared()
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#define PTX(instruction, simulated) instruction
/* T *name: the block's dynamic shared memory, at a multiple of 16 bytes. */
#define CUDA_SHARED(T, name)                                                                       \
    extern __shared__ __align__(16) unsigned char name##_bytes[];                                  \
    T *name = (T *)name##_bytes

static __device__ inline unsigned ptx_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
#endif

/* 16 bytes from global to shared memory, both at multiples of 16; there after a wait. */
static __device__ inline void ptx_cp_async16(void *to, const void *from) {
    PTX(asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ptx_shared_address(to)),
                     "l"(from)
                     : "memory"),
        simt_cp_async(to, from, 16));
}
static __device__ inline void ptx_cp_async_commit(void) { // what was begun since is one group
    PTX(asm volatile("cp.async.commit_group;" ::: "memory"), simt_cp_async_commit());
}
template <int N> static __device__ inline void ptx_cp_async_wait(void) { // but for the latest N
    PTX(asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"), simt_cp_async_wait(N));
}

/* Four 8 x 8 matrices of 16-bit values; lane l gives the address of row l mod 8 of matrix l / 8. */
static __device__ inline void ptx_ldmatrix_x4(uint32_t *r, const void *row) {
    PTX(asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(ptx_shared_address(row))
                     : "memory"),
        simt_ldmatrix(r, row, 4, 0));
}
static __device__ inline void ptx_ldmatrix_x4_trans(uint32_t *r, const void *row) {
    PTX(asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(ptx_shared_address(row))
                     : "memory"),
        simt_ldmatrix(r, row, 4, 1));
}

/* d = a * b + c, a: 16 x 16 in rows, b: 16 x 8 in columns; the last argument tells the type. */
static __device__ inline void ptx_mma_16816(float *d, const uint32_t *a, const uint32_t *b,
                                            const float *c, const __nv_bfloat16 *) {
    PTX(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                       "f"(c[1]), "f"(c[2]), "f"(c[3])),
        simt_mma_16816(d, a, b, c, SIMT_BF16));
}
static __device__ inline void ptx_mma_16816(float *d, const uint32_t *a, const uint32_t *b,
                                            const float *c, const __half *) {
    PTX(asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                       "f"(c[1]), "f"(c[2]), "f"(c[3])),
        simt_mma_16816(d, a, b, c, SIMT_F16));
}

/* 2^x, off by 2 units in the last place at most; of two fp16 at once, about 2^-9.9 of the result.
 */
static __device__ inline float ptx_ex2(float x) {
    float y;
    PTX(asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)), y = exp2f(x));
    return y;
}
static __device__ inline uint32_t ptx_ex2_f16x2(uint32_t x) {
    uint32_t y;
    PTX(asm("ex2.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x)), y = simt_ex2_f16x2(x));
    return y;
}

/* Two floats rounded to nearest, ties to even. */
static __device__ inline uint32_t ptx_pack_f16x2(float low, float high) {
    uint32_t pair;
    PTX(asm("cvt.rn.f16x2.f32 %0, %1, %2;"
            : "=r"(pair)
            : "f"(high), "f"(low)),
        pair = simt_to_f16(low) | (uint32_t)simt_to_f16(high) << 16);
    return pair;
}
static __device__ inline uint32_t ptx_pack_bf16x2(float low, float high) {
    uint32_t pair;
    PTX(asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
            : "=r"(pair)
            : "f"(high), "f"(low)),
        pair = simt_to_bf16(low) | (uint32_t)simt_to_bf16(high) << 16);
    return pair;
}
#endif
