/* launch.h - the one way to launch a kernel: a function, so that the same sources run on a
 * simulated device. A kernel that asks for more than 48 KiB of shared memory has to be allowed it,
 * once; asking again costs little beside the launch and needs no memory of it. */
#ifndef BERTH_KERNELS_CUDA_LAUNCH_H
#define BERTH_KERNELS_CUDA_LAUNCH_H
#include "kernels/cuda/ptx.h"

#ifdef BERTH_SIMT
template <class... Parameters, class... Arguments>
static cudaError_t cuda_put(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                            void (*kernel)(Parameters...), Arguments... arguments) {
    typedef simt_call<Parameters...> call;
    static_assert((std::is_trivially_copyable<Parameters>::value && ...), "copied as bytes");
    const call c = {kernel, std::tuple<Parameters...>(Parameters(arguments)...)};
    const struct simt_launch l = {grid,      block, shared_bytes, (const void *)kernel,
                                  call::run, &c,    sizeof(c)};
    return simt_launch(stream, &l);
}
#else
template <class... Parameters, class... Arguments>
static cudaError_t cuda_put(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                            void (*kernel)(Parameters...), Arguments... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes, config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}
#endif

enum { SHARED_BYTES_FREE = 48 * 1024 };

template <class... Parameters, class... Arguments>
static cudaError_t cuda_launch(cudaStream_t stream, dim3 grid, dim3 block, size_t shared_bytes,
                               void (*kernel)(Parameters...), Arguments... arguments) {
    if (shared_bytes > SHARED_BYTES_FREE) {
        const cudaError_t e = cudaFuncSetAttribute(
            (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
        if (e) {
            return e;
        }
    }
    return cuda_put(stream, grid, block, shared_bytes, kernel, Parameters(arguments)...);
}
#endif
