/* gemm.c - the micro-kernel, the loops around it, and the packing of x; compiled for each precision
 * (words.h, step.h) of an ISA.
 * A tile is up to MR rows by NR columns: per step two vectors of W and a broadcast of each row's
 * word of x feed 2 * rows sums. 12 sums keep both FMA pipes of an AVX2 core busy (4 cycles deep
 * each) and fit its 16 registers. Tiles at the right edge of W work in a buffer of their own. While
 * a panel of W is used, the next one is asked for, evenly over the tiles: in a burst the prefetches
 * would stall the loads. */
#include "kernels/cpu/gemm.h"

#include "kernels/cpu/step.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vec_transpose.h"

enum {
    STEPS = 8, // between two rounds of prefetches
    LINE = 64, // bytes
    PARTS = (MR + VEC - 1) / VEC,
};
#define EACH_4(X) X(1) X(2) X(3) X(4)
#define EACH_5(X) EACH_4(X) X(5)
#define EACH_6(X) EACH_5(X) X(6)
#define EACH_9(X) EACH_6(X) X(7) X(8) X(9)
#define EACH_14(X) EACH_9(X) X(10) X(11) X(12) X(13) X(14)
#define EACH_OF(mr) ISA_JOIN_EACH(mr)
#define ISA_JOIN_EACH(mr) EACH_##mr
#define EACH_ROWS(X) EACH_OF(MR)(X)

/* Writes `rows` vectors as VEC columns: [VEC][rows]. Whole vectors are stored in ascending order,
 * so that what one writes too much the next one overwrites; `exact` keeps the end in bounds. */
ALWAYS_INLINE void store_columns(float *out, const vec *v, int rows, bool exact) {
    vec t[PARTS][VEC];
    UNROLL(2)
    for (int p = 0; p < PARTS; p++) {
        UNROLL(16)
        for (int i = 0; i < VEC; i++) {
            t[p][i] = p * VEC + i < rows ? v[p * VEC + i] : vec_set(0.0f);
        }
        vec_transpose(t[p]);
    }
    UNROLL(16)
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

#if GEMM_BITS == 32
ALWAYS_INLINE void pack_group(float *out, const float *x, int64_t ldx, int k, int rows) {
    int i = 0;
    for (; i + VEC <= k; i += VEC) {
        vec v[MR];
        UNROLL(16)
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
#define PACK(rows)                                                                                 \
    static void pack_##rows(float *out, const float *x, int64_t ldx, int k,                        \
                            const struct row_range *ranges, int m) {                               \
        pack_group(out, x, ldx, k, rows);                                                          \
    }
#else
ALWAYS_INLINE void pack_group(float *out, const float *x, int64_t ldx, int k,
                              const struct row_range *ranges, int m, int rows) {
    for (int i = 0; i < k; i += CHUNK, out += (ptrdiff_t)LANES * rows) {
        const struct row_range *const of_group = ranges + (ptrdiff_t)(i / SCALED) * m;
        vec v[MR];
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            v[r] = (vec)pack_chunk(x + r * ldx + i, k - i, &of_group[r]);
        }
        store_columns(out, v, rows, false);
    }
}
#define PACK(rows)                                                                                 \
    static void pack_##rows(float *out, const float *x, int64_t ldx, int k,                        \
                            const struct row_range *ranges, int m) {                               \
        pack_group(out, x, ldx, k, ranges, m, rows);                                               \
    }
#endif
EACH_ROWS(PACK)
typedef void pack_fn(float *out, const float *x, int64_t ldx, int k, const struct row_range *ranges,
                     int m);
#define PACK_NAME(rows) pack_##rows,
static pack_fn *const packs[MR + 1] = {NULL, EACH_ROWS(PACK_NAME)};

static int block_words(int k) {
    return (k + CHUNK - 1) / CHUNK * LANES;
}
static size_t packed_words(int m, int k) {
    return (size_t)m * (size_t)(block_words(k) + range_words(k));
}
/* Ascending groups, for store_columns(). Words are moved as floats, whatever they hold. */
static void pack_rows(void *out, const float *x, int64_t ldx, int m, int k) {
    const int n_groups = gemm_groups(m, MR), words = block_words(k);
    struct row_range *ranges = out;
    float *to = (float *)out + (ptrdiff_t)m * range_words(k);
    for (int i = 0; i < n_groups; i++) {
        const int r = gemm_group_begin(m, n_groups, i);
        const int rows = gemm_group_begin(m, n_groups, i + 1) - r;
#if GEMM_BITS == 8
        for (int j = r; j < r + rows; j++) {
            ranges_of(ranges + j, m, x + j * ldx, k);
        }
#endif
        packs[rows](to + (ptrdiff_t)r * words, x + r * ldx, ldx, k, ranges + r, m);
    }
}

ALWAYS_INLINE void tile_step(sums a[MR], sums b[MR], const word *x, const word *w, int rows) {
    const __typeof__(word_load(w)) w0 = word_load(w), w1 = word_load(w + VEC);
    UNROLL(16)
    for (int r = 0; r < rows; r++) {
        const __typeof__(w0) v = word_set(x[r]);
        a[r] = step(a[r], v, w0);
        b[r] = step(b[r], v, w1);
    }
}

ALWAYS_INLINE void tile_sum(const struct tile *t, sums a[MR], sums b[MR], const word *x,
                            const word *w, int steps, const char **prefetch, int rows) {
    const char *next = *prefetch;
    int k = steps;
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
    *prefetch = next;
}

#if GEMM_BITS == 8
/* Group by group: integers, then floats. */
ALWAYS_INLINE void tile_products(const struct tile *t, vec a[MR], vec b[MR], const word *x,
                                 const word *w, const char *next, int rows) {
    enum { GROUP_STEPS = SCALED / PER_WORD };
    for (int group = 0, at = 0; at < t->steps; group++, at += GROUP_STEPS) {
        const int steps = t->steps - at < GROUP_STEPS ? t->steps - at : GROUP_STEPS;
        sums s[MR], u[MR];
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            s[r] = u[r] = ivec_set(0);
        }
        tile_sum(t, s, u, x + (ptrdiff_t)at * rows, w + (ptrdiff_t)at * NR, steps, &next, rows);
        UNROLL(16)
        for (int r = 0; r < rows; r++) {
            sums_add(t, group, r, s[r], u[r], &a[r], &b[r]);
        }
    }
}
#else
ALWAYS_INLINE void tile_products(const struct tile *t, vec a[MR], vec b[MR], const word *x,
                                 const word *w, const char *next, int rows) {
    tile_sum(t, a, b, x, w, t->steps, &next, rows);
}
#endif

ALWAYS_INLINE void tile_run(const struct tile *t, const word *x, const word *w, int rows) {
    vec a[MR], b[MR];
    UNROLL(16)
    for (int r = 0; r < rows; r++) {
        tile_base(t, r, &a[r], &b[r]);
    }
    tile_products(t, a, b, x, w, t->prefetch, rows);
    tile_activate(t, a, b, rows);
    if (t->packed) {
        store_columns(t->y, a, rows, false);
        store_columns(t->y + (ptrdiff_t)VEC * rows, b, rows, true);
        return;
    }
    UNROLL(16)
    for (int r = 0; r < rows; r++) {
        vec_store(t->y + r * t->ldy, a[r]);
        vec_store(t->y + r * t->ldy + VEC, b[r]);
    }
}

typedef void tile_fn(const struct tile *t, const word *x, const word *w);
#define TILE(rows)                                                                                 \
    static void tile_##rows(const struct tile *t, const word *x, const word *w) {                  \
        tile_run(t, x, w, rows);                                                                   \
    }
EACH_ROWS(TILE)
#define TILE_NAME(rows) tile_##rows,
static tile_fn *const tiles[MR + 1] = {NULL, EACH_ROWS(TILE_NAME)};

/* A tile of which only the first `cols` columns exist. In a packed y its place is that many columns
 * of `rows` floats; partial sums stand there row by row. */
static void edge_tile(const struct tile *whole, const word *x, const word *w, int rows, int cols) {
    struct edge e;
    struct tile t = *whole;
    edge_begin(&e, &t, rows, cols);
    tiles[rows](&t, x, w);
    if (t.packed) {
        memcpy(whole->y, e.y, (size_t)cols * (size_t)rows * sizeof(*e.y));
    } else {
        copy_rows(whole->y, whole->ldy, e.y, NR, rows, cols);
    }
}

/* Where the tile of rows [r, r + rows) and columns from n on stands in y. */
static float *tile_place(const struct gemm *g, int r, int rows, int n) {
    if (!g->y_packed) {
        return g->y + r * g->ldy + n - g->y_n0;
    }
    const int k0 = n / KC * KC, kb = g->w->n - k0 < KC ? g->w->n - k0 : KC;
    return g->y + (ptrdiff_t)(k0 - g->y_n0) * g->m + (ptrdiff_t)r * kb + (ptrdiff_t)(n - k0) * rows;
}

/* One panel of W's block `block` against all groups of rows. */
static void run_panel(const struct gemm *g, int block, const void *x, const word *w, int n) {
    const int n_groups = gemm_groups(g->m, MR), kb = gemm_block_len(g->w, block * KC);
    const int cols = g->w->n - n < NR ? g->w->n - n : NR;
    const word *const rows_of_x = (const word *)x + (ptrdiff_t)g->m * range_words(kb);
    struct tile t = tile_of(g, block, n);
    const char *const next = (const char *)(w + (ptrdiff_t)NR * t.steps); // past W's end: harmless
    const char *const end = next + (size_t)t.steps * NR * sizeof(*w);
    t.ldy = g->y_packed ? cols : g->ldy;
    t.prefetch = next, t.range_rows = g->m;
    t.prefetch_lines = (STEPS * NR * (int)sizeof(*w) / LINE + n_groups - 1) / n_groups;
    for (int i = 0, r = 0; i < n_groups; i++) {
        const int rows = gemm_group_begin(g->m, n_groups, i + 1) - r;
        t.y = tile_place(g, r, rows, n);
        t.residual = g->residual ? g->residual + r * g->ld_residual + n : NULL;
        t.ranges = (const struct row_range *)x + r;
        if (cols == NR) {
            tiles[rows](&t, rows_of_x + (ptrdiff_t)r * t.steps, w);
        } else {
            edge_tile(&t, rows_of_x + (ptrdiff_t)r * t.steps, w, rows, cols);
        }
        t.prefetch += t.steps / STEPS * t.prefetch_lines * LINE;
        t.prefetch_lines = t.prefetch < end ? t.prefetch_lines : 0;
        r += rows;
    }
}

static void run(const struct gemm *g) {
    const word *x = g->x;
    for (int block = g->b0; block < g->b1; block++) {
        const int k0 = block * KC, kb = gemm_block_len(g->w, k0);
        const size_t steps = (size_t)block_words(kb);
        const word *w = (const word *)g->w->data + (size_t)k0 / PER_WORD * (size_t)g->w->n_padded;
        for (int n = g->n0; n < g->n1; n += NR) {
            run_panel(g, block, x, w + (size_t)n * steps, n);
        }
        x += packed_words(g->m, kb);
    }
}

extern const struct gemm_kernel KERNEL;
const struct gemm_kernel KERNEL = {
    .dtype = DTYPE,
    .nr = NR,
    .kc = KC,
    .per_word = PER_WORD,
    .lanes = LANES,
    .scaled = SCALED,
    .pairs_saturate = PAIRS_SATURATE,
    .packs_result = GEMM_BITS == 32,
    .pack_panel = PACK_PANEL,
    .packed_words = packed_words,
    .pack_rows = pack_rows,
    .run = run,
};

#if GEMM_BITS != 8
void PACK_ROWS(void *out, const float *x, int64_t ldx, int m, int k) {
    pack_rows(out, x, ldx, m, k);
}
void GEMM_TILE(float *y, const float *x, const float *w, int rows, int words) {
    static const float zeros[NR];
    const struct tile t = {.y = y, .ldy = NR, .bias = zeros, .steps = words};
    tiles[rows](&t, (const word *)x, (const word *)w);
}
#endif
