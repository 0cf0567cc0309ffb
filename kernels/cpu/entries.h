/* entries.h - the CPU's entries of the op table, by file; the contracts stand in kernels.h. */
#ifndef BERTH_KERNELS_CPU_ENTRIES_H
#define BERTH_KERNELS_CPU_ENTRIES_H
#include "kernels/kernels.h"

/* weights_linear.c */
enum status cpu_linear_create(struct backend *be, struct linear_weight **out,
                              const struct linear_part *parts, int n_parts, struct error *err);
void cpu_linear_destroy(struct backend *be, struct linear_weight *w);

/* weights.c */
enum status cpu_norm_create(struct backend *be, struct norm_weight **out,
                            const struct host_tensor *gamma, const struct host_tensor *beta,
                            float eps, struct error *err);
void cpu_norm_destroy(struct backend *be, struct norm_weight *w);
enum status cpu_table_create(struct backend *be, struct table_weight **out,
                             const struct host_tensor *rows, struct error *err);
void cpu_table_destroy(struct backend *be, struct table_weight *w);

/* ops.c */
void cpu_barrier(struct lane *ln);
void cpu_embed_layernorm(struct lane *ln, const struct tensor *y,
                         const struct embedding_weights *w);
void cpu_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                const struct linear_weight *w, enum activation activation,
                const struct tensor *residual);
void cpu_layernorm(struct lane *ln, const struct tensor *y, const struct tensor *x,
                   const struct norm_weight *w);
void cpu_attention(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                   int n_heads);
void cpu_pool(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
              enum pool_mode mode);
void cpu_head(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
              const struct tensor *scratch, const struct head_weights *w);
void cpu_fetch(struct lane *ln, float *out, const struct tensor *t);

/* layer_rest.c */
void cpu_layer_rest(struct lane *ln, const struct layer_buffers *b, const struct layer_weights *w,
                    const struct linear_weight *next_qkv);

/* separate.c: the entries without fusion, over those of a whole table; and the floats that a lane
 * needs for them. */
struct cpu_backend;
void cpu_separate_entries(struct backend_fn *fn);
enum status cpu_separate_floats(size_t *out, const struct cpu_backend *cpu, struct error *err);
#endif
