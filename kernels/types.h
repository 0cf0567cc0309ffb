/* types.h - the nouns of the op table: tensors, weights, and what one layer works on.
 * Tensors are device memory, host tensors a mapped checkpoint; weights are opaque, as the backend
 * likes them (packed, cast, uploaded), and read-only once made. */
#ifndef BERTH_KERNELS_TYPES_H
#define BERTH_KERNELS_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum dtype { DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_I32 };
size_t dtype_size(enum dtype t);
const char *dtype_name(enum dtype t); // "float32", ...

/* LAYOUT_ROWS: row-major, `stride` elements from row to row. LAYOUT_PACKED: the CPU GEMM's operand,
 * k blocks of groups of up to 6 rows as [k][rows] (kernels/cpu/gemm.h); others refuse it. */
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

struct linear_weight; // y = x * weight^T + bias
struct norm_weight;   // LayerNorm's gamma, beta, eps
struct table_weight;  // embedding rows

/* One block of output columns of a linear_weight: Q, K and V make one of three. Each weight and
 * bias element is multiplied by `scale`. `exact`: in fp32, whatever the backend's precision is.
 * `by_seq`: used for rows of AXIS_SEQS too (the last layer's), which a backend may keep more
 * exactly; the same for all parts. */
struct linear_part {
    struct host_tensor weight; // [n, k]
    struct host_tensor bias;   // [1, n]; data NULL: zeros
    float scale;
    bool exact, by_seq;
};
struct embedding_weights {
    struct table_weight *words;     // [vocab, hidden]
    struct table_weight *positions; // [max_position, hidden]
    struct table_weight *types;     // [n, hidden]
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
    int n_layers; // that profile() tells apart
};

/* Time by kind of op, averaged over the lanes of a pass. */
enum op_kind { OP_EMBED, OP_GEMM, OP_ATTENTION, OP_LAYERNORM, OP_HEAD, OP_WAIT, N_OP_KINDS };
extern const char *const op_kind_names[N_OP_KINDS];
struct op_times {
    int64_t ns[N_OP_KINDS];
    int64_t launches; // on a device that is sent its work; a graph is one
};

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
#ifdef __cplusplus
}
#endif
#endif
