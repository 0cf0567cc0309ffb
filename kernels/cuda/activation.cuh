/* activation.cuh - activations of one value, as kernels/types.h names them. For device code. */
#ifndef BERTH_KERNELS_CUDA_ACTIVATION_CUH
#define BERTH_KERNELS_CUDA_ACTIVATION_CUH
#include "kernels/cuda/ptx.h"
#include "kernels/types.h"
#include <math.h>

template <int ACTIVATION> static __device__ inline float activate(float x) {
    if (ACTIVATION == ACT_GELU) {
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    }
    if (ACTIVATION == ACT_GELU_TANH) { // sqrt(2 / pi)
        return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    }
    if (ACTIVATION == ACT_RELU) {
        return x > 0 ? x : 0.0f;
    }
    return ACTIVATION == ACT_TANH ? tanhf(x) : x;
}
#endif
