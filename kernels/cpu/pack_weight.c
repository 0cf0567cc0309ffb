/* pack_weight.c - a panel of W in the words of its product (gemm.h), once an instruction set and
 * precision, like the product itself. A column is a row of the checkpoint's matrix, so VEC of them
 * are taken at a time, VEC words of each made in registers, and these transposed: all loads and
 * stores are of whole vectors, and what is written is one stream.
 * int8: a column has a scale for each group of values, the largest being 127. Where pairs saturate
 * (maddubs adds two products of up to 255 * 127 in 16 bits), the scale is also as large as keeps
 * two neighbours of one sign within 128 together: 255 * 128 fits. Large weights seldom stand side
 * by side, so that costs half a bit, where keeping every weight to 7 bits would cost a whole one.
 */
#include "kernels/cpu/step.h"
#include "kernels/cpu/vec_transpose.h"

enum { STEP_VALUES = PER_WORD * VEC }; // of each column, in VEC words

#if GEMM_BITS != 16
/* Up to VEC values from x on; zeros where there are none. */
ALWAYS_INLINE vec load_values(const float *x, int n) {
    return n >= VEC ? vec_load(x) : n > 0 ? vec_load_n(x, n) : vec_set(0.0f);
}
#endif
/* VEC columns' words to `n` steps of the panel. */
ALWAYS_INLINE void store_words(float *out, vec words[VEC], int n) {
    vec_transpose(words);
    for (int i = 0; i < n; i++) {
        vec_store(out + (ptrdiff_t)i * NR, words[i]);
    }
}

#if GEMM_BITS == 8
enum { Q_MAX = 127, PAIR_MAX = 128 };

/* What a column's scale depends on: the largest value, and the largest mean of a pair of one sign
 * (a sum could be infinite). */
struct extent {
    vec value, pair;
};
ALWAYS_INLINE vec pair_extent(vec a, vec b) {
    const vec zero = vec_set(0.0f), half = vec_set(0.5f);
    const vec up = vec_max(a, zero) * half + vec_max(b, zero) * half;
    return vec_max(up, -(vec_min(a, zero) * half + vec_min(b, zero) * half));
}
ALWAYS_INLINE struct extent widen(struct extent e, const float *x, int n) {
    vec v[PER_WORD];
    for (int i = 0; i < PER_WORD; i++) {
        v[i] = load_values(x + (ptrdiff_t)i * VEC, n - i * VEC);
        e.value = vec_max(e.value, vec_max(v[i], -v[i]));
    }
    for (int i = 0; PAIRS_SATURATE && i < PER_WORD; i += 2) {
        e.pair = vec_max(e.pair, pair_extent(v[i], v[i + 1]));
    }
    return e;
}
ALWAYS_INLINE vec largest_of_each(vec columns[VEC]) {
    vec_transpose(columns);
    for (int c = 1; c < VEC; c++) {
        columns[0] = vec_max(columns[0], columns[c]);
    }
    return columns[0];
}
/* Of VEC columns, `len` values each. */
static vec scales_of(const float *rows, int64_t ld, int len) {
    vec value[VEC], pair[VEC];
    for (int c = 0; c < VEC; c++) {
        struct extent e = {vec_set(0.0f), vec_set(0.0f)};
        for (int k = 0; k < len; k += STEP_VALUES) {
            e = widen(e, rows + c * ld + k, len - k);
        }
        value[c] = e.value, pair[c] = e.pair;
    }
    const vec scale = largest_of_each(value) / vec_set(Q_MAX);
    return PAIRS_SATURATE ? vec_max(scale, largest_of_each(pair) / vec_set(PAIR_MAX / 2)) : scale;
}

/* To the nearest, ties to even: a float of 2^23 and more has no fraction. Finite, and in range. */
ALWAYS_INLINE ivec round_values(vec v, vec inverse) {
    const vec whole = vec_set(0x1.8p23f);
    return (ivec)vec_fma(v, inverse, whole) - (ivec)whole;
}
/* Rounding may lift two neighbours of one sign to 129: the larger one gives way. */
ALWAYS_INLINE void bound_pair(ivec *a, ivec *b) {
    const ivec sum = *a + *b;
    const ivec above = sum > PAIR_MAX, below = sum < -PAIR_MAX; // all ones where it is so
    const ivec a_above = *a > *b, a_below = *a < *b;
    *a += (above & a_above) - (below & a_below);
    *b += (above & ~a_above) - (below & ~a_below);
}
/* A column's next words; the sum of its q grows. */
ALWAYS_INLINE vec quantised_words(ivec *sum, const float *x, int n, float inverse) {
    ivec q[PER_WORD], words = ivec_set(0);
    for (int i = 0; i < PER_WORD; i++) {
        q[i] = round_values(load_values(x + (ptrdiff_t)i * VEC, n - i * VEC), vec_set(inverse));
    }
    for (int i = 0; PAIRS_SATURATE && i < PER_WORD; i += 2) {
        bound_pair(&q[i], &q[i + 1]);
    }
    for (int i = 0; i < PER_WORD; i++) {
        *sum += q[i];
        words |= (q[i] & 255) << (8 * i);
    }
    return (vec)words;
}
ALWAYS_INLINE vec sum_of_each(ivec columns[VEC]) {
    vec t[VEC];
    memcpy(t, columns, sizeof(t));
    vec_transpose(t);
    ivec sum = ivec_set(0);
    for (int c = 0; c < VEC; c++) {
        sum += (ivec)t[c];
    }
    return vec_from_ints(sum);
}
/* One group of VEC columns. */
static void pack_group(float *out, float *scales, float *sums_of_q, const float *rows, int64_t ld,
                       int len) {
    const vec scale = scales_of(rows, ld, len), least = vec_set(1e-30f);
    const vec inverse = vec_choose(scale > least, vec_set(1.0f) / scale, vec_set(0.0f));
    ivec sum[VEC];
    memset(sum, 0, sizeof(sum));
    for (int k = 0; k < len; k += STEP_VALUES, out += VEC * NR) {
        vec words[VEC];
        for (int c = 0; c < VEC; c++) {
            words[c] = quantised_words(&sum[c], rows + c * ld + k, len - k, inverse[c]);
        }
        store_words(out, words, VEC);
    }
    vec_store(scales, scale);
    vec_store(sums_of_q, sum_of_each(sum));
}
static void pack_columns(struct linear_weight *w, float *out, const float *rows, int n, int k0,
                         int len) {
    for (int k = 0; k < len; k += SCALED, out += SCALED / PER_WORD * NR) {
        const size_t at = (size_t)((k0 + k) / SCALED) * (size_t)w->n_padded + (size_t)n;
        pack_group(out, w->scales + at, w->sums + at, rows + k, w->k,
                   len - k < SCALED ? len - k : SCALED);
    }
}
#else
ALWAYS_INLINE vec words_of(const float *x, int n) {
#if GEMM_BITS == 16
    return (vec)pack_chunk(x, n, NULL);
#else
    return load_values(x, n);
#endif
}
static void pack_columns(struct linear_weight *w, float *out, const float *rows, int n, int k0,
                         int len) {
    const int n_words = gemm_words(w->kernel, len);
    for (int k = 0, at = 0; k < len; k += STEP_VALUES, at += VEC) {
        vec words[VEC];
        for (int c = 0; c < VEC; c++) {
            words[c] = words_of(rows + (ptrdiff_t)c * w->k + k, len - k);
        }
        store_words(out + (ptrdiff_t)at * NR, words, n_words - at < VEC ? n_words - at : VEC);
    }
}
#endif

void PACK_PANEL(struct linear_weight *w, const float *rows, int n) {
    for (int k0 = 0; k0 < w->k; k0 += KC) {
        const int len = gemm_block_len(w, k0);
        float *out = (float *)w->data + (size_t)(k0 / PER_WORD) * (size_t)w->n_padded +
                     (size_t)n * (size_t)gemm_words(w->kernel, len);
        for (int half = 0; half < NR; half += VEC) {
            pack_columns(w, out + half, rows + (ptrdiff_t)half * w->k + k0, n + half, k0, len);
        }
    }
}
