/* gemm_amx.c - products of bf16 and int8 by AMX: 32 rows by 32 columns at a time, four tiles of
 * sums fed by two of x and two of W, so that every tile that is loaded is used twice. W is packed
 * as for vectors (gemm.h): 16 words of a panel of 32 columns are two tiles side by side. x stands
 * row by row, since a tile of x is 16 rows of 64 bytes; rows are filled up to whole tiles with
 * whatever is there, and those sums are thrown away. The sums go through memory into the same
 * epilogue as vectors have. Tests run this file with tiles in plain C (amx.h). */
#include "kernels/cpu/amx.h"
#include "kernels/cpu/tile.h"

#include <assert.h>

static_assert(SCALED == KC, "sums of a whole block leave the tiles together");
static_assert(VEC == TILE_WORDS && NR == 2 * TILE_WORDS, "panels are two tiles wide");

static int block_words(int k) {
    return (k + CHUNK - 1) / CHUNK * LANES;
}
static int padded_rows(int m) {
    return (m + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
}
static size_t packed_words(int m, int k) {
    return (size_t)padded_rows(m) * (size_t)(block_words(k) + range_words(k));
}
static void pack_rows(void *out, const float *x, int64_t ldx, int m, int k) {
    struct row_range *ranges = out;
    int32_t *to = (int32_t *)out + (ptrdiff_t)padded_rows(m) * range_words(k);
    for (int r = 0; r < m; r++, x += ldx) {
#if GEMM_BITS == 8
        ranges_of(ranges + r, m, x, k);
#endif
        for (int i = 0; i < k; i += CHUNK, to += VEC) {
            *(ivec_anywhere *)to = pack_chunk(x + i, k - i, &ranges[r]);
        }
    }
}

/* c: [32][32] words, of which the caller looks at `rows` rows. x and w: `words` of K. */
static void run_tiles(struct tiles *tiles, int32_t *c, const int32_t *x, const int32_t *w,
                      int words, int rows) {
    const bool two = rows > TILE_ROWS;
    tile_zero(tiles, 0);
    tile_zero(tiles, 1);
    tile_zero(tiles, 2);
    tile_zero(tiles, 3);
    for (int i = 0; i < words; i += TILE_WORDS) {
        tile_load(tiles, 4, x + i, words);
        tile_load(tiles, 6, w + (ptrdiff_t)i * NR, NR);
        tile_load(tiles, 7, w + (ptrdiff_t)i * NR + TILE_WORDS, NR);
        tile_product(tiles, 0, 4, 6);
        tile_product(tiles, 1, 4, 7);
        if (two) {
            tile_load(tiles, 5, x + (ptrdiff_t)TILE_ROWS * words + i, words);
            tile_product(tiles, 2, 5, 6);
            tile_product(tiles, 3, 5, 7);
        }
    }
    tile_store(tiles, 0, c, NR);
    tile_store(tiles, 1, c + TILE_WORDS, NR);
    if (two) {
        tile_store(tiles, 2, c + TILE_ROWS * NR, NR);
        tile_store(tiles, 3, c + TILE_ROWS * NR + TILE_WORDS, NR);
    }
}

/* One row of sums, with what they start from, to y. */
static void finish_row(const struct tile *t, const int32_t *c) {
    sums s[2];
    vec a, b;
    memcpy(s, c, sizeof(s));
    tile_base(t, 0, &a, &b);
#if GEMM_BITS == 16
    a += s[0], b += s[1];
#else
    sums_add(t, 0, 0, s[0], s[1], &a, &b);
#endif
    tile_activate(t, &a, &b, 1);
    vec_store(t->y, a), vec_store(t->y + VEC, b);
}
static void finish_edge_row(const struct tile *whole, const int32_t *c, int cols) {
    struct edge e;
    struct tile t = *whole;
    edge_begin(&e, &t, 1, cols);
    finish_row(&t, c);
    copy_rows(whole->y, NR, e.y, NR, 1, cols);
}

static void run_panel(const struct gemm *g, struct tiles *tiles, int block, const int32_t *x,
                      const int32_t *w, int n) {
    enum { STEP = 2 * TILE_ROWS };
    _Alignas(64) int32_t c[STEP * NR];
    struct tile t = tile_of(g, block, n);
    const int cols = g->w->n - n < NR ? g->w->n - n : NR;
    const int kb = gemm_block_len(g->w, block * KC);
    const int32_t *const rows_of_x = x + (ptrdiff_t)padded_rows(g->m) * range_words(kb);
    for (int r0 = 0; r0 < g->m; r0 += STEP) {
        const int rows = g->m - r0 < STEP ? g->m - r0 : STEP;
        run_tiles(tiles, c, rows_of_x + (ptrdiff_t)r0 * t.steps, w, t.steps, rows);
        for (int i = 0; i < rows; i++) {
            const int r = r0 + i;
            t.y = g->y + r * g->ldy + n - g->y_n0;
            t.residual = g->residual ? g->residual + r * g->ld_residual + n : NULL;
            t.ranges = (const struct row_range *)x + r;
            if (cols == NR) {
                finish_row(&t, c + (ptrdiff_t)i * NR);
            } else {
                finish_edge_row(&t, c + (ptrdiff_t)i * NR, cols);
            }
        }
    }
}

static void run(const struct gemm *g) {
    const int32_t *x = g->x;
    struct tiles tiles;
    tiles_open(&tiles);
    for (int block = g->b0; block < g->b1; block++) {
        const int k0 = block * KC, kb = gemm_block_len(g->w, k0);
        const size_t words = (size_t)block_words(kb);
        const int32_t *w =
            (const int32_t *)g->w->data + (size_t)k0 / PER_WORD * (size_t)g->w->n_padded;
        for (int n = g->n0; n < g->n1; n += NR) {
            run_panel(g, &tiles, block, x, w + (size_t)n * words, n);
        }
        x += packed_words(g->m, kb);
    }
    tiles_close(&tiles);
}

extern const struct gemm_kernel KERNEL;
const struct gemm_kernel KERNEL = {
    .dtype = DTYPE,
    .nr = NR,
    .kc = KC,
    .per_word = PER_WORD,
    .lanes = LANES,
    .scaled = SCALED,
    .pack_panel = PACK_PANEL,
    .packed_words = packed_words,
    .pack_rows = pack_rows,
    .run = run,
};
