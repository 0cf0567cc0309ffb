/* attention.cu - attention for any head dim and element type, a warp a query: fp32, and head dims
 * that the tensor-core kernel has no shape for. Each lane scores one of 32 keys; then the lanes
 * stand for dims and sum the values up. fp32 all along.
 * Bytes: Q read and ctx written once; K and V once for every query, len * len * hidden * 2 *
 * sizeof(T) a sequence, from L1 and L2. One launch. */
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"

enum { WARPS = 4, DIMS_A_LANE = CUDA_MAX_HEAD_DIM / LANES };

struct attention_io {
    const struct attention_tile *tiles;
    int64_t ld, ld_ctx;
    int hidden, head_dim;
};

template <class T>
static __device__ inline float score(const float *q, const T *key, int head_dim) {
    float sum = 0;
    for (int i = 0; i < head_dim; i++) {
        sum += q[i] * to_float(key[i]);
    }
    return sum;
}

/* sums += p[key] * values[key], p being lane `key`'s; this lane's dims: lane, lane + 32, ... */
template <class T>
static __device__ inline void add_values(float *sums, float p, const T *values, int n_keys,
                                         int lane, const struct attention_io &io) {
    for (int key = 0; key < n_keys; key++) {
        const float weight = __shfl_sync(0xffffffffu, p, key);
#pragma unroll
        for (int i = 0; i < DIMS_A_LANE; i++) {
            const int dim = i * LANES + lane;
            if (dim < io.head_dim) {
                sums[i] += weight * to_float(values[key * io.ld + dim]);
            }
        }
    }
}

/* One query in q; keys: the sequence's first, values stand `hidden` columns further. */
template <class T, class Out>
static __device__ inline void attend(Out *out, const float *q, const T *keys, int len, int lane,
                                     const struct attention_io &io) {
    float sums[DIMS_A_LANE] = {0}, max = -INFINITY, sum = 0;
    for (int key = 0; key < len; key += LANES) {
        const T *first = keys + key * io.ld;
        const int n_keys = len - key < LANES ? len - key : LANES;
        const float mine = lane < n_keys ? score(q, first + lane * io.ld, io.head_dim) : -INFINITY;
        const float largest = fmaxf(max, warp_max(mine)), scale = exp2f(max - largest);
        const float p = exp2f(mine - largest);
        max = largest, sum = sum * scale + warp_sum(p);
#pragma unroll
        for (int i = 0; i < DIMS_A_LANE; i++) {
            sums[i] *= scale;
        }
        add_values(sums, p, first + io.hidden, n_keys, lane, io);
    }
#pragma unroll
    for (int i = 0; i < DIMS_A_LANE; i++) {
        const int dim = i * LANES + lane;
        if (dim < io.head_dim) {
            put(out + dim, len > 0 ? sums[i] / sum : 0.0f);
        }
    }
}

template <class T, class Out>
static __global__ void __launch_bounds__(WARPS *LANES, 4)
    attention_kernel(Out *ctx, const T *qkv, struct attention_io io) {
    __shared__ float queries[WARPS][CUDA_MAX_HEAD_DIM];
    const struct attention_tile tile = io.tiles[blockIdx.x];
    const int warp = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    const T *rows = qkv + tile.first * io.ld + (int)blockIdx.y * io.head_dim;
    Out *out = ctx + tile.out * io.ld_ctx + (int)blockIdx.y * io.head_dim;
    for (int i = warp; i < tile.n_queries; i += WARPS) {
        const int query = tile.query + i;
        const bool is_padding = query >= tile.len; // whose result is zeros
        for (int dim = lane; dim < io.head_dim && !is_padding; dim += LANES) {
            queries[warp][dim] = to_float(rows[query * io.ld + dim]);
        }
        __syncwarp();
        attend(out + i * io.ld_ctx, queries[warp], rows + io.hidden, is_padding ? 0 : tile.len,
               lane, io);
        __syncwarp(); // before the next query takes this one's place
    }
}

template <class T, class Out>
static cudaError_t launch(cudaStream_t stream, const struct tensor *ctx, const struct tensor *qkv,
                          const struct attention_tile *tiles, int n_tiles, int n_heads) {
    const struct attention_io io = {tiles, qkv->stride, ctx->stride, ctx->cols,
                                    ctx->cols / n_heads};
    return cuda_launch(stream, dim3((unsigned)n_tiles, (unsigned)n_heads), dim3(WARPS * LANES), 0,
                       attention_kernel<T, Out>, (Out *)ctx->data, (const T *)qkv->data, io);
}

extern "C" cudaError_t cuda_attention(cudaStream_t stream, const struct tensor *ctx,
                                      const struct tensor *qkv, const struct attention_tile *tiles,
                                      int n_tiles, int n_heads) {
    const int head_dim = ctx->cols / n_heads;
    const bool fits = head_dim == 32 || head_dim == 64 || head_dim == 128;
    if (qkv->dtype != DTYPE_F32 && fits) {
        return cuda_attention_mma(stream, ctx, qkv, tiles, n_tiles, n_heads);
    }
    if (ctx->dtype == DTYPE_F32) {
        WITH_ELEMENT(qkv->dtype,
                     return (launch<T, float>(stream, ctx, qkv, tiles, n_tiles, n_heads)))
    }
    WITH_ELEMENT(qkv->dtype, return (launch<T, T>(stream, ctx, qkv, tiles, n_tiles, n_heads)))
}
