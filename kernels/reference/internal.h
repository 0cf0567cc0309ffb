/* internal.h - what the files of the reference backend share. */
#ifndef BERTH_KERNELS_REFERENCE_INTERNAL_H
#define BERTH_KERNELS_REFERENCE_INTERNAL_H
#include "kernels/kernels.h"
#include <assert.h>

struct linear_weight {
    float *weight, *bias; // [n, k], [n]
    int n, k;
};
struct norm_weight {
    float *gamma, *beta; // [cols]
    float eps;
    int cols;
};
struct table_weight {
    float *data; // [rows, cols]
    int rows, cols;
};

struct reference_pass {
    const struct token_batch *batch; // borrowed from batch_begin() to batch_end()
    int64_t *ns;                     // [max_layers + 1][N_OP_STEPS], owned
};
enum { REFERENCE_SLOTS = 2 };

struct reference {
    struct backend base;
    struct lane lane;
    struct reference_pass pass[REFERENCE_SLOTS], *now; // now: whose program runs
    double *scores;                                    // [max_seq_len], one row of attention
    int max_seq_len, max_layers;
    int64_t last_ns; // when the last op ended
};

static inline struct reference *reference_of(const struct lane *ln) {
    return (struct reference *)ln->be;
}
static inline float *tensor_row(const struct tensor *t, int row) {
    assert(t->dtype == DTYPE_F32 && t->layout == LAYOUT_ROWS && row < t->rows);
    return (float *)t->data + row * t->stride;
}
/* How many rows of `t` this batch fills. */
static inline int batch_rows(const struct lane *ln, const struct tensor *t) {
    const struct token_batch *b = reference_of(ln)->now->batch;
    return t->axis == AXIS_TOKENS ? b->n_rows : b->n_seqs;
}
/* The time since the last op ended goes to `step` of the lane's layer. */
void reference_timed(struct lane *ln, enum op_step step);

/* The ops, one a file; the contracts stand in kernels.h. */
void reference_embed_layernorm(struct lane *ln, const struct tensor *y,
                               const struct embedding_weights *w);
void reference_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                      const struct linear_weight *w, enum activation activation,
                      const struct tensor *residual);
void reference_layernorm(struct lane *ln, const struct tensor *y, const struct tensor *x,
                         const struct norm_weight *w);
void reference_attention(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                         int n_heads);
void reference_pool(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                    enum pool_mode mode);
#endif
