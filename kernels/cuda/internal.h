/* internal.h - the CUDA backend's state, and what its files have for each other. */
#ifndef BERTH_KERNELS_CUDA_INTERNAL_H
#define BERTH_KERNELS_CUDA_INTERNAL_H
#include "kernels/cuda/arena.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/range.h"
#include "kernels/cuda/slot.h"
#include "kernels/plugin.h"
#include <assert.h>

struct linear_matrix {
    struct tensor w; // [n, k], rows and columns padded with zeros to multiples of 8
    void *bias;      // [n], padded; of w's type
};
struct linear_weight {
    struct linear_matrix own, wide; // wide: the same in fp32, for rows of AXIS_SEQS, if any
    int n, k;
    bool is_exact; // fp32, by exact_linear
};
/* Of the two, the one that gives rows of `dtype`. */
static inline const struct linear_matrix *linear_of(const struct linear_weight *w,
                                                    enum dtype dtype) {
    assert(dtype == w->own.w.dtype || (w->wide.w.data && dtype == w->wide.w.dtype));
    return dtype == w->own.w.dtype ? &w->own : &w->wide;
}
struct norm_weight {
    struct cuda_norm norm;
};
struct table_weight {
    struct tensor rows;
};

struct cuda_backend {
    struct backend base;
    struct lane lane;
    struct accelerator_options opt;
    char detail[192], model[112]; // model: and driver; printable, for keys
    struct device_arena arena;
    struct blas blas;
    cudaStream_t compute, copy;
    struct pass_limits limits;
    size_t in_bytes, out_bytes;
    size_t seqs_bytes, reserved_seqs_bytes; // of the largest tensor of sequences; when reserved
    int max_calls, max_layers;
    struct slot slots[CUDA_SLOTS], *now;     // now: whose program is being recorded
    struct batch_size sizes[CUDA_MAX_SIZES]; // those with graphs first; all within the limits
    int n_sizes, n_graph_sizes;
    struct plan *plans; // [n_plans] call lists whose graph or times are kept
    int n_plans;
    int64_t n_played;
    bool is_capturing;
    bool is_sealed;   // nothing is made any more
    char *staging[2]; // pinned, for weights
    cudaEvent_t staged[2];
    int stage;
    float *pooled;     // [max_seqs, hidden padded]: between the two products of a head
    struct error lost; // why, when base.is_lost
    void *ranges;      // a profiler's domain (range.h)
};
static inline struct cuda_backend *cuda_of(struct backend *be) {
    return (struct cuda_backend *)be;
}
static inline int cuda_padded(int n) { // to a multiple of 16 bytes, of any type
    return (n + 7) / 8 * 8;
}

/* fault.c: what the device said, as the project's status. A fault that the device will not come
 * back from marks the backend as lost. */
enum status cuda_check(struct cuda_backend *cuda, cudaError_t error, const char *what,
                       struct error *err);
/* Waits for `event` if `wait`, at most opt.pass_timeout_ns. */
enum status cuda_wait(struct cuda_backend *cuda, cudaEvent_t event, bool wait, bool *is_over,
                      struct error *err);

/* weights.c; the contracts stand in kernels.h. */
enum status cuda_tensor_create(struct backend *be, struct tensor *out, enum row_axis axis, int rows,
                               int cols, bool exact, struct error *err);
void cuda_tensor_destroy(struct backend *be, struct tensor *t);
enum status cuda_tensor_write(struct backend *be, const struct tensor *t, const float *rows,
                              struct error *err);
enum status cuda_tensor_read(struct backend *be, float *rows, const struct tensor *t,
                             struct error *err);
enum status cuda_linear_create(struct backend *be, struct linear_weight **out,
                               const struct linear_part *parts, int n_parts, struct error *err);
void cuda_linear_destroy(struct backend *be, struct linear_weight *w);
enum status cuda_norm_create(struct backend *be, struct norm_weight **out,
                             const struct host_tensor *gamma, const struct host_tensor *beta,
                             float eps, struct error *err);
void cuda_norm_destroy(struct backend *be, struct norm_weight *w);
enum status cuda_table_create(struct backend *be, struct table_weight **out,
                              const struct host_tensor *rows, struct error *err);
void cuda_table_destroy(struct backend *be, struct table_weight *w);

/* play.c: the slot's list of calls, into the compute stream. */
enum status cuda_play(struct cuda_backend *cuda, struct slot *slot, struct error *err);
void cuda_plans_forget(struct cuda_backend *cuda);
void cuda_seal(struct backend *be);
/* sizes.c. What products are planned for, of any number of rows. */
int cuda_product_bucket(int rows);
/* Rows of the largest batch that is a graph; 0: none is. Of a batch up to that: the rows that are
 * computed, and of those rows the sequences. */
int cuda_graph_limit(const struct cuda_backend *cuda);
int cuda_graph_rows(const struct cuda_backend *cuda, int n_rows);
int cuda_graph_seqs(const struct cuda_backend *cuda, int rows, int n_seqs);
void cuda_sizes_list(struct cuda_backend *cuda); // from the limits
bool cuda_warm_up_size(const struct backend *be, int i, int *rows, int *seqs);
/* reserve.c */
enum status cuda_reserve(struct backend *be, const struct pass_limits *limits, struct error *err);
void cuda_slots_finish(struct cuda_backend *cuda);
void cuda_plans_finish(struct cuda_backend *cuda);
#endif
