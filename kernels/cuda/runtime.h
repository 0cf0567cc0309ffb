/* runtime.h - CUDA's run time and cuBLASLt, for C: everything of them that this folder calls comes
 * through here. With BERTH_SIMT a simulated device stands in their place. */
#ifndef BERTH_KERNELS_CUDA_RUNTIME_H
#define BERTH_KERNELS_CUDA_RUNTIME_H
#ifdef BERTH_SIMT
#include "kernels/simt/cublaslt.h"
#include "kernels/simt/cudart.h"
#else
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#endif
#endif
