/* slot.h - one pass under way, and the lists of calls that it is made of.
 * A program's ops are not launched as they are called: each becomes a `call` in its slot's list,
 * and at the end of batch_submit() the list is played, as launches or as a graph that was captured
 * from the same list before. So a graph can never be another program's, and one place launches,
 * counts, times and asks for errors. */
#ifndef BERTH_KERNELS_CUDA_SLOT_H
#define BERTH_KERNELS_CUDA_SLOT_H
#include "kernels/cuda/launches.h"
#include "kernels/kernels.h"

enum {
    CUDA_SLOTS = 2,
    CUDA_MAX_RUNS = 64,     // programs of one pass
    CUDA_GRAPH_ROWS = 4096, // of the largest batch that is a graph
    CUDA_MAX_SIZES = 128,   // that are warmed up
    CUDA_SPARE_PLANS = 8,   // call lists without a graph, beside a list a layer
    CUDA_MAX_FETCHES = 8,   // of one pass
    CUDA_MAX_CALLS_LAYER = 9
};
enum call_kind {
    CALL_EMBED,
    CALL_GEMM,
    CALL_EXACT,
    CALL_ACTIVATE,
    CALL_LAYERNORM,
    CALL_ATTENTION,
    CALL_POOL,
    CALL_FETCH
};
struct call { // zeroed before it is filled: it is hashed as bytes
    enum call_kind kind;
    enum op_step step;
    int layer;
    int option; // activation, pool mode, or number of heads
    struct tensor y, x, residual;
    const void *weight;   // linear_weight, norm_weight, or the words of an embedding
    const void *more[3];  // its positions, types and norm
    int64_t fetch_offset; // into the slot's results
};
/* A list of calls that was played before; for graphs, of one slot and one size of batch. */
struct plan {
    uint64_t key; // 0: none yet
    int64_t last_used;
    cudaGraphExec_t graph; // NULL: launched one by one
    int n_calls;
    int64_t *ns; // [n_calls] of the latest time that every call was timed
    int *at;     // [n_calls] in slot.step_ns
    bool is_timed;
    int n_untimed; // passes since
};
struct batch_size {
    int rows, seqs;
};
struct run { // one program of a pass
    struct plan *plan;
    uint64_t key; // of the plan then
    cudaEvent_t begin, end;
    bool each; // every call was timed, by the slot's events
};
struct fetched {
    float *out; // the caller's
    struct tensor from;
    int rows;
    int64_t offset; // in slot.host_out
};
/* Where a batch's integers lie in a slot's block, pinned and on the device alike; bytes. */
struct input_layout {
    size_t ids, types, positions, first, lens, tiles, first_tiles, bytes;
};
struct slot {
    const struct token_batch *batch; // borrowed; NULL: between passes
    struct input_layout at;
    int rows, seqs; // that are computed: the batch's, or its bucket's
    int n_tiles;    // of the tokens' attention
    bool is_graph, is_each;
    char *host_in, *host_out, *dev_in; // pinned, pinned, device
    int64_t out_used;
    cudaEvent_t uploaded, done;
    struct call *calls; // [max_calls] of the program that is being recorded
    int n_calls;
    struct run runs[CUDA_MAX_RUNS];
    int n_runs;
    cudaEvent_t *call_events; // [max_calls + 1]
    struct fetched fetches[CUDA_MAX_FETCHES];
    int n_fetches;
    int64_t *step_ns; // [max_layers + 1][N_OP_STEPS]
    int64_t launches;
    uint64_t range;     // a profiler's, from begin to end
    enum status status; // the first that went wrong
    struct error err;
};

/* input.c */
struct input_layout cuda_input_layout(int rows, int seqs);
void cuda_input_fill(struct slot *slot, const struct token_batch *b);
static inline int cuda_max_tiles(int rows, int seqs) { // every sequence may have one short tile
    return rows / CUDA_TILE_QUERIES + seqs;
}

/* play.c */
void cuda_read_times(struct slot *slot); // of a pass that has ended
#endif
