/* exact_linear.cu - products with weights that stay in fp32: a classifier's, over one row a
 * sequence. A warp computes one column of up to 8 rows, so a weight is read once for 8 rows.
 * Bytes: 4 * n * k * ceil(rows / 8) of weights, and rows * k * sizeof(T) * ceil(n / 8) of x, which
 * stay in L2; read once they would be 4 * n * k + rows * k * sizeof(T). One launch; two a head. */
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"

enum { WARPS = 8, ROWS = 8 };

struct exact {
    const float *weight, *bias;
    int64_t weight_stride;
    int rows, n, k;
};

/* sum[r] += x[r] * w over this lane's part of k; rows beyond the last count the last again. */
template <class T>
static __device__ inline void add_products(float *sum, const T *x, int64_t ldx, const float *w,
                                           int last_row, int k, int lane) {
    for (int at = lane * VECTOR; at < k; at += WARP_VALUES) {
        float weight[VECTOR];
        load8(weight, w + at);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float in[VECTOR];
            load8(in, x + (r < last_row ? r : last_row) * ldx + at);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                sum[r] += in[i] * weight[i];
            }
        }
    }
}

template <class T, int ACTIVATION>
static __global__ void __launch_bounds__(WARPS *LANES)
    exact_linear_kernel(float *y, int64_t ldy, const T *x, int64_t ldx, struct exact e) {
    const int column = (int)blockIdx.x * WARPS + (int)threadIdx.x / LANES;
    const int row = (int)blockIdx.y * ROWS, lane = (int)threadIdx.x % LANES;
    const int n_rows = e.rows - row < ROWS ? e.rows - row : ROWS;
    float sum[ROWS] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (column >= e.n) {
        return;
    }
    add_products(sum, x + row * ldx, ldx, e.weight + column * e.weight_stride, n_rows - 1, e.k,
                 lane);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float total = warp_sum(sum[r]) + e.bias[column];
        if (lane == 0 && r < n_rows) {
            y[(row + r) * ldy + column] = activate<ACTIVATION>(total);
        }
    }
}

template <class T, int ACTIVATION>
static cudaError_t launch(cudaStream_t stream, const struct tensor *y, const struct tensor *x,
                          const struct exact *e) {
    const dim3 grid((unsigned)blocks_of(e->n, WARPS), (unsigned)blocks_of(e->rows, ROWS));
    return cuda_launch(stream, grid, dim3(WARPS * LANES), 0, exact_linear_kernel<T, ACTIVATION>,
                       (float *)y->data, y->stride, (const T *)x->data, x->stride, *e);
}

extern "C" cudaError_t cuda_exact_linear(cudaStream_t stream, const struct tensor *y,
                                         const struct tensor *x, const float *weight,
                                         int64_t weight_stride, const float *bias,
                                         enum activation activation, int rows) {
    const struct exact e = {weight, bias, weight_stride, rows, y->cols, x->cols};
    if (activation == ACT_TANH) {
        WITH_ELEMENT(x->dtype, return (launch<T, ACT_TANH>(stream, y, x, &e)))
    }
    if (activation == ACT_NONE) {
        WITH_ELEMENT(x->dtype, return (launch<T, ACT_NONE>(stream, y, x, &e)))
    }
    return cudaErrorInvalidValue; // no head has another
}
