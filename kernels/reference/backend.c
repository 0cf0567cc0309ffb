/* backend.c - the reference backend: all the mathematics once, in the shortest true C.
 * One lane, plain row-major float tensors, sums in double. It is what the other backends are
 * compared with, and never tuned. batch_submit() runs its program at once. */
#include "base/timing.h"
#include "kernels/convert.h"
#include "kernels/reference/internal.h"

#include <stdlib.h>
#include <string.h>

void reference_timed(struct lane *ln, enum op_step step) {
    struct reference *ref = reference_of(ln);
    const int64_t now = time_now_ns();
    const int layer = ln->layer < ref->max_layers ? ln->layer : ref->max_layers;
    ref->now->ns[layer * N_OP_STEPS + (int)step] += now - ref->last_ns;
    ref->last_ns = now;
}

static size_t n_times(const struct reference *ref) {
    return ((size_t)ref->max_layers + 1) * N_OP_STEPS;
}
static void destroy(struct backend *be) {
    struct reference *ref = (struct reference *)be;
    free(ref->scores);
    for (int slot = 0; slot < REFERENCE_SLOTS; slot++) {
        free(ref->pass[slot].ns);
    }
    free(be);
}
static float query_scale(const struct backend *be, int head_dim) {
    return 1;
}

static enum status tensor_create(struct backend *be, struct tensor *out, enum row_axis axis,
                                 int rows, int cols, bool exact, struct error *err) {
    float *data = calloc((size_t)rows * (size_t)cols, sizeof(*data));
    if (!data) {
        return error_set(err, STATUS_NO_MEMORY, "no memory for %d x %d floats", rows, cols);
    }
    *out = (struct tensor){data, DTYPE_F32, LAYOUT_ROWS, axis, rows, cols, cols};
    return STATUS_OK;
}
static void tensor_destroy(struct backend *be, struct tensor *t) {
    free(t->data);
    memset(t, 0, sizeof(*t));
}

static float *floats_of(const struct host_tensor *t) {
    const size_t n = (size_t)t->rows * (size_t)t->cols;
    float *out = xcalloc(n, sizeof(*out));
    host_tensor_to_float(out, t, 0, n);
    return out;
}

static void add_part(struct linear_weight *w, const struct linear_part *part, int n_before) {
    const size_t k = (size_t)w->k, n = (size_t)part->weight.rows;
    float *weight = w->weight + (size_t)n_before * k, *bias = w->bias + n_before;
    host_tensor_to_float(weight, &part->weight, 0, n * k);
    if (part->bias.data) {
        host_tensor_to_float(bias, &part->bias, 0, n);
    }
    for (size_t i = 0; i < n * k; i++) {
        weight[i] *= part->scale;
    }
    for (size_t i = 0; i < n; i++) {
        bias[i] *= part->scale;
    }
}
static enum status linear_create(struct backend *be, struct linear_weight **out,
                                 const struct linear_part *parts, int n_parts, struct error *err) {
    struct linear_weight *w = xcalloc(1, sizeof(*w));
    w->k = parts[0].weight.cols;
    for (int i = 0; i < n_parts; i++) {
        assert(parts[i].weight.cols == w->k);
        assert(!parts[i].bias.data || parts[i].bias.cols == parts[i].weight.rows);
        w->n += parts[i].weight.rows;
    }
    w->weight = xcalloc((size_t)w->n * (size_t)w->k, sizeof(float));
    w->bias = xcalloc((size_t)w->n, sizeof(float));
    for (int i = 0, n = 0; i < n_parts; n += parts[i].weight.rows, i++) {
        add_part(w, &parts[i], n);
    }
    *out = w;
    return STATUS_OK;
}
static void linear_destroy(struct backend *be, struct linear_weight *w) {
    if (w) {
        free(w->weight);
        free(w->bias);
        free(w);
    }
}

static enum status norm_create(struct backend *be, struct norm_weight **out,
                               const struct host_tensor *gamma, const struct host_tensor *beta,
                               float eps, struct error *err) {
    assert(gamma->cols == beta->cols);
    struct norm_weight *w = xcalloc(1, sizeof(*w));
    *w = (struct norm_weight){floats_of(gamma), floats_of(beta), eps, gamma->cols};
    *out = w;
    return STATUS_OK;
}
static void norm_destroy(struct backend *be, struct norm_weight *w) {
    if (w) {
        free(w->gamma);
        free(w->beta);
        free(w);
    }
}

static enum status table_create(struct backend *be, struct table_weight **out,
                                const struct host_tensor *rows, struct error *err) {
    struct table_weight *w = xcalloc(1, sizeof(*w));
    *w = (struct table_weight){floats_of(rows), rows->rows, rows->cols};
    *out = w;
    return STATUS_OK;
}
static void table_destroy(struct backend *be, struct table_weight *w) {
    if (w) {
        free(w->data);
        free(w);
    }
}

static enum status reserve(struct backend *be, const struct pass_limits *limits,
                           struct error *err) {
    struct reference *ref = (struct reference *)be;
    if (limits->max_seq_len > ref->max_seq_len) {
        free(ref->scores);
        ref->scores = xcalloc((size_t)limits->max_seq_len, sizeof(*ref->scores));
        ref->max_seq_len = limits->max_seq_len;
    }
    ref->max_layers = limits->n_layers > ref->max_layers ? limits->n_layers : ref->max_layers;
    for (int slot = 0; slot < REFERENCE_SLOTS; slot++) {
        free(ref->pass[slot].ns);
        ref->pass[slot].ns = xcalloc(n_times(ref), sizeof(*ref->pass[slot].ns));
    }
    return STATUS_OK;
}

static void batch_begin(struct backend *be, int slot, const struct token_batch *batch) {
    struct reference *ref = (struct reference *)be;
    struct reference_pass *pass = &ref->pass[slot];
    assert(slot >= 0 && slot < REFERENCE_SLOTS && !pass->batch && pass->ns);
    pass->batch = batch;
    memset(pass->ns, 0, n_times(ref) * sizeof(*pass->ns));
}
static void batch_submit(struct backend *be, int slot, program_fn *program, const void *arg) {
    struct reference *ref = (struct reference *)be;
    assert(slot >= 0 && slot < REFERENCE_SLOTS && ref->pass[slot].batch);
    ref->now = &ref->pass[slot];
    ref->last_ns = time_now_ns();
    ref->lane.layer = 0, ref->lane.linear_step = STEP_QKV, ref->lane.norm_step = STEP_OUTPUT_NORM;
    program(&ref->lane, arg);
}
static bool batch_end(struct backend *be, int slot, bool wait, enum status *status,
                      struct op_times *times, struct error *err) {
    struct reference_pass *pass = &((struct reference *)be)->pass[slot];
    assert(slot >= 0 && slot < REFERENCE_SLOTS && pass->batch);
    pass->batch = NULL;
    *status = STATUS_OK;
    if (times) {
        memset(times, 0, sizeof(*times));
        for (size_t t = 0; t < n_times((const struct reference *)be); t++) {
            times->ns[op_step_kinds[t % N_OP_STEPS]] += pass->ns[t];
        }
    }
    return true;
}
static void profile(const struct backend *be, int slot, struct op_profile *sum) {
    const struct reference *ref = (const struct reference *)be;
    for (int layer = 0; layer <= ref->max_layers; layer++) {
        for (int step = 0; step < N_OP_STEPS; step++) {
            op_profile_at(sum, layer, (enum op_step)step)->ns +=
                ref->pass[slot].ns[layer * N_OP_STEPS + step];
        }
    }
}

static void barrier(struct lane *ln) {
    // one lane: all that was written is there
}
static void fetch(struct lane *ln, float *out, const struct tensor *t) {
    for (int r = 0; r < batch_rows(ln, t); r++) {
        memcpy(out + (int64_t)r * t->cols, tensor_row(t, r), (size_t)t->cols * sizeof(float));
    }
    reference_timed(ln, STEP_FETCH);
}

static const struct backend_fn functions = {
    .abi = KERNELS_ABI,
    .struct_size = sizeof(struct backend_fn),
    .destroy = destroy,
    .query_scale = query_scale,
    .tensor_create = tensor_create,
    .tensor_destroy = tensor_destroy,
    .tensor_write = host_tensor_write,
    .tensor_read = host_tensor_read,
    .linear_create = linear_create,
    .linear_destroy = linear_destroy,
    .norm_create = norm_create,
    .norm_destroy = norm_destroy,
    .table_create = table_create,
    .table_destroy = table_destroy,
    .reserve = reserve,
    .warm_up_size = warm_up_size_none,
    .seal = seal_nothing,
    .batch_begin = batch_begin,
    .batch_submit = batch_submit,
    .batch_end = batch_end,
    .profile = profile,
    .barrier = barrier,
    .embed_layernorm = reference_embed_layernorm,
    .linear = reference_linear,
    .layernorm = reference_layernorm,
    .attention = reference_attention,
    .layer_rest = layer_rest_default,
    .pool = reference_pool,
    .head = head_default,
    .fetch = fetch,
};

enum status reference_backend_create(struct backend **out, struct error *err) {
    struct reference *ref = xcalloc(1, sizeof(*ref));
    ref->base = (struct backend){.fn = &functions,
                                 .name = "reference",
                                 .detail = "plain C, sums in double",
                                 .dtype = DTYPE_F32,
                                 .n_lanes = 1,
                                 .n_slots = REFERENCE_SLOTS,
                                 .makes_in_parallel = true};
    ref->lane.be = &ref->base;
    *out = &ref->base;
    return STATUS_OK;
}
