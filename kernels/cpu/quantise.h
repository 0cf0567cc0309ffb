/* quantise.h - int8: a row's ranges, and its values in words; the rest of words.h, which includes
 * it.
 */
#ifndef BERTH_KERNELS_CPU_QUANTISE_H
#define BERTH_KERNELS_CPU_QUANTISE_H
#include "kernels/cpu/vec_fold.h"
#include "kernels/cpu/words.h"

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
    const float least = -vec_largest(-low), most = vec_largest(high);
    return (struct row_range){ivec_any(special) ? NAN : (most - least) / 255, least};
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
