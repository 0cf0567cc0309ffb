/* words.h - a precision's operands (gemm.h): words, chunks, and floats packed into them. GEMM_BITS
 * is 32, 16 or 8, SCALED the values that share a scale. */
#ifndef BERTH_KERNELS_CPU_WORDS_H
#define BERTH_KERNELS_CPU_WORDS_H
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_int.h"
#include <math.h>

#ifndef GEMM_BITS
#define GEMM_BITS 32
#endif
#if GEMM_BITS == 32
#define DTYPE DTYPE_F32
#define KERNEL ISA(gemm_float32)
#define PER_WORD 1
#define LANES 1
typedef float word;
typedef vec sums;
#define word_set vec_set
#define word_load vec_load
#else
#define LANES VEC
typedef int32_t word;
#define word_set ivec_set
#define word_load ivec_load
#if GEMM_BITS == 16
#define DTYPE DTYPE_BF16
#define KERNEL ISA(gemm_bfloat16)
#define PER_WORD 2
typedef vec sums;
#else
#define DTYPE DTYPE_I8
#define KERNEL ISA(gemm_int8)
#define PER_WORD 4
typedef ivec sums;
#endif
#endif
#define CHUNK (PER_WORD * LANES) // values that are packed together
#ifndef SCALED
#define SCALED GEMM_KC // values that share a scale
#endif

/* x = offset + scale * q. */
struct row_range {
    float scale, offset;
};
ALWAYS_INLINE int groups_of(int k) { // of values with a scale
    return (k + SCALED - 1) / SCALED;
}
ALWAYS_INLINE int range_words(int k) { // of each row, before the words of a block
    return GEMM_BITS == 8 ? 2 * groups_of(k) : 0;
}

#if GEMM_BITS == 16
/* To the nearest, ties to even; NaN stays NaN. */
ALWAYS_INLINE uvec round_to_bfloat(vec x) {
    const uvec bits = (uvec)x, rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return (uvec)vec_choose(x == x, (vec)rounded, (vec)(bits | 0x400000)) >> 16;
}
/* A chunk's words. `n` values are there, the rest is zero. */
ALWAYS_INLINE ivec pack_chunk(const float *x, int n, const struct row_range *unused) {
    const vec a = n >= VEC ? vec_load(x) : vec_load_n(x, n);
    const vec b =
        n >= 2 * VEC ? vec_load(x + VEC) : vec_load_n(n > VEC ? x + VEC : x, n > VEC ? n - VEC : 0);
    return (ivec)(round_to_bfloat(a) | round_to_bfloat(b) << 16);
}
#elif GEMM_BITS == 8
/* A scale that is not a number stands for a row with a value that is none: its results must say so,
 * and minimum and maximum pass over NaN. */
static inline struct row_range range_of(const float *x, int k) {
    vec low = vec_set(0.0f), high = low;
    ivec special = ivec_set(0);
    int i = 0;
    for (; i + VEC <= k; i += VEC) {
        const vec v = vec_load(x + i);
        low = vec_min(low, v), high = vec_max(high, v);
        special |= (ivec)(v - v);
    }
    const vec v = vec_load_n(x + i, k - i);
    low = vec_min(low, v), high = vec_max(high, v);
    special |= (ivec)(v - v);
    float least = 0, most = 0;
    int32_t any_special = 0;
    for (int j = 0; j < VEC; j++) {
        least = low[j] < least ? low[j] : least;
        most = high[j] > most ? high[j] : most;
        any_special |= special[j];
    }
    return (struct row_range){any_special ? NAN : (most - least) / 255, least};
}
/* Of all groups of a row's block, `rows` apart. */
static inline void ranges_of(struct row_range *out, int rows, const float *x, int k) {
    for (int i = 0; i < k; i += SCALED, out += rows) {
        *out = range_of(x + i, k - i < SCALED ? k - i : SCALED);
    }
}
ALWAYS_INLINE uvec quantise(const float *x, int n, vec inverse, vec shift) {
    const vec v = n >= VEC ? vec_load(x) : n > 0 ? vec_load_n(x, n) : vec_set(0.0f);
    return (uvec)vec_to_ints(vec_fma(v, inverse, shift));
}
ALWAYS_INLINE ivec pack_chunk(const float *x, int n, const struct row_range *range) {
    const float inverse = range->scale > 1e-30f ? 1 / range->scale : 0;
    const vec i = vec_set(inverse), shift = vec_set(0.5f - range->offset * inverse);
    const uvec low = quantise(x, n, i, shift) | quantise(x + VEC, n - VEC, i, shift) << 8;
    return (ivec)(low | quantise(x + (ptrdiff_t)2 * VEC, n - 2 * VEC, i, shift) << 16 |
                  quantise(x + (ptrdiff_t)3 * VEC, n - 3 * VEC, i, shift) << 24);
}
#endif
#endif
