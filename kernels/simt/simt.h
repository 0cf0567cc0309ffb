/* simt.h - runs a kernel's blocks on the host: every CUDA thread a fiber, which runs until it has
 * to wait for others. What a kernel may do wrong ends the process with a sentence that names the
 * block and the thread: barriers that not all reach, warps that are not whole, addresses that are
 * not aligned or outside, copies that nobody waited for.
 * Threads: one grid at a time in a process; the caller holds the device's lock (device.h). */
#ifndef BERTH_KERNELS_SIMT_SIMT_H
#define BERTH_KERNELS_SIMT_SIMT_H
#include "kernels/simt/cudart.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
    SIMT_LANES = 32,
    SIMT_MAX_THREADS = 1024,            // of a block
    SIMT_SHARED_BYTES_FREE = 48 * 1024, // dynamic shared memory without asking
    SIMT_SHARED_BYTES = 163 * 1024      // the most that can be asked for
};
struct simt_dim3 {
    unsigned x, y, z;
};
/* Where the fiber that runs is; kernels know them by CUDA's names. */
struct simt_place {
    struct simt_dim3 thread, block, block_dim, grid_dim;
};
extern const struct simt_place *simt_here;

typedef void simt_kernel_fn(const void *arguments);
struct simt_grid {
    struct simt_dim3 grid, block;
    size_t shared_bytes; // dynamic
    simt_kernel_fn *kernel;
    const void *arguments;
    uint64_t seed; // of the order of blocks and threads
};
void simt_run(const struct simt_grid *g);

/* Puts a launch into the stream; copies `bytes` of arguments, to be given to `kernel`. `function`
 * is what cudaFuncSetAttribute() knows it by. */
struct simt_launch {
    struct simt_dim3 grid, block;
    size_t shared_bytes;
    const void *function;
    simt_kernel_fn *kernel;
    const void *arguments;
    size_t bytes;
};
cudaError_t simt_launch(cudaStream_t stream, const struct simt_launch *l);
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute what, int value);

/* What a thread may call. All lanes of `mask` have to come to the same warp operation. */
void *simt_shared(void);               // dynamic; at a multiple of 16 bytes, NaNs at first
void simt_barrier(void);               // the block's threads that have not returned
void simt_warp_barrier(uint32_t mask); // orders shared memory among the lanes
uint64_t simt_shuffle(uint32_t mask, uint64_t value, int lane);             // `lane`'s value
void simt_ldmatrix(uint32_t *r, const void *row, int n, int is_transposed); // n: 1, 2 or 4
enum simt_type { SIMT_BF16, SIMT_F16 };
void simt_mma_16816(float *d, const uint32_t *a, const uint32_t *b, const float *c,
                    enum simt_type type);
void simt_cp_async(void *to, const void *from, int bytes); // lands at its wait, not before
void simt_cp_async_commit(void);
void simt_cp_async_wait(int n_latest); // for all groups but the latest
#ifdef __cplusplus
}
#endif
#endif
