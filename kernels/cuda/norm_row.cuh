/* norm_row.cuh - one row in the registers of one warp: chunk c of lane l holds the columns from
 * (c * 32 + l) * 8 on. Statistics are fp32, mean first and then the variance around it, so that
 * nothing cancels. For device code. */
#ifndef BERTH_KERNELS_CUDA_NORM_ROW_CUH
#define BERTH_KERNELS_CUDA_NORM_ROW_CUH
#include "kernels/cuda/element.cuh"

/* Adds a row of `cols` values to v; BEGIN: v was nothing before. Columns beyond stay 0. */
template <class T, int CHUNKS, bool BEGIN>
static __device__ inline void row_add(float *v, const T *row, int cols, int lane) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * LANES + lane) * VECTOR;
        float value[VECTOR] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (at < cols) {
            load8(value, row + at);
        }
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            v[c * VECTOR + i] = BEGIN ? value[i] : v[c * VECTOR + i] + value[i];
        }
    }
}

template <int CHUNKS>
static __device__ inline float row_variance(const float *v, float mean, int cols, int lane) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * LANES + lane) * VECTOR;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const float d = v[c * VECTOR + i] - mean;
            sum += at + i < cols ? d * d : 0.0f;
        }
    }
    return warp_sum(sum) / (float)cols;
}

/* y = (v - mean) / sqrt(variance + eps) * gamma + beta; gamma and beta are 0 beyond `cols`. */
template <class T, int CHUNKS>
static __device__ inline void row_normalise(T *y, const float *v, const float *gamma,
                                            const float *beta, float eps, int cols, int lane) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < CHUNKS * VECTOR; i++) {
        sum += v[i];
    }
    const float mean = warp_sum(sum) / (float)cols;
    const float scale = rsqrtf(row_variance<CHUNKS>(v, mean, cols, lane) + eps);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = (c * LANES + lane) * VECTOR;
        float g[VECTOR], b[VECTOR], out[VECTOR];
        if (at < cols) {
            load8(g, gamma + at), load8(b, beta + at);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                out[i] = (v[c * VECTOR + i] - mean) * scale * g[i] + b[i];
            }
            store8(y + at, out);
        }
    }
}
#endif
