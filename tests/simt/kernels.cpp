/* kernels.cpp - see kernels.h. Written as a .cu file would be. */
#include "tests/simt/kernels.h"
#include "kernels/cuda/launch.h"

static __global__ void reverse_kernel(float *out, const float *in, int with_barrier) {
    __shared__ float kept[N_THREADS];
    const int i = (int)threadIdx.x;
    kept[i] = in[i];
    if (with_barrier) {
        __syncthreads();
    }
    out[i] = kept[N_THREADS - 1 - i];
    __syncthreads();
    kept[i] = -1; // what a thread that came too early finds
}
cudaError_t launch_reverse(cudaStream_t s, float *out, const float *in, int with_barrier) {
    return cuda_launch(s, dim3(1), dim3(N_THREADS), 0, reverse_kernel, out, in, with_barrier);
}

static __global__ void warp_sum_kernel(float *out, const float *in) {
    float v = in[threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    }
    out[threadIdx.x] = v;
}
cudaError_t launch_warp_sum(cudaStream_t s, float *out, const float *in) {
    return cuda_launch(s, dim3(1), dim3(32), 0, warp_sum_kernel, out, in);
}
static __global__ void ragged_kernel(float *out, const float *in) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_sync(0xffffffffu, in[threadIdx.x], 0);
    }
}
cudaError_t launch_ragged_shuffle(cudaStream_t s, float *out, const float *in) {
    return cuda_launch(s, dim3(1), dim3(32), 0, ragged_kernel, out, in);
}
static __global__ void lost_kernel(float *out) {
    if (threadIdx.x == 0) {
        __syncwarp();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}
cudaError_t launch_lost_lane(cudaStream_t s, float *out) {
    return cuda_launch(s, dim3(1), dim3(32), 0, lost_kernel, out);
}

static __global__ void tile_kernel(float *d, const uint16_t *a, const uint16_t *b, int plant) {
    CUDA_SHARED(uint16_t, shared);
    const int lane = (int)threadIdx.x, half = lane / 16, shift = plant == PLANT_LDMATRIX ? 4 : 0;
    uint16_t *rows_b = shared + 16 * 16;
    ptx_cp_async16(shared + lane * 8, a + lane * 8 + (plant == PLANT_COPY ? 4 : 0));
    if (lane < 16) {
        ptx_cp_async16(rows_b + lane * 8 + (plant == PLANT_SHARED ? 128 : 0), b + lane * 8);
    }
    ptx_cp_async_commit();
    if (plant != PLANT_NO_WAIT && plant != PLANT_LEFT) {
        ptx_cp_async_wait<0>();
    }
    __syncthreads();
    uint32_t fragment_a[4], fragment_b[4];
    float sums[4] = {0, 0, 0, 0};
    ptx_ldmatrix_x4(fragment_a, shared + lane % 16 * 16 + half * 8 + shift);
    ptx_ldmatrix_x4(fragment_b, rows_b + lane % 8 * 16 + lane / 8 % 2 * 8);
    ptx_mma_16816(sums, fragment_a, fragment_b, sums, (const __nv_bfloat16 *)nullptr);
    for (int r = 0; r < 4; r++) {
        d[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = sums[r];
    }
    if (plant == PLANT_NO_WAIT) {
        ptx_cp_async_wait<0>();
    }
}
cudaError_t launch_tile(cudaStream_t s, float *d, const uint16_t *a, const uint16_t *b, int plant) {
    return cuda_launch(s, dim3(1), dim3(32), 24 * 16 * 2, tile_kernel, d, a, b, plant);
}

static __global__ void transposed_kernel(uint32_t *out, const uint16_t *in) {
    CUDA_SHARED(uint16_t, shared);
    uint32_t r[4];
    for (int i = (int)threadIdx.x; i < 4 * 64; i += 32) {
        shared[i] = in[i];
    }
    __syncwarp();
    ptx_ldmatrix_x4_trans(r, shared + threadIdx.x * 8);
    for (int m = 0; m < 4; m++) {
        out[m * 32 + (int)threadIdx.x] = r[m];
    }
}
cudaError_t launch_transposed(cudaStream_t s, uint32_t *out, const uint16_t *in) {
    return cuda_launch(s, dim3(1), dim3(32), TILE_BYTES, transposed_kernel, out, in);
}

static __global__ void add_one_kernel(float *out, const float *in, int n) {
    out[(int)threadIdx.x + n] = in[threadIdx.x] + 1;
}
cudaError_t launch_add_one(cudaStream_t s, float *out, const float *in, int n, int n_threads) {
    return cuda_launch(s, dim3(1), dim3((unsigned)n_threads), 0, add_one_kernel, out, in, n);
}
static __global__ void nothing_kernel(int unused) {
}
cudaError_t launch_of_size(cudaStream_t s, unsigned grid_y, unsigned threads, size_t shared_bytes) {
    return cuda_put(s, dim3(1, grid_y), dim3(threads), shared_bytes, nothing_kernel, 0);
}
