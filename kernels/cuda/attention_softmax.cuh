/* attention_softmax.cuh - softmax over tiles of keys as they come: the largest score and the sum so
 * far are kept for each query, and what was summed before is scaled when the largest grows.
 * Scores are in powers of 2 (log2(e) is in the weights of Q). A lane has two queries, l / 4 and
 * l / 4 + 8 of its warp's 16; the four lanes of a query each see a quarter of the keys.
 * Source: Milakov and Gimelshein 2018, arXiv:1805.02867; Dao 2023, arXiv:2307.08691, section 3.1.
 * For device code. */
#ifndef BERTH_KERNELS_CUDA_ATTENTION_SOFTMAX_CUH
#define BERTH_KERNELS_CUDA_ATTENTION_SOFTMAX_CUH
#include "kernels/cuda/attention_tile.cuh"

struct softmax_state { // of both queries
    float max[2];
    float sum[2]; // over this lane's keys
};

/* Keys from `left` on are beyond the sequence. */
static __device__ inline void scores_mask(float (*scores)[4], int left, int lane) {
#pragma unroll
    for (int n = 0; n < TILE_BLOCKS; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = n * 8 + lane % 4 * 2 + (i & 1);
            scores[n][i] = key < left ? scores[n][i] : -INFINITY;
        }
    }
}

static __device__ inline float quad_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
    return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
static __device__ inline float quad_sum(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/* Two values of 2^(score - max). Head dim 32 has as many exponentials as 64 has, and half the
 * products, so that the unit which makes them is what it waits for: there two are made at once, in
 * fp16. Its 11 bits are more than p keeps as a bf16, and as many as it keeps as an fp16. */
template <class T, int D>
static __device__ inline uint32_t exp_pair(float *sum, float a, float b, float max, const T *type) {
    float p[2];
    if (D == 32) {
        const uint32_t pair = ptx_ex2_f16x2(ptx_pack_f16x2(a - max, b - max));
        unpack_pair(p, pair, (const __half *)nullptr);
    } else {
        p[0] = ptx_ex2(a - max), p[1] = ptx_ex2(b - max);
    }
    *sum += p[0] + p[1];
    return pack_pair(p[0], p[1], type);
}

/* Scores to p, as A; sums of earlier tiles are scaled. */
template <class T, int D>
static __device__ inline void softmax_step(uint32_t (*p)[4], struct softmax_state *state,
                                           float (*sums)[4], const float (*scores)[4],
                                           const T *type) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float max = state->max[r];
#pragma unroll
        for (int n = 0; n < TILE_BLOCKS; n++) {
            max = fmaxf(max, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        }
        max = quad_max(max);
        const float scale = ptx_ex2(state->max[r] - max); // 0 at the first tile
        state->max[r] = max;
        state->sum[r] *= scale;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            sums[d][2 * r] *= scale, sums[d][2 * r + 1] *= scale;
        }
#pragma unroll
        for (int n = 0; n < TILE_BLOCKS; n++) {
            p[n / 2][n % 2 * 2 + r] =
                exp_pair<T, D>(&state->sum[r], scores[n][2 * r], scores[n][2 * r + 1], max, type);
        }
    }
}
#endif
