/* tile.h - what tiles of every precision have in common: where sums start from, how they end. */
#ifndef BERTH_KERNELS_CPU_TILE_H
#define BERTH_KERNELS_CPU_TILE_H
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/words.h"

/* A tile: some rows by NR columns. */
struct tile {
    float *y;
    int64_t ldy;           // of the sums; a packed result is [columns][rows]
    const float *bias;     // NULL: the sums begin with what is in y
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
    const size_t group = (size_t)block * (KC / SCALED);
    const size_t at = group * (size_t)g->w->n_padded + (size_t)n;
    return (struct tile){
        .ldy = g->ldy,
        .bias = block == 0 ? g->w->bias + n : NULL,
        .ld_residual = g->ld_residual,
        .steps = gemm_words(g->w->kernel, gemm_block_len(g->w, block * KC)),
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
