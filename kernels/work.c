/* work.c - the formulas of work.h. In double: a day of passes overflows no counter. */
#include "kernels/work.h"

static const double F32 = sizeof(float);

struct op_work linear_work(int64_t rows, int n, int k, enum dtype weights, bool residual) {
    const double m = (double)rows, matrix = (double)n * k;
    return (struct op_work){
        .rows = rows,
        .flops = 2 * m * matrix,
        .bytes = matrix * (double)dtype_size(weights) + F32 * (n + m * k + m * n * (1 + residual)),
    };
}
struct op_work layernorm_work(int64_t rows, int n) {
    const double values = (double)rows * n;
    return (struct op_work){rows, 8 * values, 2 * F32 * values};
}
struct op_work embed_work(int64_t rows, int hidden) {
    const double values = (double)rows * hidden;
    return (struct op_work){rows, 10 * values, 4 * F32 * values};
}
struct op_work attention_work(int64_t queries, int64_t tokens, int64_t pairs, int hidden) {
    return (struct op_work){
        .rows = queries,
        .flops = 4 * (double)pairs * hidden,
        .bytes = F32 * hidden * 2 * ((double)queries + (double)tokens),
    };
}
struct op_work copy_work(int64_t rows, int n) {
    return (struct op_work){rows, 0, 2 * F32 * (double)rows * n};
}
