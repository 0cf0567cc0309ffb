/* vec.h - float vectors for the per-ISA sources: GCC's vector types, with intrinsics only where its
 * plain operators do not give the one instruction. A source is written for any VEC.
 * Rounding is the same in every function that uses it: contraction is off in these sources, so a
 * product is fused with a sum exactly where vec_fma() says so, and only where the ISA can. */
#ifndef BERTH_KERNELS_CPU_VEC_H
#define BERTH_KERNELS_CPU_VEC_H
#include "kernels/cpu/width.h"
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(VEC * 4)));
typedef int32_t ivec __attribute__((vector_size(VEC * 4)));
typedef uint32_t uvec __attribute__((vector_size(VEC * 4)));
typedef float vec_anywhere __attribute__((vector_size(VEC * 4), aligned(4), may_alias));
typedef int32_t ivec_anywhere __attribute__((vector_size(VEC * 4), aligned(4), may_alias));

/* Elements of a and b, by constant index. GCC knows clang's name for it from version 12 on. */
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define vec_shuffle(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef vec_shuffle
#define vec_shuffle(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

ALWAYS_INLINE vec vec_load(const float *p) {
    return *(const vec_anywhere *)p;
}
ALWAYS_INLINE void vec_store(float *p, vec v) {
    *(vec_anywhere *)p = v;
}
/* The first n < VEC floats; zeros behind them. */
ALWAYS_INLINE vec vec_load_n(const float *p, int n) {
    float t[VEC] = {0};
    memcpy(t, p, (size_t)n * sizeof(*p));
    return vec_load(t);
}
ALWAYS_INLINE void vec_store_n(float *p, vec v, int n) {
    memcpy(p, &v, (size_t)n * sizeof(*p));
}
ALWAYS_INLINE vec vec_set(float f) {
#if VEC == 16
    return (vec){f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f};
#elif VEC == 8
    return (vec){f, f, f, f, f, f, f, f};
#else
    return (vec){f, f, f, f};
#endif
}
/* x where `a` is all ones, y where it is 0: comparisons give these. */
ALWAYS_INLINE vec vec_choose(ivec a, vec x, vec y) {
    return (vec)((a & (ivec)x) | (~a & (ivec)y));
}
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
#ifdef CPU_EMULATE
    __m256 x[3][2];
    memcpy(x[0], &a, sizeof(a)), memcpy(x[1], &b, sizeof(b)), memcpy(x[2], &c, sizeof(c));
    x[2][0] = _mm256_fmadd_ps(x[0][0], x[1][0], x[2][0]);
    x[2][1] = _mm256_fmadd_ps(x[0][1], x[1][1], x[2][1]);
    memcpy(&c, x[2], sizeof(c));
    return c;
#elif VEC == 16
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif VEC == 8
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
/* b when one of the two is NaN. */
ALWAYS_INLINE vec vec_max(vec a, vec b) {
#if defined(CPU_EMULATE) || !defined(__x86_64__)
    return vec_choose(a > b, a, b);
#elif VEC == 16
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif VEC == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#endif
}
ALWAYS_INLINE vec vec_min(vec a, vec b) {
#if defined(CPU_EMULATE) || !defined(__x86_64__)
    return vec_choose(a < b, a, b);
#elif VEC == 16
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif VEC == 8
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#endif
}
#endif
