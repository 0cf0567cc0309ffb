/* layernorm.cu - y = LayerNorm(x), a warp a row, the row in registers.
 * Bound by memory: one read and one write, 2 * cols * sizeof(T) bytes a row, which is the least
 * there is; gamma and beta (8 * cols bytes, once a launch) stay in L2. One launch. */
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/norm_row.cuh"

enum { ROWS_A_BLOCK = 4 };

template <class T, int CHUNKS>
static __global__ void __launch_bounds__(ROWS_A_BLOCK *LANES, 3)
    layernorm_kernel(T *y, int64_t ldy, const T *x, int64_t ldx, struct cuda_norm norm, int rows) {
    const int row = (int)blockIdx.x * ROWS_A_BLOCK + (int)threadIdx.x / LANES;
    const int lane = (int)threadIdx.x % LANES;
    float v[CHUNKS * VECTOR];
    if (row >= rows) {
        return;
    }
    row_add<T, CHUNKS, true>(v, x + row * ldx, norm.cols, lane);
    row_normalise<T, CHUNKS>(y + row * ldy, v, norm.gamma, norm.beta, norm.eps, norm.cols, lane);
}

template <class T, int CHUNKS>
static cudaError_t launch(cudaStream_t stream, const struct tensor *y, const struct tensor *x,
                          const struct cuda_norm *norm, int rows) {
    return cuda_launch(stream, dim3((unsigned)blocks_of(rows, ROWS_A_BLOCK)),
                       dim3(ROWS_A_BLOCK * LANES), 0, layernorm_kernel<T, CHUNKS>, (T *)y->data,
                       y->stride, (const T *)x->data, x->stride, *norm, rows);
}
template <class T>
static cudaError_t choose(cudaStream_t stream, const struct tensor *y, const struct tensor *x,
                          const struct cuda_norm *norm, int rows) {
    switch (blocks_of(norm->cols, WARP_VALUES)) {
    case 1: return launch<T, 1>(stream, y, x, norm, rows);
    case 2: return launch<T, 2>(stream, y, x, norm, rows);
    case 3: return launch<T, 3>(stream, y, x, norm, rows);
    case 4: return launch<T, 4>(stream, y, x, norm, rows);
    default: return launch<T, CUDA_MAX_COLS / WARP_VALUES>(stream, y, x, norm, rows);
    }
}

extern "C" cudaError_t cuda_layernorm(cudaStream_t stream, const struct tensor *y,
                                      const struct tensor *x, const struct cuda_norm *norm,
                                      int rows) {
    WITH_ELEMENT(y->dtype, return choose<T>(stream, y, x, norm, rows))
}
