/* vec.h - float vectors for the per-ISA sources: GCC's vector types, with intrinsics only where its
 * plain operators do not give the one instruction. A source is written for any VEC.
 * Rounding is the same in every function that uses it: contraction is off in these sources, so a
 * product is fused with a sum exactly where vec_fma() says so, and only where the ISA can. */
#ifndef BERTH_KERNELS_CPU_VEC_H
#define BERTH_KERNELS_CPU_VEC_H
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__AVX2__) && defined(__FMA__)
#define VEC 8
#else
#define VEC 4
#endif
#define NR (2 * VEC) // columns of a tile

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PRAGMA(x) _Pragma(#x)
#ifdef __clang__
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

typedef float vec __attribute__((vector_size(VEC * 4)));
typedef int32_t ivec __attribute__((vector_size(VEC * 4)));
typedef float vec_anywhere __attribute__((vector_size(VEC * 4), aligned(4), may_alias));

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
#if VEC == 8
    return (vec){f, f, f, f, f, f, f, f};
#else
    return (vec){f, f, f, f};
#endif
}
ALWAYS_INLINE vec vec_fma(vec a, vec b, vec c) {
#if VEC == 8
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
/* b when one of the two is NaN. */
ALWAYS_INLINE vec vec_max(vec a, vec b) {
#if VEC == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    for (int i = 0; i < VEC; i++) {
        b[i] = a[i] > b[i] ? a[i] : b[i];
    }
    return b;
#endif
}
ALWAYS_INLINE vec vec_min(vec a, vec b) {
#if VEC == 8
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    for (int i = 0; i < VEC; i++) {
        b[i] = a[i] < b[i] ? a[i] : b[i];
    }
    return b;
#endif
}
ALWAYS_INLINE float vec_sum(vec v) {
#if VEC == 8
    v += vec_shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += vec_shuffle(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
#else
    v += vec_shuffle(v, v, 2, 3, 0, 1);
#endif
    return v[0] + v[1];
}
#endif
