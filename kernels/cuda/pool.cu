/* pool.cu - one row a sequence, in fp32: its first token's, or the mean of its tokens'.
 * Bytes a sequence: the rows it reads and the one it writes, cols * (len * sizeof(T) + 4), or
 * cols * (sizeof(T) + 4), which is the least there is. One launch. */
#include "kernels/cuda/dispatch.cuh"
#include "kernels/cuda/launch.h"

enum { WARPS = 8 };

/* A block takes WARP_VALUES columns of one sequence: lanes stand side by side, 8 columns each, and
 * warps take tokens in turn. */
template <class T>
static __global__ void __launch_bounds__(WARPS *LANES)
    mean_kernel(float *pooled, int64_t ldp, const T *x, int64_t ldx, struct cuda_seqs seqs,
                int cols) {
    alignas(16) __shared__ float sums[WARPS][WARP_VALUES];
    const int s = (int)blockIdx.x, warp = (int)threadIdx.x / LANES;
    const int lane = (int)threadIdx.x % LANES;
    const int at = (int)blockIdx.y * WARP_VALUES + lane * VECTOR;
    const T *rows = x + seqs.first[s] * ldx + at;
    float sum[VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0}, v[VECTOR];
    for (int t = warp; t < seqs.lens[s] && at < cols; t += WARPS) {
        load8(v, rows + t * ldx);
        for (int i = 0; i < VECTOR; i++) {
            sum[i] += v[i];
        }
    }
    store8(&sums[warp][lane * VECTOR], sum);
    __syncthreads();
    if (warp != 0 || at >= cols) {
        return;
    }
    for (int w = 1; w < WARPS; w++) {
        load8(v, &sums[w][lane * VECTOR]);
        for (int i = 0; i < VECTOR; i++) {
            sum[i] += v[i];
        }
    }
    const int n = seqs.lens[s] > 0 ? seqs.lens[s] : 1; // 0: an idle row of a graph's bucket
    for (int i = 0; i < VECTOR; i++) {
        sum[i] /= (float)n;
    }
    store8(pooled + s * ldp + at, sum);
}

template <class T>
static __global__ void __launch_bounds__(LANES)
    first_kernel(float *pooled, int64_t ldp, const T *x, int64_t ldx, struct cuda_seqs seqs,
                 int cols) {
    const int s = (int)blockIdx.x;
    const int at = ((int)blockIdx.y * LANES + (int)threadIdx.x) * VECTOR;
    float v[VECTOR];
    if (at < cols) {
        load8(v, x + seqs.first[s] * ldx + at);
        store8(pooled + s * ldp + at, v);
    }
}

template <class T>
static cudaError_t launch(cudaStream_t stream, const struct tensor *pooled, const struct tensor *x,
                          const struct cuda_seqs *seqs, int n_seqs, enum pool_mode mode) {
    const dim3 grid((unsigned)n_seqs, (unsigned)blocks_of(x->cols, WARP_VALUES));
    if (mode == POOL_FIRST) {
        return cuda_launch(stream, grid, dim3(LANES), 0, first_kernel<T>, (float *)pooled->data,
                           pooled->stride, (const T *)x->data, x->stride, *seqs, x->cols);
    }
    return cuda_launch(stream, grid, dim3(WARPS * LANES), 0, mean_kernel<T>, (float *)pooled->data,
                       pooled->stride, (const T *)x->data, x->stride, *seqs, x->cols);
}

extern "C" cudaError_t cuda_pool(cudaStream_t stream, const struct tensor *pooled,
                                 const struct tensor *x, const struct cuda_seqs *seqs, int n_seqs,
                                 enum pool_mode mode) {
    WITH_ELEMENT(x->dtype, return launch<T>(stream, pooled, x, seqs, n_seqs, mode))
}
