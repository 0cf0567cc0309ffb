/* activate.cu - y = activation(y), in place, for what a product's epilogue does not have: the exact
 * GELU (its own is the tanh form), ReLU and tanh.
 * Bound by memory: 2 * cols * sizeof(T) bytes a row. One launch; none where the epilogue does it.
 */
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"

enum { THREADS = 256 };

template <class T, int ACTIVATION>
static __global__ void __launch_bounds__(THREADS)
    activate_kernel(T *y, int64_t ldy, int vectors, int rows) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    const int64_t row = i / vectors;
    float v[VECTOR];
    if (row >= rows) {
        return;
    }
    T *at = y + row * ldy + i % vectors * VECTOR;
    load8(v, at);
    for (int k = 0; k < VECTOR; k++) {
        v[k] = activate<ACTIVATION>(v[k]);
    }
    store8(at, v);
}

template <class T, int ACTIVATION>
static cudaError_t launch(cudaStream_t stream, const struct tensor *y, int rows) {
    const int vectors = blocks_of(y->cols, VECTOR);
    const int64_t n = (int64_t)rows * vectors;
    return cuda_launch(stream, dim3((unsigned)((n + THREADS - 1) / THREADS)), dim3(THREADS), 0,
                       activate_kernel<T, ACTIVATION>, (T *)y->data, y->stride, vectors, rows);
}

extern "C" cudaError_t cuda_activate(cudaStream_t stream, const struct tensor *y,
                                     enum activation activation, int rows) {
    switch (activation) {
    case ACT_GELU: WITH_ELEMENT(y->dtype, return (launch<T, ACT_GELU>(stream, y, rows)))
    case ACT_GELU_TANH: WITH_ELEMENT(y->dtype, return (launch<T, ACT_GELU_TANH>(stream, y, rows)))
    case ACT_RELU: WITH_ELEMENT(y->dtype, return (launch<T, ACT_RELU>(stream, y, rows)))
    case ACT_TANH: WITH_ELEMENT(y->dtype, return (launch<T, ACT_TANH>(stream, y, rows)))
    default: return cudaErrorInvalidValue;
    }
}
