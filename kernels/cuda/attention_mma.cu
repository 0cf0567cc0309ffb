/* attention_mma.cu - attention on tensor cores: 64 queries of one sequence and one head to a block,
 * 16 to a warp; keys and values come by tiles of 64, the next one's copy under way while this one
 * is used. Sequences of any length lie side by side; no block is idle but in a graph's bucket.
 * Bytes: Q read and ctx written once, 2 * rows * hidden * 2 (a row a sequence is written as fp32);
 * K and V once for every tile of queries, ceil(len / 64) * len * hidden * 4 a sequence (once, while
 * len <= 64), mostly from L2. Shared memory: 5 tiles, 640 * D bytes: 20 KiB, 40 KiB, 80 KiB. One
 * launch. */
#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"

static_assert((int)TILE == (int)CUDA_TILE_QUERIES, "the host cuts sequences into tiles");

struct attention_io {
    const struct attention_tile *tiles;
    int64_t ld, ld_ctx;
    int hidden;
};

/* Rows of padding are zeros. */
template <class Out, int D>
static __device__ inline void write_zeros(Out *out, int64_t ld, int from, int to) {
    const float zeros[VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = (int)threadIdx.x; i < (to - from) * D / VECTOR; i += TILE_THREADS) {
        store8(out + (from + i / (D / VECTOR)) * ld + i % (D / VECTOR) * VECTOR, zeros);
    }
}

template <class Out, int D>
static __device__ inline void write_rows(Out *out, int64_t ld, const float (*sums)[4],
                                         const struct softmax_state *state, int n_valid, int warp,
                                         int lane) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float scale = 1.0f / quad_sum(state->sum[r]);
        const int row = warp * 16 + lane / 4 + r * 8;
        if (row < n_valid) {
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                store2(out + row * ld + d * 8 + lane % 4 * 2, sums[d][2 * r] * scale,
                       sums[d][2 * r + 1] * scale);
            }
        }
    }
}

/* One tile of keys, for the 16 queries of a warp. */
template <class T, int D>
static __device__ inline void attend_tile(float (*sums)[4], struct softmax_state *state,
                                          const uint32_t (*q)[4], const T *keys, const T *values,
                                          int left, int lane) {
    float scores[TILE_BLOCKS][4];
    uint32_t p[TILE / 16][4];
    tile_scores<T, D>(scores, q, keys, lane);
    if (left < TILE) {
        scores_mask(scores, left, lane);
    }
    softmax_step<T, D>(p, state, sums, scores, keys);
    tile_values<T, D>(sums, p, values, lane);
}

template <class T, int D>
static __device__ inline void load_keys(T *stage, const T *keys, int64_t ld, int hidden, int left) {
    tile_load<T, D>(stage, keys, ld, left);
    tile_load<T, D>(stage + TILE * D, keys + hidden, ld, left);
    ptx_cp_async_commit();
}

/* n_valid >= 1 queries from `query` of the sequence whose first row is at `rows`. */
template <class T, class Out, int D>
static __device__ inline void attend(Out *out, T *shared, const T *rows, int query, int n_valid,
                                     int len, const struct attention_io &io) {
    T *stages = shared + TILE * D;
    const int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    struct softmax_state state = {{-INFINITY, -INFINITY}, {0, 0}};
    uint32_t q[D / 16][4];
    float sums[D / 8][4];
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        sums[d][0] = 0, sums[d][1] = 0, sums[d][2] = 0, sums[d][3] = 0;
    }
    tile_load<T, D>(shared, rows + query * io.ld, io.ld, n_valid);
    load_keys<T, D>(stages, rows + io.hidden, io.ld, io.hidden, len);
    for (int key = 0, stage = 0; key < len; key += TILE, stage ^= 1) {
        const int next = key + TILE;
        if (next < len) {
            load_keys<T, D>(stages + (stage ^ 1) * 2 * TILE * D, rows + io.hidden + next * io.ld,
                            io.ld, io.hidden, len - next);
            ptx_cp_async_wait<1>();
        } else {
            ptx_cp_async_wait<0>();
        }
        __syncthreads();
        const T *keys = stages + stage * 2 * TILE * D;
        if (warp * 16 < n_valid) {
            if (key == 0) {
                queries_load<T, D>(q, shared, warp, lane);
            }
            attend_tile<T, D>(sums, &state, q, keys, keys + TILE * D, len - key, lane);
        }
        __syncthreads(); // before the next copy into this stage begins
    }
    if (warp * 16 < n_valid) {
        write_rows<Out, D>(out, io.ld_ctx, sums, &state, n_valid, warp, lane);
    }
}

template <class T, class Out, int D>
static __global__ void __launch_bounds__(TILE_THREADS)
    attention_mma_kernel(Out *ctx, const T *qkv, struct attention_io io) {
    CUDA_SHARED(T, shared);
    const struct attention_tile tile = io.tiles[blockIdx.x];
    const int column = (int)blockIdx.y * D;
    const int left = tile.len - tile.query;
    const int n_valid = left < 0 ? 0 : left < tile.n_queries ? left : tile.n_queries;
    Out *out = ctx + tile.out * io.ld_ctx + column;
    if (n_valid > 0) {
        attend<T, Out, D>(out, shared, qkv + tile.first * io.ld + column, tile.query, n_valid,
                          tile.len, io);
    }
    write_zeros<Out, D>(out, io.ld_ctx, n_valid, tile.n_queries);
}

template <class T, class Out, int D>
static cudaError_t launch(cudaStream_t stream, const struct tensor *ctx, const struct tensor *qkv,
                          const struct attention_tile *tiles, int n_tiles, int n_heads) {
    const struct attention_io io = {tiles, qkv->stride, ctx->stride, ctx->cols};
    const size_t bytes = 5 * TILE * D * sizeof(T);
    return cuda_launch(stream, dim3((unsigned)n_tiles, (unsigned)n_heads), dim3(TILE_THREADS),
                       bytes, attention_mma_kernel<T, Out, D>, (Out *)ctx->data,
                       (const T *)qkv->data, io);
}
template <class T, class Out>
static cudaError_t choose(cudaStream_t stream, const struct tensor *ctx, const struct tensor *qkv,
                          const struct attention_tile *tiles, int n_tiles, int n_heads) {
    switch (ctx->cols / n_heads) {
    case 32: return launch<T, Out, 32>(stream, ctx, qkv, tiles, n_tiles, n_heads);
    case 64: return launch<T, Out, 64>(stream, ctx, qkv, tiles, n_tiles, n_heads);
    default: return launch<T, Out, 128>(stream, ctx, qkv, tiles, n_tiles, n_heads);
    }
}

extern "C" cudaError_t cuda_attention_mma(cudaStream_t stream, const struct tensor *ctx,
                                          const struct tensor *qkv,
                                          const struct attention_tile *tiles, int n_tiles,
                                          int n_heads) {
    const bool is_wide = ctx->dtype == DTYPE_F32;
    if (qkv->dtype == DTYPE_F16) {
        return is_wide ? choose<__half, float>(stream, ctx, qkv, tiles, n_tiles, n_heads)
                       : choose<__half, __half>(stream, ctx, qkv, tiles, n_tiles, n_heads);
    }
    return is_wide
               ? choose<__nv_bfloat16, float>(stream, ctx, qkv, tiles, n_tiles, n_heads)
               : choose<__nv_bfloat16, __nv_bfloat16>(stream, ctx, qkv, tiles, n_tiles, n_heads);
}
