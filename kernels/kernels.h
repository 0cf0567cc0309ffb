/* kernels.h - the op table: everything a forward pass asks of a device, stated once for every
 * backend.
 *
 * A pass:   batch_begin() takes a token_batch, batch_submit() runs a program (a C function that is
 * a list of op calls) on every lane, batch_end() polls or waits for its result. n_slots passes may
 * be between begin and end at once; on a CPU it is one, and submit runs it. Lanes:    a lane is one
 * worker of the device (a pool thread; on a GPU there is one). Every lane runs the same program,
 * and an op does this lane's share of the work: its rows, or its columns, as the backend's plan for
 * this batch says. Between ops a lane may count on its own rows only; after barrier() on
 * everybody's. Rows:     a tensor has a row a token or a row a sequence (`axis`). Ops work on the
 * batch's n_rows or n_seqs rows, whatever the tensor could hold. Rows of padding are computed like
 * others. Threads:  a backend belongs to one worker thread; made weights are read-only and may be
 * shared by all backends of one kind and device. Lane ops are called inside a program only. Memory:
 * *_create() and reserve() allocate, at start-up; no op does. Results:  a row's result never
 * depends on the other rows of the batch (CPU fp32: bit for bit). */
#ifndef BERTH_KERNELS_KERNELS_H
#define BERTH_KERNELS_KERNELS_H
#include "base/status.h"
#include "model/token_batch.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_ABI = 1 }; // raised whenever this header changes meaning

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_I32 };
size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t); // "float32", ...

/* LAYOUT_ROWS: row-major, `stride` elements from row to row. LAYOUT_PACKED: the CPU GEMM's operand,
 * k blocks of groups of up to 6 rows as [k][rows] (kernels/cpu/gemm.h); other backends refuse it.
 */
enum layout { LAYOUT_ROWS, LAYOUT_PACKED };
enum row_axis { AXIS_TOKENS, AXIS_SEQS };
struct tensor { // device memory
    void *data;
    enum dtype dtype;
    enum layout layout;
    enum row_axis axis;
    int rows, cols; // rows: the most it can hold
    int64_t stride;
};
struct host_tensor { // borrowed, as mapped from a checkpoint: row-major, dense
    const void *data;
    enum dtype dtype; // F32, F16 or BF16
    int rows, cols;   // a vector has 1 row
};

/* GELU: x * Phi(x), exact (erf) or the tanh form; Hendrycks and Gimpel 2016, arXiv:1606.08415. */
enum activation { ACT_NONE, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_TANH };

/* Weights, as the backend likes them: packed, cast, uploaded. The makers read the host tensors
 * during the call only, unless the maker's comment says that it borrows. */
struct linear_weight; // y = x * weight^T + bias
struct norm_weight;   // LayerNorm's gamma, beta, eps
struct table_weight;  // embedding rows

/* One block of output columns of a linear_weight: Q, K and V make one of three. Each weight and
 * bias element is multiplied by `scale`. */
struct linear_part {
    struct host_tensor weight; // [n, k]
    struct host_tensor bias;   // [1, n]; data NULL: zeros
    float scale;
};
struct embedding_weights {
    struct table_weight *words, *positions,
        *types; // [vocab, hidden], [max_position, hidden], [n, hidden]
    struct norm_weight *norm;
};
struct layer_weights {
    struct linear_weight *qkv;                   // [3 * hidden, hidden]
    struct linear_weight *attention_out;         // [hidden, hidden]
    struct linear_weight *intermediate, *output; // [intermediate, hidden], [hidden, intermediate]
    struct norm_weight *attention_norm, *output_norm;
    enum activation activation;
};
/* logits = classifier(tanh(dense(pooled))); dense NULL: logits = classifier(pooled). */
struct head_weights {
    struct linear_weight *dense, *classifier;
};
enum pool_mode { POOL_FIRST, POOL_MEAN }; // the first token ([CLS]), or the mean of the real tokens

/* What a pass may need at most; reserve() makes workspace for it. */
struct pass_limits {
    int max_rows, max_seqs, max_seq_len;
    int hidden, intermediate, n_heads;
};

/* Time by kind of op, averaged over the lanes of a pass. */
enum op_kind { OP_EMBED, OP_GEMM, OP_ATTENTION, OP_LAYERNORM, OP_HEAD, OP_WAIT, N_OP_KINDS };
extern const char *const op_kind_names[N_OP_KINDS];
struct op_times {
    int64_t ns[N_OP_KINDS];
};

struct backend; // each backend's own struct begins with a struct backend
struct lane;
typedef void program_fn(struct lane *ln, const void *arg);

/* What layer_rest() works on. All of one axis: tokens, or one row a sequence when only the first
 * token of each is still wanted. */
struct layer_buffers {
    struct tensor x;        // [rows, hidden] in: the layer's input (the residual); out: its output
    struct tensor ctx;      // [rows, hidden] in: attention's result
    struct tensor y;        // [rows, hidden] scratch
    struct tensor ffn;      // [rows, intermediate] scratch
    struct tensor qkv_next; // [rows, 3 * hidden] out, when there is a next layer; not the buffer
                            // that this layer's attention read: other lanes may still be reading it
};

struct backend_fn {
    int abi;            // KERNELS_ABI
    size_t struct_size; // sizeof(struct backend_fn)

    void (*destroy)(struct backend *be); // takes a half-made one
    /* What the rows of Q must have been multiplied by before attention(): a part of 1 /
     * sqrt(head_dim) or more may be folded into the weights (linear_part.scale). */
    float (*query_scale)(const struct backend *be, int head_dim);

    enum status (*tensor_create)(struct backend *be, struct tensor *out, enum row_axis axis,
                                 int rows, int cols, struct error *err);
    void (*tensor_destroy)(struct backend *be, struct tensor *t); // takes a zeroed one
    enum status (*linear_create)(struct backend *be, struct linear_weight **out,
                                 const struct linear_part *parts, int n_parts, struct error *err);
    void (*linear_destroy)(struct backend *be, struct linear_weight *w); // all three take NULL
    enum status (*norm_create)(struct backend *be, struct norm_weight **out,
                               const struct host_tensor *gamma, const struct host_tensor *beta,
                               float eps, struct error *err);
    void (*norm_destroy)(struct backend *be, struct norm_weight *w);
    /* May borrow `rows` until table_destroy() (the CPU does, for fp32). */
    enum status (*table_create)(struct backend *be, struct table_weight **out,
                                const struct host_tensor *rows, struct error *err);
    void (*table_destroy)(struct backend *be, struct table_weight *w);
    enum status (*reserve)(struct backend *be, const struct pass_limits *limits, struct error *err);

    /* One pass in `slot` (0 <= slot < n_slots). `batch` is borrowed until batch_end() returns it.
     */
    void (*batch_begin)(struct backend *be, int slot, const struct token_batch *batch);
    void (*batch_submit)(struct backend *be, int slot, program_fn *program, const void *arg);
    /* True when the pass is over (always, when `wait`): *status then says how it went, and *times
     * (may be NULL) where its time went. */
    bool (*batch_end)(struct backend *be, int slot, bool wait, enum status *status,
                      struct op_times *times, struct error *err);

    /* Everything that any lane wrote before it can be read by every lane after it. */
    void (*barrier)(struct lane *ln);
    /* y[r] = LayerNorm(words[id] + positions[place in its sequence] + types[type id]), token rows.
     * Tolerance to the reference: 2e-5. */
    void (*embed_layernorm)(struct lane *ln, const struct tensor *y,
                            const struct embedding_weights *w);
    /* y = activation(x * w^T + bias) + residual (NULL: none; never together with an activation).
     * y: [rows, n], x: [rows, k], one axis. y may not be x; residual may be y.
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
     *   qkv_next = x * next_qkv, when next_qkv is not NULL.
     * Default (layer_rest_default): the small ops above in turn. */
    void (*layer_rest)(struct lane *ln, const struct layer_buffers *b,
                       const struct layer_weights *w, const struct linear_weight *next_qkv);
    /* pooled: [seqs, hidden] from x: [tokens, hidden]; waits for other lanes' rows where it needs
     * them. */
    void (*pool)(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                 enum pool_mode mode);
    /* logits: [seqs, n_labels], pooled and scratch: [seqs, hidden]. Default: head_default. */
    void (*head)(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                 const struct tensor *scratch, const struct head_weights *w);
    /* Copies the batch's rows of `t`, dense, to host memory; there when batch_end() says so. */
    void (*fetch)(struct lane *ln, float *out, const struct tensor *t);
};

struct backend {
    const struct backend_fn *fn;
    const char *name;   // "cpu", "reference", "cuda"
    const char *detail; // for logs and /info: "avx2, 2 lanes"
    enum dtype dtype;   // what it computes in
    int n_lanes, n_slots;
};
struct lane { // the public head of each backend's own lane
    struct backend *be;
    int index;
};

/* The composites, out of small ops: what a backend has when it does nothing better. */
void layer_rest_default(struct lane *ln, const struct layer_buffers *b,
                        const struct layer_weights *w, const struct linear_weight *next_qkv);
void head_default(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                  const struct tensor *scratch, const struct head_weights *w);

/* Makers. The reference has one lane and no secrets; the CPU backend overrides what it does better.
 */
MUST_CHECK enum status reference_backend_create(struct backend **out, struct error *err);
struct cpu_options {
    int n_lanes;     // threads of a pass, the caller's among them; at least 1
    int first_core;  // lanes are pinned to cores from here on; -1: not pinned
    const char *isa; // "baseline", "avx2"; NULL: the best that this CPU has, or BERTH_CPU_ISA
};
MUST_CHECK enum status cpu_backend_create(struct backend **out, const struct cpu_options *opt,
                                          struct error *err);
void backend_destroy(struct backend *be); // takes NULL
#ifdef __cplusplus
}
#endif
#endif
