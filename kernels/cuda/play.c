/* play.c - a list of calls becomes work on the device.
 * A small batch is bound by launches: its rows are filled up to a bucket, and the second time that
 * a list is seen it is captured, and replayed as one graph from then on. That is while a start
 * warms up; once sealed, nothing is captured, and a list without a graph is launched call by call,
 * as a large batch is. Either way two events stand around the whole; around every call they cost
 * about as much as a launch, so they are recorded the first time that a list is seen, and now and
 * then after, and the times between are shared out in the proportions that were seen then. */
#include "kernels/cuda/internal.h"

#include <string.h>

enum { TIMED_EVERY = 64 }; // passes without a graph

static int rows_of(const struct slot *slot, const struct tensor *t) {
    return t->axis == AXIS_TOKENS ? slot->rows : slot->seqs;
}
static const void *input(const struct slot *slot, size_t at) {
    return slot->dev_in + at;
}

static cudaError_t launch_embed(const struct cuda_backend *cuda, const struct slot *slot,
                                const struct call *c) {
    const struct table_weight *words = c->weight, *positions = c->more[0], *types = c->more[1];
    const struct norm_weight *norm = c->more[2];
    const struct cuda_rows in = {input(slot, slot->at.ids), input(slot, slot->at.types),
                                 input(slot, slot->at.positions)};
    return cuda_embed_layernorm(cuda->compute, &c->y, &words->rows, &positions->rows, &types->rows,
                                &norm->norm, &in, slot->rows);
}
static cudaError_t launch_attention(const struct cuda_backend *cuda, const struct slot *slot,
                                    const struct call *c) {
    const bool of_tokens = c->y.axis == AXIS_TOKENS;
    const size_t at = of_tokens ? slot->at.tiles : slot->at.first_tiles;
    return cuda_attention(cuda->compute, &c->y, &c->x, input(slot, at),
                          of_tokens ? slot->n_tiles : slot->seqs, c->option);
}
static cudaError_t launch_pool(const struct cuda_backend *cuda, const struct slot *slot,
                               const struct call *c) {
    const struct cuda_seqs seqs = {input(slot, slot->at.first), input(slot, slot->at.lens)};
    return cuda_pool(cuda->compute, &c->y, &c->x, &seqs, slot->seqs, (enum pool_mode)c->option);
}
static cudaError_t launch_exact(const struct cuda_backend *cuda, const struct slot *slot,
                                const struct call *c) {
    const struct linear_weight *w = c->weight;
    return cuda_exact_linear(cuda->compute, &c->y, &c->x, w->own.w.data, w->own.w.stride,
                             w->own.bias, (enum activation)c->option, rows_of(slot, &c->y));
}
static cudaError_t launch_fetch(const struct cuda_backend *cuda, const struct slot *slot,
                                const struct call *c) {
    const size_t bytes =
        (size_t)rows_of(slot, &c->y) * (size_t)c->y.stride * dtype_size(c->y.dtype);
    range_push(cuda->ranges, "copy out");
    const cudaError_t e = cudaMemcpyAsync(slot->host_out + c->fetch_offset, c->y.data, bytes,
                                          cudaMemcpyDeviceToHost, cuda->compute);
    range_pop(cuda->ranges);
    return e;
}
static enum status run_gemm(struct cuda_backend *cuda, const struct slot *slot,
                            const struct call *c, struct error *err) {
    const struct linear_matrix *w = linear_of(c->weight, c->y.dtype);
    const struct blas_product p = {.y = &c->y,
                                   .x = &c->x,
                                   .w = &w->w,
                                   .bias = w->bias,
                                   .residual = c->residual.data ? &c->residual : NULL,
                                   .gelu = c->option == ACT_GELU_TANH,
                                   .rows = rows_of(slot, &c->y)};
    return blas_run(cuda, &p, err);
}
static cudaError_t launch_own(const struct cuda_backend *cuda, const struct slot *slot,
                              const struct call *c) {
    switch (c->kind) {
    case CALL_EMBED: return launch_embed(cuda, slot, c);
    case CALL_EXACT: return launch_exact(cuda, slot, c);
    case CALL_ACTIVATE:
        return cuda_activate(cuda->compute, &c->y, (enum activation)c->option,
                             rows_of(slot, &c->y));
    case CALL_LAYERNORM: {
        const struct norm_weight *w = c->weight;
        return cuda_layernorm(cuda->compute, &c->y, &c->x, &w->norm, rows_of(slot, &c->y));
    }
    case CALL_ATTENTION: return launch_attention(cuda, slot, c);
    case CALL_POOL: return launch_pool(cuda, slot, c);
    case CALL_FETCH: return launch_fetch(cuda, slot, c);
    default: return cudaErrorInvalidValue;
    }
}
static enum status launch(struct cuda_backend *cuda, const struct slot *slot, const struct call *c,
                          struct error *err) {
    return c->kind == CALL_GEMM
               ? run_gemm(cuda, slot, c, err)
               : cuda_check(cuda, launch_own(cuda, slot, c), op_step_names[c->step], err);
}

static enum status record_event(struct cuda_backend *cuda, cudaEvent_t event, struct error *err) {
    return cuda_check(cuda, cudaEventRecord(event, cuda->compute), "cudaEventRecord", err);
}
static enum status launch_all(struct cuda_backend *cuda, struct slot *slot, bool each,
                              struct error *err) {
    enum status s = each ? record_event(cuda, slot->call_events[0], err) : STATUS_OK;
    int layer = RANGE_NO_LAYER;
    for (int i = 0; i < slot->n_calls && !s; i++) {
        layer = range_layer(cuda->ranges, layer, slot->calls[i].layer, cuda->max_layers);
        s = launch(cuda, slot, &slot->calls[i], err);
        if (each && !s) {
            s = record_event(cuda, slot->call_events[i + 1], err);
        }
    }
    range_layers_end(cuda->ranges, layer);
    return s;
}

/* FNV-1a over words of 8 bytes; never 0. */
static uint64_t add_word(uint64_t hash, uint64_t word) {
    return (hash ^ word) * UINT64_C(0x100000001b3);
}
static uint64_t key_of(const struct slot *slot) {
    const char *bytes = (const char *)slot->calls;
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
    for (size_t i = 0; i < (size_t)slot->n_calls * sizeof(*slot->calls); i += sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        hash = add_word(hash, word);
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}
/* The same list's as a graph: sizes are in it, and addresses of this slot's own. */
static uint64_t graph_key(uint64_t key, const struct slot *slot) {
    const uint64_t hash = add_word(add_word(key, (uint64_t)(uintptr_t)slot),
                                   (uint64_t)slot->rows << 32 | (uint64_t)slot->seqs);
    return hash ? hash : 1;
}
static void forget(struct plan *p) {
    if (p->graph) {
        (void)cudaGraphExecDestroy(p->graph); // of a lost device: nothing is to be done about it
    }
    p->graph = NULL, p->key = 0, p->is_timed = false;
}
static struct plan *find_plan(const struct cuda_backend *cuda, uint64_t key) {
    for (int i = 0; i < cuda->n_plans; i++) {
        if (cuda->plans[i].key == key) {
            return &cuda->plans[i];
        }
    }
    return NULL;
}
/* The plan that was not used for longest, of those that have a graph, of the others, or of both. */
static struct plan *oldest_plan(const struct cuda_backend *cuda, bool graphs, bool others) {
    struct plan *oldest = NULL;
    for (int i = 0; i < cuda->n_plans; i++) {
        struct plan *p = &cuda->plans[i];
        if ((p->graph ? graphs : others) && (!oldest || p->last_used < oldest->last_used)) {
            oldest = p;
        }
    }
    assert(oldest); // cuda_seal() leaves some of the others
    return oldest;
}
static struct plan *find_or_begin(struct cuda_backend *cuda, uint64_t key) {
    struct plan *p = find_plan(cuda, key);
    if (!p) {
        p = oldest_plan(cuda, !cuda->is_sealed, true); // a graph that is gone does not come back
        forget(p);
        p->key = key;
    }
    return p;
}
static struct plan *plan_of(struct cuda_backend *cuda, const struct slot *slot) {
    const uint64_t key = key_of(slot);
    if (slot->is_graph) {
        struct plan *p = find_plan(cuda, graph_key(key, slot));
        if (!cuda->is_sealed || (p && p->graph)) {
            return p ? p : find_or_begin(cuda, graph_key(key, slot));
        }
    }
    return find_or_begin(cuda, key);
}
void cuda_plans_forget(struct cuda_backend *cuda) {
    for (int i = 0; i < cuda->n_plans; i++) {
        forget(&cuda->plans[i]);
    }
}
/* Lists without a graph keep some room, should a start have made graphs of more than one program.
 */
void cuda_seal(struct backend *be) {
    struct cuda_backend *cuda = cuda_of(be);
    int n_without = 0;
    for (int i = 0; i < cuda->n_plans; i++) {
        n_without += !cuda->plans[i].graph;
    }
    for (; n_without < cuda->max_layers + CUDA_SPARE_PLANS; n_without++) {
        forget(oldest_plan(cuda, true, false));
    }
    cuda->is_sealed = true;
}

static enum status capture(struct cuda_backend *cuda, struct slot *slot, struct plan *p,
                           struct error *err) {
    cudaGraph_t graph = NULL;
    enum status s =
        cuda_check(cuda, cudaStreamBeginCapture(cuda->compute, cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture", err);
    if (s) {
        return s;
    }
    cuda->is_capturing = true;
    const enum status launched = launch_all(cuda, slot, false, err);
    cuda->is_capturing = false;
    struct error ending;
    s = cuda_check(cuda, cudaStreamEndCapture(cuda->compute, &graph), "cudaStreamEndCapture",
                   launched ? &ending : err);
    s = launched ? launched : s;
    s = s ? s
          : cuda_check(cuda, cudaGraphInstantiate(&p->graph, graph, 0), "cudaGraphInstantiate",
                       err);
    if (graph) {
        (void)cudaGraphDestroy(graph);
    }
    return s;
}

static int n_kernels(const struct slot *slot) {
    int n = 0;
    for (int i = 0; i < slot->n_calls; i++) {
        n += slot->calls[i].kind != CALL_FETCH;
    }
    return n;
}
/* Which layer and step each call's time is of, for the pass's end. */
static void keep_steps(struct slot *slot, struct run *run, struct plan *p) {
    run->plan = p;
    run->key = p->key;
    for (int i = 0; i < slot->n_calls; i++) {
        p->at[i] = slot->calls[i].layer * N_OP_STEPS + (int)slot->calls[i].step;
    }
    p->n_calls = slot->n_calls;
}

static enum status play(struct cuda_backend *cuda, struct slot *slot, struct plan *p,
                        struct run *run, struct error *err) {
    enum status s = STATUS_OK;
    if (slot->is_graph && p->is_timed && !p->graph && !cuda->is_sealed) {
        s = capture(cuda, slot, p, err);
    }
    s = s ? s : record_event(cuda, run->begin, err);
    if (!s && p->graph) {
        slot->launches++;
        range_push(cuda->ranges, "graph");
        s = cuda_check(cuda, cudaGraphLaunch(p->graph, cuda->compute), "cudaGraphLaunch", err);
        range_pop(cuda->ranges);
    } else if (!s) {
        run->each = !slot->is_each && (!p->is_timed || ++p->n_untimed >= TIMED_EVERY);
        slot->is_each = slot->is_each || run->each;
        slot->launches += n_kernels(slot);
        s = launch_all(cuda, slot, run->each, err);
    }
    return s ? s : record_event(cuda, run->end, err);
}
enum status cuda_play(struct cuda_backend *cuda, struct slot *slot, struct error *err) {
    struct plan *p = plan_of(cuda, slot);
    struct run *run = &slot->runs[slot->n_runs++];
    assert(slot->n_runs <= CUDA_MAX_RUNS);
    run->each = false;
    p->last_used = ++cuda->n_played;
    keep_steps(slot, run, p);
    const enum status s = play(cuda, slot, p, run, err);
    return s ? s : record_event(cuda, slot->done, err);
}

static int64_t between(cudaEvent_t a, cudaEvent_t b) {
    float ms = 0;
    return cudaEventElapsedTime(&ms, a, b) == cudaSuccess ? (int64_t)((double)ms * 1e6) : 0;
}
static void read_calls(struct slot *slot, struct plan *p) {
    for (int i = 0; i < p->n_calls; i++) {
        p->ns[i] = between(slot->call_events[i], slot->call_events[i + 1]);
    }
    p->is_timed = true, p->n_untimed = 0;
}
/* Adds a run's time to the steps of its calls, in the latest proportions. */
static void share_out(int64_t *step_ns, const struct plan *p, int64_t total_ns) {
    int64_t sum = 0;
    for (int i = 0; i < p->n_calls; i++) {
        sum += p->ns[i];
    }
    for (int i = 0; i < p->n_calls && sum > 0; i++) {
        step_ns[p->at[i]] += (int64_t)((double)total_ns * (double)p->ns[i] / (double)sum);
    }
}
void cuda_read_times(struct slot *slot) {
    for (int i = 0; i < slot->n_runs; i++) {
        struct run *run = &slot->runs[i];
        if (run->plan->key != run->key) {
            continue; // another list took its place since: of this one nothing is known
        }
        if (run->each) {
            read_calls(slot, run->plan);
        }
        share_out(slot->step_ns, run->plan, between(run->begin, run->end));
    }
}
