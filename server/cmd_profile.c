/* cmd_profile.c - `berth profile`: where passes of one batch spend their time, op by op.
 * One device with as many threads as the settings give, no queue and no HTTP. The machine's peaks
 * are measured beside the passes, before and after them, and the better ones count: a neighbour can
 * only make them smaller. */
#include "server/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "bench/common/machine.h"
#include "model/encoder.h"
#include "server/cores.h"
#include "server/device.h"
#include "server/profile.h"

enum { WARM_UP_PASSES = 2 };

struct profile_run {
    struct profile_request request;
    struct profile_report report;
    struct model_config model;
    struct model_weights weights;
    struct backend *be;
    struct encoder *encoder;
    int32_t *ids, *types, *starts; // [n_tokens], [n_tokens], [n_seqs + 1]
    float *logits;
};

static enum status open_model(struct profile_run *p, const struct config *cfg, struct error *err) {
    const struct profile_request *q = &p->request;
    const struct encoder_limits limits = {q->n_tokens, q->n_seqs, q->longest, .slot = 0};
    enum status s = model_config_read(&p->model, cfg->model.dir, err);
    if (s) {
        return s;
    }
    if (q->longest > p->model.max_position) {
        return error_set(err, STATUS_INVALID, "a sequence of %d tokens: the model takes at most %d",
                         q->longest, p->model.max_position);
    }
    const int n = cfg->compute.threads ? cfg->compute.threads : cores_available();
    const bool pin = cfg->compute.pin && cores_are_ours(n);
    s = device_create_backend(&p->be, cfg, n, pin ? 0 : -1, err);
    s = s ? s : model_weights_load(&p->weights, p->be, &p->model, cfg->model.dir, NULL, err);
    s = s ? s : encoder_create(&p->encoder, p->be, &p->model, &p->weights, &limits, err);
    if (!s) {
        p->report.model_dir = cfg->model.dir;
        p->report.backend = p->be->name, p->report.detail = p->be->detail;
        p->report.dtype = dtype_name(p->be->dtype);
        p->report.n_threads = p->be->n_lanes;
        op_profile_init(&p->report.profile, p->model.n_layers);
    }
    return s;
}
/* Ids all over the vocabulary, as texts have them: rows of one word would stay in cache. */
static void make_batch(struct profile_run *p) {
    const size_t n_tokens = (size_t)p->request.n_tokens, n_seqs = (size_t)p->request.n_seqs;
    uint32_t x = 1;
    p->ids = xcalloc(n_tokens, sizeof(*p->ids));
    p->types = xcalloc(n_tokens, sizeof(*p->types));
    p->starts = xcalloc(n_seqs + 1, sizeof(*p->starts));
    p->logits = xcalloc(n_seqs * (size_t)p->model.n_labels, sizeof(*p->logits));
    for (size_t i = 0; i < n_tokens; i++) {
        x = x * 1664525u + 1013904223u;
        p->ids[i] = (int32_t)((x >> 8) % (uint32_t)p->model.vocab_size);
    }
    for (size_t i = 0; i < n_seqs; i++) {
        p->starts[i + 1] = p->starts[i] + p->request.lens[i];
    }
}
static void measure_peaks(struct profile_run *p) {
    if (p->be->isa) {
        const double gflops = machine_peak_gflops(p->be->isa, p->be->n_lanes);
        const double gbs = machine_copy_gbs();
        struct profile_report *r = &p->report;
        r->peak_gflops = gflops > r->peak_gflops ? gflops : r->peak_gflops;
        r->copy_gbs = gbs > r->copy_gbs ? gbs : r->copy_gbs;
    }
}
static enum status run_passes(struct profile_run *p, struct error *err) {
    const struct profile_request *q = &p->request;
    const struct token_batch batch = {p->ids,    p->types,    p->starts, q->lens,
                                      q->n_seqs, q->n_tokens, q->longest};
    enum status s = STATUS_OK;
    for (int i = 0; i < WARM_UP_PASSES && !s; i++) {
        s = encoder_forward(p->encoder, p->logits, &batch, NULL, err);
    }
    const int64_t end_ns = time_now_ns() + (int64_t)(q->seconds * (double)NS_PER_S);
    int64_t now_ns = time_now_ns();
    while (!s && (p->report.profile.n_passes == 0 || now_ns < end_ns)) {
        const int64_t start_ns = now_ns;
        s = encoder_forward(p->encoder, p->logits, &batch, NULL, err);
        now_ns = time_now_ns();
        p->report.pass_ns += now_ns - start_ns;
        encoder_profile(p->encoder, &p->report.profile);
    }
    return s;
}
static void finish(struct profile_run *p) {
    op_profile_finish(&p->report.profile);
    encoder_destroy(p->encoder);
    model_weights_finish(&p->weights);
    model_config_finish(&p->model);
    backend_destroy(p->be);
    free(p->ids);
    free(p->types);
    free(p->starts);
    free(p->logits);
    free(p);
}
int cmd_profile(const struct options *opt) {
    struct profile_run *p = xcalloc(1, sizeof(*p));
    struct error err = {.text = ""};
    int code = EXIT_USAGE;
    enum status s = profile_request_read(&p->request, opt, &err);
    if (!s) {
        code = EXIT_FAULT;
        p->report.request = &p->request;
        s = open_model(p, &opt->cfg, &err);
    }
    if (!s) {
        make_batch(p);
        measure_peaks(p);
        s = run_passes(p, &err);
    }
    if (!s) {
        measure_peaks(p);
        if (p->request.json) {
            s = profile_print_json(&p->report, &err);
        } else {
            profile_print_table(stdout, &p->report);
        }
    }
    finish(p);
    if (s) {
        fprintf(stderr, "berth: profile: %s\n", err.text);
    }
    return s ? code : 0;
}
