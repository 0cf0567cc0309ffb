/* input.c - what a pass needs to know of its batch, in one block of integers: one copy brings it to
 * the device. Beside the tokens it holds each row's position, each sequence's first row and length,
 * and the list of attention's tiles, so that no block has to search for its sequence. Pure. */
#include "kernels/cuda/internal.h"

#include <string.h>

static size_t place(size_t *at, size_t bytes) {
    const size_t here = *at;
    *at += (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
    return here;
}
struct input_layout cuda_input_layout(int rows, int seqs) {
    const size_t n_rows = (size_t)rows, n_seqs = (size_t)seqs;
    struct input_layout l;
    size_t at = 0;
    l.ids = place(&at, n_rows * sizeof(int32_t));
    l.types = place(&at, n_rows * sizeof(int32_t));
    l.positions = place(&at, n_rows * sizeof(int32_t));
    l.first = place(&at, n_seqs * sizeof(int32_t));
    l.lens = place(&at, n_seqs * sizeof(int32_t));
    l.tiles = place(&at, (size_t)cuda_max_tiles(rows, seqs) * sizeof(struct attention_tile));
    l.first_tiles = place(&at, n_seqs * sizeof(struct attention_tile));
    l.bytes = at;
    return l;
}

static int add_tiles(struct attention_tile *tiles, int first, int len, int rows) {
    int n = 0;
    for (int query = 0; query < rows; query += CUDA_TILE_QUERIES, n++) {
        const int left = rows - query;
        tiles[n] = (struct attention_tile){
            first, len, query, left < CUDA_TILE_QUERIES ? left : CUDA_TILE_QUERIES, first + query};
    }
    return n;
}
void cuda_input_fill(struct slot *slot, const struct token_batch *b) {
    const struct input_layout *at = &slot->at;
    const size_t bytes = (size_t)b->n_rows * sizeof(int32_t);
    int32_t *positions = (int32_t *)(slot->host_in + at->positions);
    int32_t *first = (int32_t *)(slot->host_in + at->first);
    int32_t *lens = (int32_t *)(slot->host_in + at->lens);
    struct attention_tile *tiles = (struct attention_tile *)(slot->host_in + at->tiles);
    struct attention_tile *firsts = (struct attention_tile *)(slot->host_in + at->first_tiles);
    memset(slot->host_in, 0, at->bytes); // idle rows have token 0, idle tiles no query
    memcpy(slot->host_in + at->ids, b->token_ids, bytes);
    memcpy(slot->host_in + at->types, b->token_type_ids, bytes);
    slot->n_tiles = 0;
    for (int s = 0; s < b->n_seqs; s++) {
        const int row = b->cu_seqlens[s], rows = b->cu_seqlens[s + 1] - row;
        for (int i = 0; i < rows; i++) {
            positions[row + i] = i;
        }
        first[s] = row, lens[s] = b->seq_lens[s];
        slot->n_tiles += add_tiles(tiles + slot->n_tiles, row, b->seq_lens[s], rows);
        firsts[s] = (struct attention_tile){row, b->seq_lens[s], 0, 1, s};
    }
}
