/* embed_layernorm.cu - the three embeddings of a token, added and normalised, a warp a token.
 * The tables are fp32 in every precision: what is rounded here is in every layer after it.
 * Bytes a row: the word's row read, the result written, cols * (4 + sizeof(T)), which is the least
 * there is (in 16 bits half as much again as with tables of 16 bits: of a whole pass 1 part in
 * 500); 12 of ids; rows of positions, types, gamma and beta are few and stay in L2. One launch. */
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_row.cuh"

enum { ROWS_A_BLOCK = 4 };

struct tables { // rows of one stride
    const float *words, *positions, *types;
    int64_t stride;
};

template <class T, int CHUNKS>
static __global__ void __launch_bounds__(ROWS_A_BLOCK *LANES)
    embed_kernel(T *y, int64_t ldy, struct tables w, struct cuda_norm norm, struct cuda_rows in,
                 int rows) {
    const int row = (int)blockIdx.x * ROWS_A_BLOCK + (int)threadIdx.x / LANES;
    const int lane = (int)threadIdx.x % LANES;
    float v[CHUNKS * VECTOR];
    if (row >= rows) {
        return;
    }
    row_add<float, CHUNKS, true>(v, w.words + in.ids[row] * w.stride, norm.cols, lane);
    row_add<float, CHUNKS, false>(v, w.positions + in.positions[row] * w.stride, norm.cols, lane);
    row_add<float, CHUNKS, false>(v, w.types + in.types[row] * w.stride, norm.cols, lane);
    row_normalise<T, CHUNKS>(y + row * ldy, v, norm.gamma, norm.beta, norm.eps, norm.cols, lane);
}

template <class T, int CHUNKS>
static cudaError_t launch(cudaStream_t stream, const struct tensor *y, struct tables w,
                          const struct cuda_norm *norm, const struct cuda_rows *in, int rows) {
    return cuda_launch(stream, dim3((unsigned)blocks_of(rows, ROWS_A_BLOCK)),
                       dim3(ROWS_A_BLOCK * LANES), 0, embed_kernel<T, CHUNKS>, (T *)y->data,
                       y->stride, w, *norm, *in, rows);
}
template <class T>
static cudaError_t choose(cudaStream_t stream, const struct tensor *y, struct tables w,
                          const struct cuda_norm *norm, const struct cuda_rows *in, int rows) {
    switch (blocks_of(norm->cols, WARP_VALUES)) {
    case 1: return launch<T, 1>(stream, y, w, norm, in, rows);
    case 2: return launch<T, 2>(stream, y, w, norm, in, rows);
    case 3: return launch<T, 3>(stream, y, w, norm, in, rows);
    case 4: return launch<T, 4>(stream, y, w, norm, in, rows);
    default: return launch<T, CUDA_MAX_COLS / WARP_VALUES>(stream, y, w, norm, in, rows);
    }
}
extern "C" cudaError_t
cuda_embed_layernorm(cudaStream_t stream, const struct tensor *y, const struct tensor *words,
                     const struct tensor *positions, const struct tensor *types,
                     const struct cuda_norm *norm, const struct cuda_rows *in, int rows) {
    const struct tables w = {(const float *)words->data, (const float *)positions->data,
                             (const float *)types->data, words->stride};
    WITH_ELEMENT(y->dtype, return choose<T>(stream, y, w, norm, in, rows))
}
