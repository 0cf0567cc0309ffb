/* gemm.c - the micro-kernel, the loops around it, and the packing of x.
 * A tile is up to GEMM_MR rows by NR columns: per step of k two vectors of W and a broadcast of
 * each row's x feed 2 * rows multiply-adds. 12 sums keep both FMA pipes of an AVX2 core busy (4
 * cycles deep each) and fit its 16 registers. Tiles at the right edge of W work in a buffer of
 * their own. While a panel of W is used, the next one is asked for, evenly over the tiles: in a
 * burst the prefetches would stall the loads. */
#include "kernels/cpu/gemm.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/vec_transpose.h"

enum {
    STEPS = 8, // of k between two rounds of prefetches
    LINE = 64, // bytes
    PARTS = (GEMM_MR + VEC - 1) / VEC,
};

/* Writes `rows` vectors as VEC columns: [VEC][rows]. Whole vectors are stored in ascending order,
 * so that what one writes too much the next one overwrites; `exact` keeps the end in bounds. */
ALWAYS_INLINE void store_columns(float *out, const vec *v, int rows, bool exact) {
    vec t[PARTS][VEC];
    UNROLL(2)
    for (int p = 0; p < PARTS; p++) {
        UNROLL(8)
        for (int i = 0; i < VEC; i++) {
            t[p][i] = p * VEC + i < rows ? v[p * VEC + i] : vec_set(0.0f);
        }
        vec_transpose(t[p]);
    }
    UNROLL(8)
    for (int i = 0; i < VEC; i++) {
        UNROLL(2)
        for (int p = 0; p * VEC < rows; p++) {
            const int at = i * rows + p * VEC, n = rows - p * VEC;
            if (exact && n < VEC && at + VEC > VEC * rows) {
                vec_store_n(out + at, t[p][i], n);
            } else {
                vec_store(out + at, t[p][i]);
            }
        }
    }
}

ALWAYS_INLINE void pack_group(float *out, const float *x, int64_t ldx, int k, int rows) {
    int i = 0;
    for (; i + VEC <= k; i += VEC) {
        vec v[GEMM_MR];
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            v[r] = vec_load(x + r * ldx + i);
        }
        store_columns(out + (ptrdiff_t)i * rows, v, rows, false);
    }
    for (; i < k; i++) {
        for (int r = 0; r < rows; r++) {
            out[(ptrdiff_t)i * rows + r] = x[r * ldx + i];
        }
    }
}

/* Packs one k block of m rows. Ascending groups, for store_columns(). */
void ISA(pack_rows)(float *out, const float *x, int64_t ldx, int m, int k) {
    const int n_groups = gemm_groups(m);
    for (int i = 0; i < n_groups; i++) {
        const int r = gemm_group_begin(m, n_groups, i);
        float *o = out + (ptrdiff_t)r * k;
        const float *in = x + r * ldx;
        switch (gemm_group_begin(m, n_groups, i + 1) - r) {
        case 1: pack_group(o, in, ldx, k, 1); break;
        case 2: pack_group(o, in, ldx, k, 2); break;
        case 3: pack_group(o, in, ldx, k, 3); break;
        case 4: pack_group(o, in, ldx, k, 4); break;
        case 5: pack_group(o, in, ldx, k, 5); break;
        default: pack_group(o, in, ldx, k, 6); break;
        }
    }
}

/* What a tile needs besides x and W. */
struct tile {
    float *y;
    int64_t ldy;           // of the sums; a packed result is [columns][rows]
    const float *bias;     // NULL: the sums begin with what is in y
    const float *residual; // only with bias
    int64_t ld_residual;
    int k;
    const char *prefetch;
    int prefetch_lines; // a round
    enum activation activation;
    bool packed;
};

ALWAYS_INLINE void tile_begin(const struct tile *t, vec a[GEMM_MR], vec b[GEMM_MR], int rows) {
    if (!t->bias) {
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            a[r] = vec_load(t->y + r * t->ldy), b[r] = vec_load(t->y + r * t->ldy + VEC);
        }
        return;
    }
    const vec bias0 = vec_load(t->bias), bias1 = vec_load(t->bias + VEC);
    UNROLL(6)
    for (int r = 0; r < rows; r++) {
        a[r] = bias0, b[r] = bias1;
    }
    if (t->residual) {
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            a[r] += vec_load(t->residual + r * t->ld_residual);
            b[r] += vec_load(t->residual + r * t->ld_residual + VEC);
        }
    }
}

ALWAYS_INLINE void tile_step(vec a[GEMM_MR], vec b[GEMM_MR], const float *x, const float *w,
                             int rows) {
    const vec w0 = vec_load(w), w1 = vec_load(w + VEC);
    UNROLL(6)
    for (int r = 0; r < rows; r++) {
        const vec v = vec_set(x[r]);
        a[r] = vec_fma(v, w0, a[r]);
        b[r] = vec_fma(v, w1, b[r]);
    }
}

ALWAYS_INLINE void tile_sum(const struct tile *t, vec a[GEMM_MR], vec b[GEMM_MR], const float *x,
                            const float *w, int rows) {
    const char *next = t->prefetch;
    int k = t->k;
    for (; k >= STEPS; k -= STEPS, w += STEPS * NR, x += STEPS * rows) {
        for (int i = 0; i < t->prefetch_lines; i++, next += LINE) {
            __builtin_prefetch(next, 0, 2);
        }
        UNROLL(8)
        for (int j = 0; j < STEPS; j++) {
            tile_step(a, b, x + (ptrdiff_t)j * rows, w + (ptrdiff_t)j * NR, rows);
        }
    }
    for (; k > 0; k--, w += NR, x += rows) {
        tile_step(a, b, x, w, rows);
    }
}

/* Not inlined: one copy for the rarer activations, off the path of the others. */
static __attribute__((noinline)) void activate_rare(vec *v, int n, enum activation activation) {
    for (int i = 0; i < n; i++) {
        v[i] = vec_activation(activation, v[i]);
    }
}

ALWAYS_INLINE void tile_activate(const struct tile *t, vec a[GEMM_MR], vec b[GEMM_MR], int rows) {
    if (t->activation == ACT_GELU) {
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            a[r] = vec_gelu(a[r]), b[r] = vec_gelu(b[r]);
        }
    } else if (t->activation != ACT_NONE) {
        vec v[2 * GEMM_MR]; // a copy: an address taken would keep the sums out of registers
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            v[r] = a[r], v[GEMM_MR + r] = b[r];
        }
        activate_rare(v, rows, t->activation);
        activate_rare(v + GEMM_MR, rows, t->activation);
        UNROLL(6)
        for (int r = 0; r < rows; r++) {
            a[r] = v[r], b[r] = v[GEMM_MR + r];
        }
    }
}

ALWAYS_INLINE void tile_run(const struct tile *t, const float *x, const float *w, int rows) {
    vec a[GEMM_MR], b[GEMM_MR];
    tile_begin(t, a, b, rows);
    tile_sum(t, a, b, x, w, rows);
    tile_activate(t, a, b, rows);
    if (t->packed) {
        store_columns(t->y, a, rows, false);
        store_columns(t->y + (ptrdiff_t)VEC * rows, b, rows, true);
        return;
    }
    UNROLL(6)
    for (int r = 0; r < rows; r++) {
        vec_store(t->y + r * t->ldy, a[r]);
        vec_store(t->y + r * t->ldy + VEC, b[r]);
    }
}

typedef void tile_fn(const struct tile *t, const float *x, const float *w);
#define TILE(rows)                                                                                 \
    static void tile_##rows(const struct tile *t, const float *x, const float *w) {                \
        tile_run(t, x, w, rows);                                                                   \
    }                                                                                              \
    struct tile /* so that a semicolon may follow */
TILE(1);
TILE(2);
TILE(3);
TILE(4);
TILE(5);
TILE(6);
static tile_fn *const tiles[GEMM_MR + 1] = {
    NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6,
};

/* Copies between an edge tile's place, `n` floats wide, and its buffer, NR wide. */
static void copy_rows(float *to, int64_t ld_to, const float *from, int64_t ld_from, int rows,
                      int n) {
    for (int r = 0; r < rows; r++) {
        memcpy(to + r * ld_to, from + r * ld_from, (size_t)n * sizeof(*to));
    }
}

/* A tile of which only the first `cols` columns exist. In a packed y its place is that many columns
 * of `rows` floats; partial sums stand there row by row. */
static void edge_tile(const struct tile *edge, const float *x, const float *w, int rows, int cols) {
    _Alignas(64) float sums[GEMM_MR * NR] = {0}, residual[GEMM_MR * NR] = {0};
    struct tile t = *edge;
    t.y = sums, t.ldy = NR;
    if (!t.bias) {
        copy_rows(sums, NR, edge->y, edge->ldy, rows, cols);
    } else if (t.residual) {
        copy_rows(residual, NR, t.residual, t.ld_residual, rows, cols);
        t.residual = residual, t.ld_residual = NR;
    }
    tiles[rows](&t, x, w);
    if (t.packed) {
        memcpy(edge->y, sums, (size_t)cols * (size_t)rows * sizeof(*sums));
    } else {
        copy_rows(edge->y, edge->ldy, sums, NR, rows, cols);
    }
}

/* Where the tile of rows [r, r + rows) and columns from n on stands in y. */
static float *tile_place(const struct gemm *g, int r, int rows, int n) {
    if (!g->y_packed) {
        return g->y + r * g->ldy + n;
    }
    const int k0 = n / GEMM_KC * GEMM_KC, kb = gemm_block_len(g->w->n, k0);
    return g->y + (ptrdiff_t)(k0 - g->y_block * GEMM_KC) * g->m + (ptrdiff_t)r * kb +
           (ptrdiff_t)(n - k0) * rows;
}

/* One panel of W's block `block` against all groups of rows. */
static void run_panel(const struct gemm *g, int block, const float *x, const float *w, int n) {
    const int kb = gemm_block_len(g->w->k, block * GEMM_KC), n_groups = gemm_groups(g->m);
    const int cols = g->w->n - n < NR ? g->w->n - n : NR;
    const char *const next = (const char *)(w + (ptrdiff_t)NR * kb); // past W's end: harmless
    const char *const end = next + (size_t)kb * NR * sizeof(*w);
    const bool last = block == gemm_blocks(g->w) - 1;
    struct tile t = {
        .ldy = g->y_packed ? cols : g->ldy,
        .bias = block == 0 ? g->w->bias + n : NULL,
        .ld_residual = g->ld_residual,
        .k = kb,
        .prefetch = next,
        .prefetch_lines = (STEPS * NR * (int)sizeof(*w) / LINE + n_groups - 1) / n_groups,
        .activation = last ? g->activation : ACT_NONE,
        .packed = last && g->y_packed,
    };
    for (int i = 0, r = 0; i < n_groups; i++) {
        const int rows = gemm_group_begin(g->m, n_groups, i + 1) - r;
        t.y = tile_place(g, r, rows, n);
        t.residual = g->residual ? g->residual + r * g->ld_residual + n : NULL;
        if (cols == NR) {
            tiles[rows](&t, x + (ptrdiff_t)r * kb, w);
        } else {
            edge_tile(&t, x + (ptrdiff_t)r * kb, w, rows, cols);
        }
        t.prefetch += kb / STEPS * t.prefetch_lines * LINE;
        t.prefetch_lines = t.prefetch < end ? t.prefetch_lines : 0;
        r += rows;
    }
}

void ISA(gemm)(const struct gemm *g) {
    const float *x = g->x;
    for (int block = g->b0; block < g->b1; block++) {
        const int k0 = block * GEMM_KC, kb = gemm_block_len(g->w->k, k0);
        const float *w = g->w->data + (size_t)k0 * (size_t)g->w->n_padded;
        for (int n = g->n0; n < g->n1; n += NR) {
            run_panel(g, block, x, w + (size_t)n * (size_t)kb, n);
        }
        x += (ptrdiff_t)kb * g->m;
    }
}

/* The bare tile for attention's two products: y [rows][NR] = x [k][rows] times w [k][NR]. */
void ISA(gemm_tile)(float *y, const float *x, const float *w, int rows, int k) {
    static const float zeros[NR];
    const struct tile t = {.y = y, .ldy = NR, .bias = zeros, .k = k};
    tiles[rows](&t, x, w);
}
