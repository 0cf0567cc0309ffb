/* pass.c - a pass from its batch to its results: copy in, play, wait, copy out.
 * The copy has a stream of its own, so that the next batch's comes while this one is computed; an
 * event tells the compute stream when it is there. Whatever goes wrong is kept in the slot, and
 * told by batch_end(): once a pass, with the sentence of the first fault. */
#include "kernels/convert.h"
#include "kernels/cuda/entries.h"
#include "kernels/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

static size_t n_steps(const struct cuda_backend *cuda) {
    return ((size_t)cuda->max_layers + 1) * N_OP_STEPS;
}
static struct slot *slot_of(struct backend *be, int slot) {
    assert(slot >= 0 && slot < CUDA_SLOTS);
    return &cuda_of(be)->slots[slot];
}

static void choose_size(const struct cuda_backend *cuda, struct slot *slot) {
    const struct token_batch *b = slot->batch;
    slot->is_graph = b->n_rows <= cuda_graph_limit(cuda);
    slot->rows = slot->is_graph ? cuda_graph_rows(cuda, b->n_rows) : b->n_rows;
    slot->seqs = slot->is_graph ? cuda_graph_seqs(cuda, slot->rows, b->n_seqs) : b->n_seqs;
    slot->at = cuda_input_layout(slot->rows, slot->seqs);
    assert(slot->at.bytes <= cuda->in_bytes); // else reserve() was told of less
}

static enum status upload(struct cuda_backend *cuda, struct slot *slot, struct error *err) {
    enum status s = cuda_check(cuda,
                               cudaMemcpyAsync(slot->dev_in, slot->host_in, slot->at.bytes,
                                               cudaMemcpyHostToDevice, cuda->copy),
                               "the batch's copy", err);
    s = s ? s : cuda_check(cuda, cudaEventRecord(slot->uploaded, cuda->copy), "an event", err);
    return s ? s
             : cuda_check(cuda, cudaStreamWaitEvent(cuda->compute, slot->uploaded, 0), "an event",
                          err);
}

void cuda_batch_begin(struct backend *be, int index, const struct token_batch *batch) {
    struct cuda_backend *cuda = cuda_of(be);
    struct slot *slot = slot_of(be, index);
    assert(!slot->batch && slot->host_in);
    slot->batch = batch;
    slot->n_runs = slot->n_fetches = 0;
    slot->out_used = 0, slot->launches = 0, slot->is_each = false;
    slot->status = STATUS_OK;
    memset(slot->step_ns, 0, n_steps(cuda) * sizeof(*slot->step_ns));
    choose_size(cuda, slot);
    slot->range = range_batch_begin(cuda->ranges, batch->n_rows, batch->n_seqs);
    if (cuda->base.is_lost) {
        slot->status = STATUS_BACKEND, slot->err = cuda->lost;
        return;
    }
    slot->status = cuda_check(cuda, cudaSetDevice(cuda->opt.device), "cudaSetDevice", &slot->err);
    cuda_input_fill(slot, batch);
    if (slot->is_graph) { // a graph has room for any batch of its bucket
        slot->n_tiles = cuda_max_tiles(slot->rows, slot->seqs);
    }
    range_push(cuda->ranges, "copy in");
    slot->status = slot->status ? slot->status : upload(cuda, slot, &slot->err);
    range_pop(cuda->ranges);
}

void cuda_batch_submit(struct backend *be, int index, program_fn *program, const void *arg) {
    struct cuda_backend *cuda = cuda_of(be);
    struct slot *slot = slot_of(be, index);
    assert(slot->batch);
    cuda->now = slot;
    slot->n_calls = 0;
    cuda->lane.layer = 0;
    cuda->lane.linear_step = STEP_QKV, cuda->lane.norm_step = STEP_OUTPUT_NORM;
    program(&cuda->lane, arg);
    cuda->now = NULL;
    if (!slot->status) {
        slot->status = cuda_play(cuda, slot, &slot->err);
    }
}

static void copy_out(const struct slot *slot) {
    for (int i = 0; i < slot->n_fetches; i++) {
        const struct fetched *f = &slot->fetches[i];
        const struct host_tensor from = {slot->host_out + f->offset, f->from.dtype, f->rows,
                                         (int)f->from.stride};
        const size_t cols = (size_t)f->from.cols;
        for (int r = 0; r < f->rows; r++) {
            host_tensor_to_float(f->out + (size_t)r * cols, &from,
                                 (size_t)r * (size_t)f->from.stride, cols);
        }
    }
}
static void report_times(const struct cuda_backend *cuda, const struct slot *slot,
                         struct op_times *times) {
    memset(times, 0, sizeof(*times));
    for (size_t t = 0; t < n_steps(cuda); t++) {
        times->ns[op_step_kinds[t % N_OP_STEPS]] += slot->step_ns[t];
    }
    times->launches = slot->launches;
}
/* True when the pass is over, well or not. */
static bool settle(struct cuda_backend *cuda, struct slot *slot, bool wait) {
    bool is_over = true;
    if (!slot->status) {
        slot->status = cuda_wait(cuda, slot->done, wait, &is_over, &slot->err);
        if (is_over && !slot->status) {
            copy_out(slot);
            cuda_read_times(slot);
        }
    } else if (!cuda->base.is_lost) { // what was launched before the fault has to leave the buffers
        struct error unused;
        (void)cuda_check(cuda, cudaStreamSynchronize(cuda->compute), "a pass", &unused);
    }
    return is_over;
}
bool cuda_batch_end(struct backend *be, int index, bool wait, enum status *status,
                    struct op_times *times, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    struct slot *slot = slot_of(be, index);
    assert(slot->batch);
    if (!settle(cuda, slot, wait)) {
        return false;
    }
    slot->batch = NULL;
    range_batch_end(cuda->ranges, slot->range);
    *status = slot->status;
    if (slot->status && err) {
        *err = slot->err;
    }
    if (times) {
        report_times(cuda, slot, times);
    }
    return true;
}

void cuda_profile(const struct backend *be, int index, struct op_profile *sum) {
    const struct cuda_backend *cuda = (const struct cuda_backend *)be;
    const struct slot *slot = &cuda->slots[index];
    assert(index >= 0 && index < CUDA_SLOTS && !slot->batch);
    for (int layer = 0; layer <= cuda->max_layers; layer++) {
        for (int step = 0; step < N_OP_STEPS; step++) {
            op_profile_at(sum, layer, (enum op_step)step)->ns +=
                slot->step_ns[layer * N_OP_STEPS + step];
        }
    }
}
