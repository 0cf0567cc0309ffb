/* device.c - makes backends and encoders, and runs them over sequences of one token.
 * What a pass computes does not depend on the token, so any will do; the time hardly does. A probe
 * is made once and used for many passes, so that the passes alone are timed. */
#include "server/device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/timing.h"
#include "kernels/kernels.h"
#include "server/cores.h"

struct probe {
    struct batch_limits limits;
    int max_seq_len;
    int32_t *zeros;         // [max_rows]: ids and types
    int32_t *starts, *lens; // [max_jobs + 1], [max_jobs]
    float *logits;          // [max_jobs, n_labels]
};

static enum status create_on_cpu(struct backend **out, const struct config *cfg, int n_lanes,
                                 int first_core, struct error *err) {
    if (!strcmp(cfg->compute.device, "reference")) {
        return reference_backend_create(out, err);
    }
    const struct cpu_options opt = {
        .n_lanes = n_lanes,
        .first_core = first_core,
        .isa = *cfg->compute.isa ? cfg->compute.isa : NULL,
        .precision = cfg->compute.precision,
        .fusion = cfg->compute.fusion,
    };
    const enum status s = cpu_backend_create(out, &opt, err);
    return s ? error_prefix(err, s, "settings of compute") : STATUS_OK;
}
enum status device_create_backend(struct backend **out, const struct config *cfg, int n_lanes,
                                  int first_core, struct error *err) {
    struct device_choice choice;
    const enum status s = device_choose(&choice, cfg, err);
    if (s) {
        return s;
    }
    return choice.accelerator ? accelerator_create(out, cfg, &choice, 0, err)
                              : create_on_cpu(out, cfg, n_lanes, first_core, err);
}
enum status device_create_loader(struct backend **out, const struct config *cfg,
                                 const struct device_choice *choice, int index, struct error *err) {
    return choice->accelerator ? accelerator_create(out, cfg, choice, index, err)
                               : create_on_cpu(out, cfg, 1, -1, err);
}

/* Worker `index` of a plan: its backend, and the weights that are on its device. */
static enum status create_worker_backend(struct backend **out, const struct model_weights **weights,
                                         const struct device_plan *plan, int index,
                                         struct split split, struct error *err) {
    const bool pin = plan->cfg->compute.pin && cores_are_ours(split.n_workers * split.n_threads);
    const int device = plan->choice.n > 1 ? index % plan->choice.n : 0;
    *weights = &plan->weights[device];
    return plan->choice.accelerator ? accelerator_create(out, plan->cfg, &plan->choice, device, err)
                                    : create_on_cpu(out, plan->cfg, split.n_threads,
                                                    pin ? index * split.n_threads : -1, err);
}

enum status device_open(struct device *out, const struct device_plan *plan, int index,
                        struct split split, struct error *err) {
    struct encoder_limits limits = {plan->batch.max_rows, plan->batch.max_jobs, plan->max_seq_len,
                                    .slot = 0};
    const struct model_weights *weights = NULL;
    struct device d = {.be = NULL};
    enum status s = create_worker_backend(&d.be, &weights, plan, index, split, err);
    s = s ? s : encoder_create(&d.encoder, d.be, plan->model, weights, &limits, err);
    limits.slot = 1;
    s = s ? s : encoder_create(&d.urgent, d.be, plan->model, weights, &limits, err);
    if (s) {
        device_close(&d);
        return s;
    }
    *out = d;
    return STATUS_OK;
}
void device_close(struct device *d) {
    encoder_destroy(d->encoder);
    encoder_destroy(d->urgent);
    backend_destroy(d->be);
    memset(d, 0, sizeof(*d));
}

struct probe *probe_create(const struct device_plan *plan) {
    struct probe *p = xcalloc(1, sizeof(*p));
    const size_t n_jobs = (size_t)plan->batch.max_jobs;
    p->limits = plan->batch;
    p->max_seq_len = plan->max_seq_len;
    p->zeros = xcalloc((size_t)plan->batch.max_rows, sizeof(*p->zeros));
    p->starts = xcalloc(n_jobs + 1, sizeof(*p->starts));
    p->lens = xcalloc(n_jobs, sizeof(*p->lens));
    p->logits = xcalloc(n_jobs * (size_t)plan->model->n_labels, sizeof(*p->logits));
    return p;
}
void probe_destroy(struct probe *p) {
    if (p) {
        free(p->zeros), free(p->starts), free(p->lens), free(p->logits);
        free(p);
    }
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}
static struct token_batch make_batch(struct probe *p, const int *lens, int n_seqs) {
    struct token_batch b = {.token_ids = p->zeros,
                            .token_type_ids = p->zeros,
                            .cu_seqlens = p->starts,
                            .seq_lens = p->lens};
    while (b.n_seqs < min_int(n_seqs, p->limits.max_jobs) && b.n_rows < p->limits.max_rows) {
        const int len =
            min_int(min_int(lens[b.n_seqs], p->max_seq_len), p->limits.max_rows - b.n_rows);
        p->lens[b.n_seqs++] = len;
        b.n_rows += len;
        p->starts[b.n_seqs] = b.n_rows;
        b.max_seq_len = len > b.max_seq_len ? len : b.max_seq_len;
    }
    return b;
}
static int64_t thread_cpu_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}
static enum status run_on(struct probe *p, struct encoder *e, const int *lens, int n_seqs,
                          struct probe_pass *out, struct error *err) {
    const struct token_batch batch = make_batch(p, lens, n_seqs);
    const int64_t start_ns = time_now_ns(), cpu_ns = thread_cpu_ns();
    const enum status s = encoder_forward(e, p->logits, &batch, NULL, err);
    *out = (struct probe_pass){cost_shape_of(&batch), time_now_ns() - start_ns,
                               thread_cpu_ns() - cpu_ns};
    return s;
}
enum status probe_run(struct probe *p, const struct device *d, const int *lens, int n_seqs,
                      struct probe_pass *out, struct error *err) {
    return run_on(p, d->encoder, lens, n_seqs, out, err);
}
/* The second pass of a size finds what the first one chose, and makes what is kept. */
static enum status warm_up_size(struct probe *p, const struct device *d, int rows, int seqs,
                                struct error *err) {
    struct encoder *const encoders[] = {d->encoder, d->encoder, d->urgent, d->urgent};
    struct probe_pass unused;
    enum status s = STATUS_OK;
    for (int i = 0; i < seqs; i++) {
        p->lens[i] = rows / seqs + (i < rows % seqs);
    }
    for (size_t i = 0; i < N_ITEMS(encoders) && !s; i++) {
        s = run_on(p, encoders[i], p->lens, seqs, &unused, err);
    }
    return s;
}
enum status probe_warm_up(struct probe *p, const struct device *d, struct error *err) {
    static const int a_short[] = {8}, mixed[] = {16, 80, 32};
    struct probe_pass unused;
    int rows = 0, seqs = 0;
    enum status s = probe_run(p, d, a_short, 1, &unused, err);
    s = s ? s : probe_run(p, d, mixed, (int)N_ITEMS(mixed), &unused, err);
    for (int i = 0; !s && d->be->fn->warm_up_size(d->be, i, &rows, &seqs); i++) {
        assert(seqs <= p->limits.max_jobs && rows <= p->limits.max_rows);
        s = warm_up_size(p, d, rows, seqs, err);
    }
    d->be->fn->seal(d->be);
    return s;
}
