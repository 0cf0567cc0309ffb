/* runtime.h - CUDA's run time and cuBLASLt, for C: everything of them that this folder calls comes
 * through here, so that a simulated device can stand in their place. */
#ifndef BERTH_KERNELS_CUDA_RUNTIME_H
#define BERTH_KERNELS_CUDA_RUNTIME_H
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#endif
