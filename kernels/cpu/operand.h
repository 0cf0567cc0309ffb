/* operand.h - what differs between precisions in gemm.c and gemm_amx.c: words, sums, one step, and
 * how sums become floats. GEMM_BITS is 32, 16 or 8. Where the instruction a step is made for is
 * missing, plain vector code does the same: in tests (CPU_EMULATE) and on the baseline. */
#ifndef BERTH_KERNELS_CPU_OPERAND_H
#define BERTH_KERNELS_CPU_OPERAND_H
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_math.h"
#include <math.h>

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

/* A tile: some rows by NR columns. */
struct tile {
    float *y;
    int64_t ldy;       // of the sums; a packed result is [columns][rows]
    const float *bias; // NULL: the sums begin with what is in y
    const float *residual; // only with bias
    int64_t ld_residual;
    int steps; // words of a row
    const char *prefetch;
    int prefetch_lines; // a round
    enum activation activation;
    bool packed;
    /* int8: of these columns, n_padded from group to group; of these rows, range_rows likewise. */
    const float *scales, *column_sums;
    const struct row_range *ranges;
    int n_padded, range_rows;
};

/* What block 0 starts from, or what the blocks before have left. */
ALWAYS_INLINE void tile_base(const struct tile *t, int r, vec *a, vec *b) {
    if (!t->bias) {
        *a = vec_load(t->y + r * t->ldy), *b = vec_load(t->y + r * t->ldy + VEC);
        return;
    }
    *a = vec_load(t->bias), *b = vec_load(t->bias + VEC);
    if (t->residual) {
        *a += vec_load(t->residual + r * t->ld_residual);
        *b += vec_load(t->residual + r * t->ld_residual + VEC);
    }
}

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
/* Compilers know that integers may be added in any order, and put the additions of several steps off
 * to the end, where the products have long run out of registers. */
ALWAYS_INLINE ivec add_now(ivec s, ivec products) {
    s += products;
#ifdef __x86_64__
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
#if GEMM_BITS == 8 && ((VEC == 8 && !defined(__AVXVNNI__)) ||                                       \
                       (defined(__AVX512BW__) && !defined(__AVX512VNNI__)))
#define PAIRS_SATURATE true
#else
#define PAIRS_SATURATE false
#endif

#if GEMM_BITS == 8
/* Adds the sums of row r over group `group` of values to *a and *b. */
ALWAYS_INLINE void sums_add(const struct tile *t, int group, int r, sums s, sums u, vec *a,
                            vec *b) {
    const struct row_range range = t->ranges[(ptrdiff_t)group * t->range_rows + r];
    const ptrdiff_t at = (ptrdiff_t)group * t->n_padded;
    const float *scales = t->scales + at, *column_sums = t->column_sums + at;
    const vec scale = vec_set(range.scale), offset = vec_set(range.offset);
    const vec x = vec_fma(vec_from_ints(s), scale, offset * vec_load(column_sums));
    const vec y = vec_fma(vec_from_ints(u), scale, offset * vec_load(column_sums + VEC));
    *a = vec_fma(x, vec_load(scales), *a);
    *b = vec_fma(y, vec_load(scales + VEC), *b);
}
#endif

#if GEMM_BITS == 16
/* To the nearest, ties to even; NaN stays NaN. */
ALWAYS_INLINE uvec round_to_bfloat(vec x) {
    const uvec bits = (uvec)x, rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return (uvec)vec_choose(x == x, (vec)rounded, (vec)(bits | 0x400000)) >> 16;
}
/* A chunk's words. `n` values are there, the rest is zero. */
ALWAYS_INLINE ivec pack_chunk(const float *x, int n, const struct row_range *unused) {
    const vec a = n >= VEC ? vec_load(x) : vec_load_n(x, n);
    const vec b = n >= 2 * VEC ? vec_load(x + VEC)
                               : vec_load_n(n > VEC ? x + VEC : x, n > VEC ? n - VEC : 0);
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

/* Not inlined: one copy for the rarer activations, off the path of the others. */
static __attribute__((noinline)) void activate_rare(vec *v, int n, enum activation activation) {
    for (int i = 0; i < n; i++) {
        v[i] = vec_activation(activation, v[i]);
    }
}
ALWAYS_INLINE void tile_activate(const struct tile *t, vec *a, vec *b, int rows) {
    if (t->activation == ACT_GELU) {
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            a[r] = vec_gelu(a[r]), b[r] = vec_gelu(b[r]);
        }
    } else if (t->activation != ACT_NONE) {
        vec v[2 * MR]; // a copy: an address taken would keep the sums out of registers
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v[r] = a[r], v[MR + r] = b[r];
        }
        activate_rare(v, rows, t->activation);
        activate_rare(v + MR, rows, t->activation);
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            a[r] = v[r], b[r] = v[MR + r];
        }
    }
}

/* A tile's columns of a weight: what its epilogue needs of them. */
ALWAYS_INLINE struct tile tile_of(const struct gemm *g, int block, int n) {
    const bool last = block == gemm_blocks(g->w) - 1;
    const size_t group = (size_t)block * (GEMM_KC / SCALED);
    const size_t at = group * (size_t)g->w->n_padded + (size_t)n;
    return (struct tile){
        .ldy = g->ldy,
        .bias = block == 0 ? g->w->bias + n : NULL,
        .ld_residual = g->ld_residual,
        .steps = gemm_words(g->w->kernel, gemm_block_len(g->w->k, block * GEMM_KC)),
        .activation = last ? g->activation : ACT_NONE,
        .packed = last && g->y_packed,
        .scales = GEMM_BITS == 8 ? g->w->scales + at : NULL,
        .column_sums = GEMM_BITS == 8 ? g->w->sums + at : NULL,
        .n_padded = g->w->n_padded,
    };
}
/* Copies between an edge tile's place, `n` floats wide, and its buffer, NR wide. */
static void copy_rows(float *to, int64_t ld_to, const float *from, int64_t ld_from, int rows,
                      int n) {
    for (int r = 0; r < rows; r++) {
        memcpy(to + r * ld_to, from + r * ld_from, (size_t)n * sizeof(*to));
    }
}
/* An edge tile's own buffers, filled with what its first `cols` columns start from. */
struct edge {
    _Alignas(64) float y[MR * NR], residual[MR * NR];
};
static void edge_begin(struct edge *e, struct tile *t, int rows, int cols) {
    memset(e, 0, sizeof(*e));
    if (!t->bias) {
        copy_rows(e->y, NR, t->y, t->ldy, rows, cols);
    } else if (t->residual) {
        copy_rows(e->residual, NR, t->residual, t->ld_residual, rows, cols);
        t->residual = e->residual, t->ld_residual = NR;
    }
    t->y = e->y, t->ldy = NR;
}
#endif
