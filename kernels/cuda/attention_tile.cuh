/* attention_tile.cuh - tiles of attention in shared memory and in registers, 16-bit elements.
 * A tile is 64 rows of D values, row-major, in chunks of 16 bytes; chunk c of row r stands at
 * place c XOR (r mod 8), or c XOR (r / 2 mod 4) where a row is but 64 bytes, so that the eight rows
 * that one step of ldmatrix reads lie in eight different groups of banks.
 * Fragments are those of mma.m16n8k16: lane l holds rows l / 4 and l / 4 + 8, columns l mod 4 * 2
 * and the next. For device code. */
#ifndef BERTH_KERNELS_CUDA_ATTENTION_TILE_CUH
#define BERTH_KERNELS_CUDA_ATTENTION_TILE_CUH
#include "kernels/cuda/element.cuh"

enum { TILE = 64, TILE_WARPS = 4, TILE_THREADS = TILE_WARPS * LANES, TILE_BLOCKS = TILE / 8 };

template <int D> static __device__ inline int swizzled(int row, int chunk) {
    const int place = D == 32 ? chunk ^ (row >> 1 & 3) : chunk ^ (row & 7);
    return (row * (D / VECTOR) + place) * VECTOR;
}

/* Begins the copy of rows [0, n_rows) of 64; those beyond become 0, for what lies there is of
 * another sequence, or no number at all. The caller commits and waits. */
template <class T, int D>
static __device__ inline void tile_load(T *tile, const T *rows, int64_t ld, int n_rows) {
#pragma unroll
    for (int i = (int)threadIdx.x; i < TILE * D / VECTOR; i += TILE_THREADS) {
        const int row = i / (D / VECTOR), chunk = i % (D / VECTOR);
        T *to = tile + swizzled<D>(row, chunk);
        if (row < n_rows) {
            ptx_cp_async16(to, rows + row * ld + chunk * VECTOR);
        } else {
            *(uint4 *)to = make_uint4(0, 0, 0, 0);
        }
    }
}

/* The 16 queries of this warp, as A. */
template <class T, int D>
static __device__ inline void queries_load(uint32_t (*q)[4], const T *tile, int warp, int lane) {
#pragma unroll
    for (int step = 0; step < D / 16; step++) {
        ptx_ldmatrix_x4(q[step], tile + swizzled<D>(warp * 16 + lane % 16, step * 2 + lane / 16));
    }
}

/* scores[8 keys each] = q k^T for the 64 keys of a tile. */
template <class T, int D>
static __device__ inline void tile_scores(float (*scores)[4], const uint32_t (*q)[4], const T *keys,
                                          int lane) {
    const int row = (lane & 7) + (lane >> 4) * 8, half = lane >> 3 & 1;
#pragma unroll
    for (int n = 0; n < TILE_BLOCKS; n += 2) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            scores[n][i] = 0, scores[n + 1][i] = 0;
        }
#pragma unroll
        for (int step = 0; step < D / 16; step++) {
            uint32_t k[4];
            ptx_ldmatrix_x4(k, keys + swizzled<D>(n * 8 + row, step * 2 + half));
            ptx_mma_16816(scores[n], q[step], k, scores[n], keys);
            ptx_mma_16816(scores[n + 1], q[step], k + 2, scores[n + 1], keys);
        }
    }
}

/* sums[8 dims each] += p v, p: 16 queries by 64 keys, already as A. */
template <class T, int D>
static __device__ inline void tile_values(float (*sums)[4], const uint32_t (*p)[4], const T *values,
                                          int lane) {
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
#pragma unroll
        for (int d = 0; d < D / 8; d += 2) {
            uint32_t v[4];
            ptx_ldmatrix_x4_trans(v,
                                  values + swizzled<D>(step * 16 + (lane & 15), d + (lane >> 4)));
            ptx_mma_16816(sums[d], p[step], v, sums[d], values);
            ptx_mma_16816(sums[d + 1], p[step], v + 2, sums[d + 1], values);
        }
    }
}
#endif
