/* reserve.c - room for passes: what a slot copies in and out, its lists, its events.
 * Limits only grow, so that several encoders can be run by one backend; growing happens at start-up
 * alone, between passes. */
#include "kernels/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static enum status make_event(struct cuda_backend *cuda, cudaEvent_t *event, bool is_timed,
                              struct error *err) {
    if (*event) {
        return STATUS_OK;
    }
    const unsigned flags = is_timed ? cudaEventDefault : cudaEventDisableTiming;
    return cuda_check(cuda, cudaEventCreateWithFlags(event, flags), "an event", err);
}
static enum status make_events(struct cuda_backend *cuda, struct slot *slot, struct error *err) {
    enum status s = make_event(cuda, &slot->uploaded, false, err);
    s = s ? s : make_event(cuda, &slot->done, false, err);
    for (int i = 0; i < CUDA_MAX_RUNS && !s; i++) {
        s = make_event(cuda, &slot->runs[i].begin, true, err);
        s = s ? s : make_event(cuda, &slot->runs[i].end, true, err);
    }
    for (int i = 0; i <= cuda->max_calls && !s; i++) {
        s = make_event(cuda, &slot->call_events[i], true, err);
    }
    return s;
}
static void free_event(cudaEvent_t *event) {
    if (*event) {
        (void)cudaEventDestroy(*event); // of a lost device: nothing is to be done about it
        *event = NULL;
    }
}
static void free_events(const struct cuda_backend *cuda, struct slot *slot) {
    free_event(&slot->uploaded), free_event(&slot->done);
    for (int i = 0; i < CUDA_MAX_RUNS; i++) {
        free_event(&slot->runs[i].begin), free_event(&slot->runs[i].end);
    }
    for (int i = 0; slot->call_events && i <= cuda->max_calls; i++) {
        free_event(&slot->call_events[i]);
    }
}
static void free_blocks(struct cuda_backend *cuda, struct slot *slot) {
    if (slot->host_in) {
        (void)cudaFreeHost(slot->host_in);
    }
    if (slot->host_out) {
        (void)cudaFreeHost(slot->host_out);
    }
    arena_give(&cuda->arena, slot->dev_in);
    slot->host_in = slot->host_out = slot->dev_in = NULL;
}
static void free_lists(struct slot *slot) {
    free(slot->calls), free(slot->call_events), free(slot->step_ns);
    slot->calls = NULL, slot->call_events = NULL, slot->step_ns = NULL;
}

static enum status pinned(struct cuda_backend *cuda, char **out, size_t bytes, struct error *err) {
    void *data = NULL;
    const enum status s = cuda_check(cuda, cudaMallocHost(&data, bytes), "pinned memory", err);
    *out = s ? NULL : data;
    return s;
}
static enum status make_blocks(struct cuda_backend *cuda, struct slot *slot, struct error *err) {
    void *device = NULL;
    enum status s = pinned(cuda, &slot->host_in, cuda->in_bytes, err);
    s = s ? s : pinned(cuda, &slot->host_out, cuda->out_bytes, err);
    s = s ? s : arena_take(cuda, &device, cuda->in_bytes, err);
    slot->dev_in = device;
    return s;
}
static void make_lists(struct cuda_backend *cuda, struct slot *slot) {
    slot->calls = xcalloc((size_t)cuda->max_calls, sizeof(*slot->calls));
    slot->call_events = xcalloc((size_t)cuda->max_calls + 1, sizeof(*slot->call_events));
    slot->step_ns = xcalloc(((size_t)cuda->max_layers + 1) * N_OP_STEPS, sizeof(*slot->step_ns));
}
/* A graph for every size in every slot; lists of pieces, and what tools run, have only times. */
static void make_plans(struct cuda_backend *cuda) {
    cuda_plans_finish(cuda);
    cuda->n_plans = CUDA_SLOTS * cuda->n_graph_sizes + cuda->limits.n_layers + CUDA_SPARE_PLANS;
    cuda->plans = xcalloc((size_t)cuda->n_plans, sizeof(*cuda->plans));
    for (int i = 0; i < cuda->n_plans; i++) {
        struct plan *p = &cuda->plans[i];
        p->ns = xcalloc((size_t)cuda->max_calls, sizeof(*p->ns));
        p->at = xcalloc((size_t)cuda->max_calls, sizeof(*p->at));
    }
}

static enum status check_limits(const struct pass_limits *l, struct error *err) {
    if (l->hidden > CUDA_MAX_COLS) {
        return error_set(err, STATUS_INVALID, "hidden is %d; the CUDA backend takes up to %d",
                         l->hidden, CUDA_MAX_COLS);
    }
    if (l->hidden / l->n_heads > CUDA_MAX_HEAD_DIM) {
        return error_set(err, STATUS_INVALID, "a head has %d dims; the CUDA backend takes up to %d",
                         l->hidden / l->n_heads, CUDA_MAX_HEAD_DIM);
    }
    return STATUS_OK;
}
/* True when nothing more is wanted than there is room for. */
static bool raise_limits(struct cuda_backend *cuda, const struct pass_limits *limits) {
    struct pass_limits *l = &cuda->limits, before = *l;
    const size_t before_seqs = cuda->reserved_seqs_bytes;
    l->max_rows = max_int(l->max_rows, limits->max_rows);
    l->max_seqs = max_int(l->max_seqs, limits->max_seqs);
    l->max_seq_len = max_int(l->max_seq_len, limits->max_seq_len);
    l->hidden = max_int(l->hidden, limits->hidden);
    l->intermediate = max_int(l->intermediate, limits->intermediate);
    l->n_heads = max_int(l->n_heads, limits->n_heads);
    l->n_layers = max_int(l->n_layers, limits->n_layers);
    cuda->reserved_seqs_bytes = cuda->seqs_bytes;
    return !memcmp(&before, l, sizeof(before)) && before_seqs == cuda->seqs_bytes;
}
static void set_sizes(struct cuda_backend *cuda) {
    const struct pass_limits *l = &cuda->limits;
    const size_t hidden = (size_t)cuda_padded(l->hidden) * dtype_size(cuda->base.dtype);
    cuda->in_bytes = cuda_input_layout(l->max_rows, l->max_seqs).bytes;
    cuda->out_bytes = (size_t)l->max_rows * hidden + cuda->seqs_bytes + 2 * CUDA_ALIGN;
    cuda->max_layers = l->n_layers;
    cuda_sizes_list(cuda);
    cuda->max_calls = CUDA_MAX_CALLS_LAYER * l->n_layers + 16;
}

enum status cuda_reserve(struct backend *be, const struct pass_limits *limits, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    enum status s = check_limits(limits, err);
    if (s || raise_limits(cuda, limits)) {
        return s;
    }
    cuda->is_sealed = false;
    cuda_slots_finish(cuda);
    arena_give(&cuda->arena, cuda->pooled);
    cuda->pooled = NULL;
    set_sizes(cuda);
    make_plans(cuda);
    for (int i = 0; i < CUDA_SLOTS && !s; i++) {
        make_lists(cuda, &cuda->slots[i]);
        s = make_events(cuda, &cuda->slots[i], err);
        s = s ? s : make_blocks(cuda, &cuda->slots[i], err);
    }
    void *pooled = NULL;
    const size_t row = (size_t)cuda_padded(cuda->limits.hidden) * sizeof(float);
    s = s ? s : arena_take(cuda, &pooled, (size_t)cuda->limits.max_seqs * row, err);
    cuda->pooled = pooled;
    return s ? s : cuda_upload_finish(cuda, err);
}

void cuda_slots_finish(struct cuda_backend *cuda) {
    for (int i = 0; i < CUDA_SLOTS; i++) {
        struct slot *slot = &cuda->slots[i];
        free_events(cuda, slot);
        free_blocks(cuda, slot);
        free_lists(slot);
    }
}
void cuda_plans_finish(struct cuda_backend *cuda) {
    cuda_plans_forget(cuda);
    for (int i = 0; i < cuda->n_plans; i++) {
        free(cuda->plans[i].ns), free(cuda->plans[i].at);
    }
    free(cuda->plans);
    cuda->plans = NULL, cuda->n_plans = 0;
}
