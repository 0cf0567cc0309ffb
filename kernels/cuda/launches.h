/* launches.h - the kernels of this backend, each behind a C function that puts one launch into a
 * stream. Tensors are as the backend makes them (element.cuh); every function takes T from the
 * tensor's dtype: float32, float16 or bfloat16. Rows of AXIS_SEQS and embeddings are float32.
 * Errors: what the launch itself reports; what a kernel does wrong shows at the stream's end.
 * Bytes: stated in each source, beside the least that the op could move. */
#ifndef BERTH_KERNELS_CUDA_LAUNCHES_H
#define BERTH_KERNELS_CUDA_LAUNCHES_H
#include "kernels/cuda/runtime.h"
#include "kernels/types.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_MAX_COLS = 2048,    // of a row that is normalised
    CUDA_MAX_HEAD_DIM = 256, // of attention
    CUDA_TILE_QUERIES = 64   // of one sequence that a block of attention takes
};

/* In device memory: LayerNorm's parameters, 0 from `cols` up to a multiple of 8. */
struct cuda_norm {
    float *gamma, *beta;
    float eps;
    int cols;
};
/* What the host computes of a batch, in device memory. */
struct cuda_rows {
    const int32_t *ids, *types, *positions; // [rows]; positions: place in the sequence
};
struct cuda_seqs {
    const int32_t *first, *lens; // [seqs]: its row, and its tokens
};
/* Queries of one sequence that a block of attention takes. Rows from len on are padding. */
struct attention_tile {
    int32_t first;     // the sequence's row
    int32_t len;       // its tokens
    int32_t query;     // place in the sequence of the tile's first query
    int32_t n_queries; // at most CUDA_TILE_QUERIES; 0: an idle block
    int32_t out;       // row of ctx for the first query
};

cudaError_t cuda_embed_layernorm(cudaStream_t stream, const struct tensor *y,
                                 const struct tensor *words, const struct tensor *positions,
                                 const struct tensor *types, const struct cuda_norm *norm,
                                 const struct cuda_rows *in, int rows);
cudaError_t cuda_layernorm(cudaStream_t stream, const struct tensor *y, const struct tensor *x,
                           const struct cuda_norm *norm, int rows);
/* y = activation(y), in place. */
cudaError_t cuda_activate(cudaStream_t stream, const struct tensor *y, enum activation activation,
                          int rows);
cudaError_t cuda_attention(cudaStream_t stream, const struct tensor *ctx, const struct tensor *qkv,
                           const struct attention_tile *tiles, int n_tiles, int n_heads);
/* The same on tensor cores: 16-bit types, head dims 32, 64 and 128; cuda_attention() takes it where
 * it can. */
cudaError_t cuda_attention_mma(cudaStream_t stream, const struct tensor *ctx,
                               const struct tensor *qkv, const struct attention_tile *tiles,
                               int n_tiles, int n_heads);
cudaError_t cuda_pool(cudaStream_t stream, const struct tensor *pooled, const struct tensor *x,
                      const struct cuda_seqs *seqs, int n_seqs, enum pool_mode mode);
/* y = activation(x * w^T + bias) for weights kept in fp32; y is float32, x of any type.
 * w: [n, stride of x's columns], bias: [n]. */
cudaError_t cuda_exact_linear(cudaStream_t stream, const struct tensor *y, const struct tensor *x,
                              const float *weight, int64_t weight_stride, const float *bias,
                              enum activation activation, int rows);
#ifdef __cplusplus
}
#endif
#endif
