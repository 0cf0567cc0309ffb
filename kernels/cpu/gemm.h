/* gemm.h - y = activation(x * W^T + bias + residual), one thread, both operands packed; in fp32, in
 * bf16 and in int8, one gemm_kernel for each precision and instruction set.
 *
 * Words: an operand is kept in words of 32 bits: one float, two bf16, or four 8-bit integers, so
 * that a step of the inner loop is the same for all: a word of x for each row against a vector of
 * words of W. Within a block of K, `lanes` words stand side by side that hold every lanes-th value:
 * byte j of word i of chunk c is k = (c * per_word + j) * lanes + i. So packing needs no shuffles.
 * The last chunk is filled with zeros (fp32, one value a word, has no filling).
 * W, once, at load: K is cut into blocks of `kc` (the last is shorter), N into panels of `nr`
 * columns (the last filled with zeros). A panel of a block is [words][nr], and the panels of a
 * block stand one after another, so that the kernel reads W as one stream.
 * x, for each panel of rows and each block: m rows are cut into the fewest groups of at most MR
 * (vec.h), as even as possible (16 = 5 + 5 + 6); the group that begins at row r begins at word
 * r * words and is [words][rows of the group]. For AMX: [rows][words]. int8: scales and offsets go
 * before, [groups of values][rows].
 * int8: blocks are cut into groups of `scaled` values. A row's group of x is offset + scale * q, q
 * in 0..255, from its own least and largest value (0 among them); a column's group of W is scale *
 * q, q in -127..127. Sums of products are exact integers. Columns of W know the sums of their q,
 * which is what the offset is multiplied by. The order of sums over k depends on the kernel alone:
 * a row gets the same bits in any company. */
#ifndef BERTH_KERNELS_CPU_GEMM_H
#define BERTH_KERNELS_CPU_GEMM_H
#include "kernels/types.h"
#include <stdbool.h>

enum {
    GEMM_MIN_KC = 384, // of any kernel
    GEMM_MAX_KC = 768,
    GEMM_MAX_NR = 32,    // of any ISA
    GEMM_MAX_PAD = 64,   // values that fill up a block, one byte each
    GEMM_MAX_GROUPS = 8, // of a block, with scales of their own
    GEMM_SLACK = 16,     // words that a packed x needs behind its last
};

struct gemm;
struct linear_weight;
struct gemm_kernel {
    enum dtype dtype; // of the operands
    int nr;           // columns of a weight panel
    int kc;           // values of a block of K; a multiple of every nr, and of a chunk
    int per_word;     // values: 1, 2 or 4
    int lanes;        // of a chunk; 1 for fp32
    int scaled;       // int8: values that share a scale; a multiple of a chunk, and divides kc
    /* Two products of neighbours are added in 16 bits, which |q0 + q1| <= 128 keeps in bounds. */
    bool pairs_saturate;
    bool packs_result; // takes gemm.y_packed
    /* Packs columns [n, n + nr) of W, with scales and sums of q; n is a multiple of nr. rows: [nr,
     * k], the columns as they stand in a checkpoint, zeros for those from w->n on. */
    void (*pack_panel)(struct linear_weight *w, const float *rows, int n);
    size_t (*packed_words)(int m, int k);
    /* Packs one k block of m rows. */
    void (*pack_rows)(void *out, const float *x, int64_t ldx, int m, int k);
    void (*run)(const struct gemm *g);
};

struct linear_weight {
    const struct gemm_kernel *kernel; // that it is packed for
    void *data;                       // owned, huge pages
    float *bias;                      // [n_padded], owned
    float *scales, *sums;             // int8: [groups of K][n_padded], owned; sums are of q
    int n, k, n_padded;
};

/* One call: columns [n0, n1) and k blocks [b0, b1) of the product, over m rows. Block 0 starts from
 * bias (+ residual), later blocks add to y, the last one of W ends with the activation. */
struct gemm {
    const struct linear_weight *w;
    const void *x; // packed, from block b0 on
    float *y;      // rows; or, when y_packed, the next product's x; from column y_n0 on
    int64_t ldy;
    const float *residual; // NULL: none
    int64_t ld_residual;
    int m, n0, n1; // n0 is a multiple of nr; so is n1, or it is n
    int b0, b1;
    enum activation activation;
    bool y_packed; // fp32 alone
    int y_n0;      // a multiple of kc
};

static inline int gemm_blocks(const struct linear_weight *w) {
    return (w->k + w->kernel->kc - 1) / w->kernel->kc;
}
/* Of K, from k0 on. */
static inline int gemm_block_len(const struct linear_weight *w, int k0) {
    return w->k - k0 < w->kernel->kc ? w->k - k0 : w->kernel->kc;
}
/* Words of k values. */
static inline int gemm_words(const struct gemm_kernel *kernel, int k) {
    const int chunk = kernel->per_word * kernel->lanes;
    return (k + chunk - 1) / chunk * kernel->lanes;
}
/* Rows [group_begin(i), group_begin(i + 1)) of m are group i. */
static inline int gemm_groups(int m, int mr) {
    return (m + mr - 1) / mr;
}
static inline int gemm_group_begin(int m, int n_groups, int i) {
    return (int)((int64_t)m * i / n_groups);
}
#endif
