/* amx.h - the tile instructions that gemm_amx.c uses; where the compiler has them not
 * (CPU_EMULATE), the same in plain C over tiles in memory, as Intel's manual describes them: a tile
 * is up to 16 rows of 64 bytes; a product adds, for every row of `a` and every column of words of
 * `b`, the sum over 16 words of the products of their parts. Tile numbers are constants. */
#ifndef BERTH_KERNELS_CPU_AMX_H
#define BERTH_KERNELS_CPU_AMX_H
#include "kernels/cpu/step.h"

enum { TILE_ROWS = 16, TILE_WORDS = 16, N_TILES = 8 };

#ifndef CPU_EMULATE
struct tiles { // the registers are the CPU's
    int unused;
};
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
ALWAYS_INLINE void tiles_open(struct tiles *tiles) {
    _Alignas(64) struct tile_config c = {.palette = 1};
    for (int i = 0; i < N_TILES; i++) {
        c.row_bytes[i] = 4 * TILE_WORDS, c.rows[i] = TILE_ROWS;
    }
    (void)tiles;
    _tile_loadconfig(&c);
}
ALWAYS_INLINE void tiles_close(struct tiles *tiles) {
    (void)tiles;
    _tile_release(); // or the system saves 8 KiB whenever it switches threads
}
#define tile_zero(tiles, t) _tile_zero(t)
#define tile_load(tiles, t, from, stride_words) _tile_loadd(t, from, 4 * (stride_words))
#define tile_store(tiles, t, to, stride_words) _tile_stored(t, to, 4 * (stride_words))
#if GEMM_BITS == 8
#define tile_product(tiles, c, a, b) _tile_dpbusd(c, a, b)
#else
#define tile_product(tiles, c, a, b) _tile_dpbf16ps(c, a, b)
#endif
#else

struct tiles {
    _Alignas(64) int32_t t[N_TILES][TILE_ROWS][TILE_WORDS];
};
static inline void tiles_open(struct tiles *tiles) {
    memset(tiles, 0x55, sizeof(*tiles)); // what is read without being written is seen
}
static inline void tiles_close(struct tiles *tiles) {
    memset(tiles, 0x55, sizeof(*tiles));
}
static inline void tile_zero(struct tiles *tiles, int t) {
    memset(tiles->t[t], 0, sizeof(tiles->t[t]));
}
static inline void tile_load(struct tiles *tiles, int t, const int32_t *from, int stride_words) {
    for (int r = 0; r < TILE_ROWS; r++) {
        memcpy(tiles->t[t][r], from + (ptrdiff_t)r * stride_words, sizeof(tiles->t[t][r]));
    }
}
static inline void tile_store(const struct tiles *tiles, int t, int32_t *to, int stride_words) {
    for (int r = 0; r < TILE_ROWS; r++) {
        memcpy(to + (ptrdiff_t)r * stride_words, tiles->t[t][r], sizeof(tiles->t[t][r]));
    }
}
static inline void tile_product(struct tiles *tiles, int c, int a, int b) {
    for (int r = 0; r < TILE_ROWS; r++) {
        sums s = (sums)ivec_load(tiles->t[c][r]); // TILE_WORDS is VEC
        for (int i = 0; i < TILE_WORDS; i++) {
            s = step(s, ivec_set(tiles->t[a][r][i]), ivec_load(tiles->t[b][i]));
        }
        memcpy(tiles->t[c][r], &s, sizeof(s));
    }
}
#endif
#endif
