/* dispatch.cuh - from a dtype or a number of columns, known when a model is loaded, to the kernel
 * that was compiled for it. For the .cu files. */
#ifndef BERTH_KERNELS_CUDA_DISPATCH_CUH
#define BERTH_KERNELS_CUDA_DISPATCH_CUH
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launches.h"

/* Runs the statement with T the element type of `dtype`. */
#define WITH_ELEMENT(dtype, statement)                                                             \
    if ((dtype) == DTYPE_F32) {                                                                    \
        typedef float T;                                                                           \
        statement;                                                                                 \
    } else if ((dtype) == DTYPE_F16) {                                                             \
        typedef __half T;                                                                          \
        statement;                                                                                 \
    } else {                                                                                       \
        typedef __nv_bfloat16 T;                                                                   \
        statement;                                                                                 \
    }

static inline int blocks_of(int n, int each) {
    return (n + each - 1) / each;
}
#endif
