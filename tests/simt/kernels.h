/* kernels.h - small kernels, right ones and wrong ones, each behind a function that launches it. */
#ifndef BERTH_TESTS_SIMT_KERNELS_H
#define BERTH_TESTS_SIMT_KERNELS_H
#include "kernels/simt/cudart.h"
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
enum { N_THREADS = 96, TILE_BYTES = 512 };
/* out[i] = in[n - 1 - i] by shared memory, for one block of N_THREADS. */
cudaError_t launch_reverse(cudaStream_t s, float *out, const float *in, int with_barrier);
/* out[lane] = the sum of in[0..32), by shuffles. */
cudaError_t launch_warp_sum(cudaStream_t s, float *out, const float *in);
/* Half of a warp returns before a shuffle of the whole. */
cudaError_t launch_ragged_shuffle(cudaStream_t s, float *out, const float *in);
/* Half of the block's threads wait at a barrier that the first of a warp's never reach. */
cudaError_t launch_lost_lane(cudaStream_t s, float *out);
/* d[16][8] = a[16][16] b[8][16]^T, bf16: cp.async, ldmatrix, mma. `shift` bytes are added to the
 * address that ldmatrix, or cp.async, reads from. */
enum { PLANT_NOTHING, PLANT_NO_WAIT, PLANT_LDMATRIX, PLANT_COPY, PLANT_SHARED, PLANT_LEFT };
cudaError_t launch_tile(cudaStream_t s, float *d, const uint16_t *a, const uint16_t *b, int plant);
/* out[i * stride + n] = value + 1 of in[i]; for `n_threads` of one block. */
cudaError_t launch_add_one(cudaStream_t s, float *out, const float *in, int n, int n_threads);
/* d: what ldmatrix with .trans makes of an 8 x 8 matrix, as mma's B would see it. */
cudaError_t launch_transposed(cudaStream_t s, uint32_t *out, const uint16_t *in);
cudaError_t launch_of_size(cudaStream_t s, unsigned grid_y, unsigned threads, size_t shared_bytes);
#ifdef __cplusplus
}
#endif
#endif
