/* step.h - one step of a product: a word of x for every lane, a word of W in each. Where the
 * instruction that a step is made for is missing, plain vector code does the same: on the baseline,
 * and in tests (CPU_EMULATE). */
#ifndef BERTH_KERNELS_CPU_STEP_H
#define BERTH_KERNELS_CPU_STEP_H
#include "kernels/cpu/words.h"

#if GEMM_BITS == 32
ALWAYS_INLINE sums step(sums s, vec x, vec w) {
    return vec_fma(x, w, s);
}
#elif GEMM_BITS == 16
ALWAYS_INLINE sums step(sums s, ivec x, ivec w) {
#if defined(__AVX512BF16__) && VEC == 16
    return (vec)_mm512_dpbf16_ps((__m512)s, (__m512bh)x, (__m512bh)w);
#else
    const ivec high = ivec_set((int32_t)0xffff0000);
    s = vec_fma((vec)(x & high), (vec)(w & high), s);
    return vec_fma((vec)((uvec)x << 16), (vec)((uvec)w << 16), s);
#endif
}
#else
/* Compilers know that integers may be added in any order, and put the additions of several steps
 * off to the end, where the products have long run out of registers. (Where a vec is wider than a
 * register, as in emulation, nothing can be pinned to one.) */
ALWAYS_INLINE ivec add_now(ivec s, ivec products) {
    s += products;
#if defined(__AVX512F__) || (defined(__AVX__) && VEC <= 8) || (defined(__x86_64__) && VEC <= 4)
    __asm__("" : "+v"(s));
#endif
    return s;
}
/* s[i] += the sum of four products of a byte of x, unsigned, and a byte of w, signed. */
ALWAYS_INLINE sums step(sums s, ivec x, ivec w) {
#if defined(__AVX512VNNI__) && VEC == 16
    return (ivec)_mm512_dpbusd_epi32((__m512i)s, (__m512i)x, (__m512i)w);
#elif defined(__AVXVNNI__) && VEC == 8
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)s, (__m256i)x, (__m256i)w);
#elif defined(__AVX512BW__) && VEC == 16
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)x, (__m512i)w);
    return add_now(s, (ivec)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#elif VEC == 8
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)x, (__m256i)w);
    return add_now(s, (ivec)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#else
    for (int j = 0; j < 32; j += 8) {
        s += ((x >> j) & 255) * ((ivec)((uvec)w << (24 - j)) >> 24);
    }
    return s;
#endif
}
#endif
#if GEMM_BITS == 8 &&                                                                              \
    ((VEC == 8 && !defined(__AVXVNNI__)) || (defined(__AVX512BW__) && !defined(__AVX512VNNI__)))
#define PAIRS_SATURATE true
#else
#define PAIRS_SATURATE false
#endif
#endif
