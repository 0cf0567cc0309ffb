/* entries.h - the entries of the op table that passes call; the contracts stand in kernels.h. */
#ifndef BERTH_KERNELS_CUDA_ENTRIES_H
#define BERTH_KERNELS_CUDA_ENTRIES_H
#include "kernels/kernels.h"

/* pass.c */
void cuda_batch_begin(struct backend *be, int slot, const struct token_batch *batch);
void cuda_batch_submit(struct backend *be, int slot, program_fn *program, const void *arg);
bool cuda_batch_end(struct backend *be, int slot, bool wait, enum status *status,
                    struct op_times *times, struct error *err);
void cuda_profile(const struct backend *be, int slot, struct op_profile *sum);

/* ops.c */
void cuda_op_barrier(struct lane *ln);
void cuda_op_embed(struct lane *ln, const struct tensor *y, const struct embedding_weights *w);
void cuda_op_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                    const struct linear_weight *w, enum activation activation,
                    const struct tensor *residual);
void cuda_op_layernorm(struct lane *ln, const struct tensor *y, const struct tensor *x,
                       const struct norm_weight *w);
void cuda_op_attention(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                       int n_heads);
void cuda_op_pool(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                  enum pool_mode mode);
void cuda_op_head(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                  const struct tensor *scratch, const struct head_weights *w);
void cuda_op_fetch(struct lane *ln, float *out, const struct tensor *t);
#endif
