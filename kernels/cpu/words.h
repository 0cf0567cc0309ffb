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
#define PACK_PANEL ISA(pack_panel_float32) // pack_weight.c
#define PACK_ROWS ISA(pack_rows_float32)
#define GEMM_TILE ISA(gemm_tile_float32)
#define ATTENTION ISA(attention_float32)
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
#define PACK_PANEL ISA(pack_panel_bfloat16) // pack_weight.c
#define PACK_ROWS ISA(pack_rows_bfloat16)
#define GEMM_TILE ISA(gemm_tile_bfloat16)
#define ATTENTION ISA(attention_bfloat16)
#define PER_WORD 2
typedef vec sums;
#else
#define DTYPE DTYPE_I8
#define KERNEL ISA(gemm_int8)
#define PACK_PANEL ISA(pack_panel_int8) // pack_weight.c
#define PER_WORD 4
typedef ivec sums;
#endif
#endif
#define CHUNK (PER_WORD * LANES) // values that are packed together
/* Values of a block of K. Long ones spare what every tile costs at both ends, which is most where a
 * tile takes least time. In fp32 a longer one gains 1 % with many rows and loses 4 % at 16, and
 * where L1 is 32 KiB a panel of W would not fit. */
#ifndef KC
#if GEMM_BITS == 32
#define KC GEMM_MIN_KC
#else
#define KC GEMM_MAX_KC
#endif
#endif
#ifndef SCALED
#define SCALED KC // values that share a scale
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
/* Words of an element of `a` and of `b` each. */
ALWAYS_INLINE ivec pack_pairs(vec a, vec b) {
    return (ivec)(round_to_bfloat(a) | round_to_bfloat(b) << 16);
}
/* A chunk's words. `n` values are there, the rest is zero. */
ALWAYS_INLINE ivec pack_chunk(const float *x, int n, const struct row_range *unused) {
    const vec a = n >= VEC ? vec_load(x) : vec_load_n(x, n);
    const vec b =
        n >= 2 * VEC ? vec_load(x + VEC) : vec_load_n(n > VEC ? x + VEC : x, n > VEC ? n - VEC : 0);
    return pack_pairs(a, b);
}
#endif
#if GEMM_BITS == 8
#include "kernels/cpu/quantise.h"
#endif
#endif
