/* vec.h - float vectors for the per-ISA sources: GCC's vector types, with intrinsics only where its
 * plain operators do not give the one instruction. A source is written for any VEC.
 * Rounding is the same in every function that uses it: contraction is off in these sources, so a
 * product is fused with a sum exactly where vec_fma() says so, and only where the ISA can. */
#ifndef BERTH_KERNELS_CPU_VEC_H
#define BERTH_KERNELS_CPU_VEC_H
#include "kernels/cpu/coef.h"
#include "kernels/types.h"
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
    v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
#else
    v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
#endif
    return v[0] + v[1];
}

/* In place, VEC vectors of VEC: pairs, then quarters, then halves change places. */
ALWAYS_INLINE void vec_transpose(vec r[VEC]) {
    vec t[VEC];
    UNROLL(8)
    for (int i = 0; i < VEC; i += 4) {
#if VEC == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW2(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define LOW2(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif
        const vec a = LOW(r[i], r[i + 1]), b = HIGH(r[i], r[i + 1]);
        const vec c = LOW(r[i + 2], r[i + 3]), d = HIGH(r[i + 2], r[i + 3]);
        t[i] = LOW2(a, c), t[i + 1] = HIGH2(a, c);
        t[i + 2] = LOW2(b, d), t[i + 3] = HIGH2(b, d);
    }
    UNROLL(8)
    for (int i = 0; i < 4; i++) {
#if VEC == 8
        r[i] = __builtin_shufflevector(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
#else
        r[i] = t[i];
#endif
    }
#undef LOW
#undef HIGH
#undef LOW2
#undef HIGH2
}

/* Horner's scheme, the degree a constant. */
ALWAYS_INLINE vec vec_horner(const float *coef, int degree, vec u) {
    vec p = vec_set(coef[degree]);
    UNROLL(16)
    for (int i = degree - 1; i >= 0; i--) {
        p = vec_fma(p, u, vec_set(coef[i]));
    }
    return p;
}
/* 2^x, x clamped to [-126, 126]. x is an integer and a fraction in [-1/2, 1/2]: the fraction goes
 * through a polynomial, the integer into the exponent. */
ALWAYS_INLINE vec vec_exp2(vec x) {
    x = vec_min(vec_set(126.0f), vec_max(vec_set(-126.0f), x));
    const vec magic = vec_set(12582912.0f); // 1.5 * 2^23: what is added to it loses its fraction
    const vec t = x + magic;
    const vec p = vec_horner(exp2_coef, EXP2_DEGREE, x - (t - magic));
    return (vec)((ivec)p + ((ivec)t << 23));
}
/* x * Phi(x). Clamped from below twice, so that what Phi lacks to 0 there is not blown up by x. */
ALWAYS_INLINE vec vec_gelu(vec x) {
    const vec low = vec_max(vec_set(-GELU_LIMIT), x), c = vec_min(vec_set(GELU_LIMIT), low);
    const vec u = vec_fma(c * c, vec_set(2.0f / (GELU_LIMIT * GELU_LIMIT)), vec_set(-1.0f));
    return low * vec_fma(c, vec_horner(gelu_coef, GELU_DEGREE, u), vec_set(0.5f));
}
/* 1 / (1 + e^-x) */
ALWAYS_INLINE vec vec_sigmoid(vec x) {
    return vec_set(1.0f) / (vec_set(1.0f) + vec_exp2(x * vec_set(-1.44269504f)));
}
/* The rarer activations, by formulas that only need exp2. */
static inline vec vec_activation(enum activation a, vec x) {
    switch (a) {
    case ACT_GELU: return vec_gelu(x);
    case ACT_GELU_TANH: // x / 2 * (1 + tanh(z)) = x * sigmoid(2 z)
        return x * vec_sigmoid(x * vec_fma(x * x, vec_set(0.0713548163f), vec_set(1.59576912f)));
    case ACT_RELU: return vec_max(vec_set(0.0f), x);
    case ACT_TANH: return vec_fma(vec_set(2.0f), vec_sigmoid(x + x), vec_set(-1.0f));
    default: return x;
    }
}
#endif
