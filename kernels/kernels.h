/* kernels.h - the op table: all that a forward pass asks of a device, once for every backend.
 * Pass:    batch_begin() takes a token_batch, batch_submit() runs a program (a C function that is
 *          a list of op calls) on every lane, batch_end() polls or waits. A pass may be several
 *          programs, run in that order. n_slots passes may be between begin and end at once; on a
 *          CPU submit runs its program, so that passes take turns between programs.
 * Lanes:   a lane is one worker of the device (a pool thread; on a GPU there is one). Each runs
 *          the same program, and an op does the lane's share: its rows, or its columns, as the
 *          backend plans for the batch. Between ops a lane may count on its own rows only; after
 *          barrier() on everybody's.
 * Rows:    a tensor has a row a token or a row a sequence (`axis`). Ops work on the batch's
 *          n_rows or n_seqs rows, whatever the tensor could hold; padding is computed like others.
 * Threads: a backend belongs to one worker thread; made weights may be shared by all backends of
 *          one kind and device. Lane ops are called inside a program only.
 * Memory:  *_create() and reserve() allocate, at start-up; no op does.
 * Results: a row's never depend on the other rows of the batch (CPU fp32: bit for bit). */
#ifndef BERTH_KERNELS_KERNELS_H
#define BERTH_KERNELS_KERNELS_H
#include "kernels/backend.h"
#include "kernels/types.h"
#include "model/token_batch.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_ABI = 5 }; // raised whenever these headers change meaning
typedef void program_fn(struct lane *ln, const void *arg);

struct backend_fn {
    int abi;            // KERNELS_ABI
    size_t struct_size; // sizeof(struct backend_fn)

    void (*destroy)(struct backend *be); // takes a half-made one
    /* What the rows of Q must have been multiplied by before attention(): a part of 1 /
     * sqrt(head_dim) or more may be folded into the weights (linear_part.scale). */
    float (*query_scale)(const struct backend *be, int head_dim);

    /* `exact`: in fp32, whatever the backend computes in: what weights that are exact give. Rows of
     * AXIS_SEQS may be more exact than the backend's dtype. */
    enum status (*tensor_create)(struct backend *be, struct tensor *out, enum row_axis axis,
                                 int rows, int cols, bool exact, struct error *err);
    void (*tensor_destroy)(struct backend *be, struct tensor *t); // takes a zeroed one
    /* All of a tensor from or to host memory, dense [rows, cols]. For tests, between passes. */
    enum status (*tensor_write)(struct backend *be, const struct tensor *t, const float *rows,
                                struct error *err);
    enum status (*tensor_read)(struct backend *be, float *rows, const struct tensor *t,
                               struct error *err);
    /* Makers of weights read host tensors during the call only, but for table_create(); several
     * threads may call them at once if backend.makes_in_parallel. The destroyers take NULL. */
    enum status (*linear_create)(struct backend *be, struct linear_weight **out,
                                 const struct linear_part *parts, int n_parts, struct error *err);
    void (*linear_destroy)(struct backend *be, struct linear_weight *w);
    enum status (*norm_create)(struct backend *be, struct norm_weight **out,
                               const struct host_tensor *gamma, const struct host_tensor *beta,
                               float eps, struct error *err);
    void (*norm_destroy)(struct backend *be, struct norm_weight *w);
    /* May borrow `rows` until table_destroy() (the CPU does, for fp32). */
    enum status (*table_create)(struct backend *be, struct table_weight **out,
                                const struct host_tensor *rows, struct error *err);
    void (*table_destroy)(struct backend *be, struct table_weight *w);
    enum status (*reserve)(struct backend *be, const struct pass_limits *limits, struct error *err);
    /* After reserve(): the sizes of batch that a start is to run, twice in every slot, for all that
     * a size needs to be there (graphs, products). i counts from 0; false: there are no more. */
    bool (*warm_up_size)(const struct backend *be, int i, int *rows, int *seqs);
    /* From here on no pass makes anything; what has no graph is launched call by call. */
    void (*seal)(struct backend *be);

    /* One pass in `slot`, 0 <= slot < n_slots; borrows `batch` until batch_end() returns true. */
    void (*batch_begin)(struct backend *be, int slot, const struct token_batch *batch);
    void (*batch_submit)(struct backend *be, int slot, program_fn *program, const void *arg);
    /* True when the pass is over (always, when `wait`): *status then says how it went, and *times
     * (may be NULL) where its time went. */
    bool (*batch_end)(struct backend *be, int slot, bool wait, enum status *status,
                      struct op_times *times, struct error *err);
    /* Adds the times (ns alone) of the slot's latest pass to `sum`, after batch_end(); steps that
     * the device runs as one give their time to the longest of them. */
    void (*profile)(const struct backend *be, int slot, struct op_profile *sum);

    /* Everything that any lane wrote before it can be read by every lane after it. */
    void (*barrier)(struct lane *ln);
    /* y[r] = LayerNorm(words[id] + positions[place in its sequence] + types[type id]), token rows.
     * Tolerance to the reference: 2e-5. */
    void (*embed_layernorm)(struct lane *ln, const struct tensor *y,
                            const struct embedding_weights *w);
    /* y = activation(x * w^T + bias) + residual (NULL: none; never together with an activation).
     * y: [rows, n], x: [rows, k], one axis; AXIS_SEQS: a weight made exact or by_seq. y may not be
     * x; residual may be y.
     * Tolerance: 1e-5 * sqrt(k) for inputs of unit variance. */
    void (*linear)(struct lane *ln, const struct tensor *y, const struct tensor *x,
                   const struct linear_weight *w, enum activation activation,
                   const struct tensor *residual);
    /* y = (x - mean) / sqrt(variance + eps) * gamma + beta, row by row, variance divided by cols; y
     * may be x. Tolerance: 2e-5.  Source: Ba et al. 2016, arXiv:1607.06450, section 3. */
    void (*layernorm)(struct lane *ln, const struct tensor *y, const struct tensor *x,
                      const struct norm_weight *w);
    /* For every head and sequence: ctx = softmax(q k^T / sqrt(head_dim)) v over the sequence's real
     * tokens. qkv: [tokens, 3 * hidden], head h of Q, K, V at columns h * head_dim of each third, Q
     * already scaled (query_scale). ctx: [tokens, hidden], rows of padding become zero; or
     * [seqs, hidden], the first token of each sequence alone. Tolerance: 2e-5 for unit variance.
     * Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2. */
    void (*attention)(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                      int n_heads);
    /* The rest of a layer after attention (post-LN, as in BERT):
     *   x = LayerNorm(ctx * attention_out + x); x = LayerNorm(output(act(intermediate(x))) + x);
     *   qkv_next = x * next_qkv, when next_qkv is not NULL. */
    void (*layer_rest)(struct lane *ln, const struct layer_buffers *b,
                       const struct layer_weights *w, const struct linear_weight *next_qkv);
    /* pooled: [seqs, hidden] from x: [tokens, hidden]; waits for other lanes' rows if need be. */
    void (*pool)(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                 enum pool_mode mode);
    /* logits: [seqs, n_labels], pooled and scratch: [seqs, hidden]. */
    void (*head)(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                 const struct tensor *scratch, const struct head_weights *w);
    /* Copies the batch's rows of `t`, dense, to host memory; there when batch_end() says so. */
    void (*fetch)(struct lane *ln, float *out, const struct tensor *t);
};
#ifdef __cplusplus
}
#endif
#endif
