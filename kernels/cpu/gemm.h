/* gemm.h - y = activation(x * W^T + bias + residual) in fp32, one thread, both operands packed.
 *
 * W, once, at load: K is cut into blocks of GEMM_KC (the last is shorter), N into panels of `nr`
 * columns (the last filled with zeros). A panel of a block is [block's k][nr], and the panels of a
 * block stand one after another, so that the kernel reads W as one stream.
 * x, for each panel of rows: m rows are cut into the fewest groups of at most GEMM_MR, as even as
 * possible (16 = 5 + 5 + 6). In the block that begins at k0, kb long, which begins at float k0 * m,
 * the group that begins at row r begins at float r * kb and is [kb][rows of the group].
 * The order of sums over k depends on GEMM_KC alone: a row gets the same bits in any company. */
#ifndef BERTH_KERNELS_CPU_GEMM_H
#define BERTH_KERNELS_CPU_GEMM_H
#include "kernels/types.h"
#include <stdbool.h>

enum {
    GEMM_MR = 6,   // rows of a tile: 6 x 2 vectors of sums leave room for W and x in 16 registers
    GEMM_KC = 384, // a multiple of every nr
    GEMM_MAX_NR = 32, // of any ISA
    GEMM_SLACK = 16,  // floats that a packed x needs behind its last
};

struct linear_weight {
    float *data; // owned, huge pages
    float *bias; // [n_padded], owned
    int n, k, n_padded;
};

/* One call: columns [n0, n1) and k blocks [b0, b1) of the product, over m rows. Block 0 starts from
 * bias (+ residual), later blocks add to y, the last one of W ends with the activation. */
struct gemm {
    const struct linear_weight *w;
    const float *x; // packed, from block b0 on
    float *y;       // rows; or, when y_packed, the next product's x from block y_block on
    int64_t ldy;
    const float *residual; // NULL: none
    int64_t ld_residual;
    int m, n0, n1; // n0 is a multiple of nr; so is n1, or it is n
    int b0, b1;
    enum activation activation;
    bool y_packed;
    int y_block;
};

static inline int gemm_blocks(const struct linear_weight *w) {
    return (w->k + GEMM_KC - 1) / GEMM_KC;
}
static inline int gemm_block_len(int k, int k0) {
    return k - k0 < GEMM_KC ? k - k0 : GEMM_KC;
}
/* Rows [group_begin(i), group_begin(i + 1)) of m are group i. */
static inline int gemm_groups(int m) {
    return (m + GEMM_MR - 1) / GEMM_MR;
}
static inline int gemm_group_begin(int m, int n_groups, int i) {
    return (int)((int64_t)m * i / n_groups);
}
#endif
