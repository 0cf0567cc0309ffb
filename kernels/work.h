/* work.h - what an op computes and moves, by formula from its shape. Pure.
 * flops: multiplications and additions of products, two for each pair that is multiplied; for ops
 * without products, operations a value as their plainest loop has them. Exponentials, activations
 * and conversions are not counted.
 * bytes: what has to move even with caches of any size: every operand read once, every result
 * written once, activations in fp32, weights in the type they are kept in. */
#ifndef BERTH_KERNELS_WORK_H
#define BERTH_KERNELS_WORK_H
#include "kernels/types.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

struct op_work {
    int64_t rows;
    double flops, bytes;
};
/* 2 * rows * n * k; weights, bias, x, y, and the residual where there is one. */
struct op_work linear_work(int64_t rows, int n, int k, enum dtype weights, bool residual);
/* 8 a value: mean 1, variance 3, normalise 2, gamma and beta 2; x, y. */
struct op_work layernorm_work(int64_t rows, int n);
/* A LayerNorm and two additions a value; three rows read and one written for each. */
struct op_work embed_work(int64_t rows, int hidden);
/* 4 * pairs * hidden, for q k^T and the sums of v; q, k, v and the result. pairs: of a query and a
 * token it attends to, over all sequences. */
struct op_work attention_work(int64_t queries, int64_t tokens, int64_t pairs, int hidden);
/* Reads and writes, and computes nothing: the first token's row, or what is fetched. */
struct op_work copy_work(int64_t rows, int n);
#ifdef __cplusplus
}
#endif
#endif
