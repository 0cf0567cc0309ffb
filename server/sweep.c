/* sweep.c - which shapes are timed, and what becomes of the times.
 * Shapes are taken in rounds, the smaller first, so that a slow moment falls on all alike; one that
 * is predicted not to fit into what is left of the time is left out, so a large model is told by
 * its small shapes. Pairs of one number of rows and different lengths tell the square's share. Of
 * each shape the least time counts, for neighbours on the machine only ever add. Where they took
 * much of a pass, its time on the core stands for it: terms then have their right shares, and the
 * speed is soon learnt from real batches; such a sweep is not kept for the next start. */
#include "server/sweep.h"

#include <stdio.h>
#include <string.h>

#include "base/timing.h"
#include "kernels/backend.h"
#include "server/cores.h"

enum { MAX_ROUNDS = 5, MAX_SEQS = 1024, N_SHAPES = 13 };
static const int64_t SWEEP_NS = 500 * NS_PER_MS;
static const double ON_CORE = 0.7;         // less of a pass, and others had the core
static const double MOST_DISTURBED = 0.25; // of the passes of a sweep that is kept

const char *const cost_source_names[N_COST_SOURCES] = {
    [COST_NOTHING] = "nothing", [COST_CACHE] = "cache", [COST_SWEEP] = "sweep"};

struct sweep {
    int n_seqs[N_SHAPES], len[N_SHAPES]; // by rising rows
    int64_t least_ns[N_SHAPES];
    struct cost_shape shape[N_SHAPES]; // as it ran, within the device's limits
    int n_rounds[N_SHAPES], n_shapes;
    bool runs_here; // the calling thread computes
    int n_passes, n_disturbed;
};

static void add_shape(struct sweep *w, int n_seqs, int len, const struct device_plan *plan) {
    if (len > plan->max_seq_len || n_seqs > plan->batch.max_jobs || n_seqs > MAX_SEQS ||
        (int64_t)n_seqs * len > plan->batch.max_rows || n_seqs < 1) {
        return;
    }
    w->n_seqs[w->n_shapes] = n_seqs, w->len[w->n_shapes++] = len;
}
static void choose_shapes(struct sweep *w, const struct device_plan *plan) {
    static const int few[][2] = {{1, 8},  {1, 16},  {2, 16}, {1, 48},  {4, 16},
                                 {4, 32}, {1, 128}, {8, 32}, {2, 128}, {1, 256}};
    const int fill = plan->batch.max_rows / 32, longest = plan->max_seq_len;
    memset(w, 0, sizeof(*w));
    for (size_t i = 0; i < N_ITEMS(few); i++) {
        add_shape(w, few[i][0], few[i][1], plan);
    }
    if (longest > 256) {
        add_shape(w, 1, longest < 512 ? longest : 512, plan);
    }
    if (fill > 8) {
        add_shape(w, fill < plan->batch.max_jobs ? fill : plan->batch.max_jobs, 32, plan);
    }
    if (w->n_shapes < 2) { // limits so small that nothing else fits
        add_shape(w, 1, 1, plan);
    }
}

static void fit(struct cost_model *out, const struct sweep *w) {
    struct cost_sample samples[N_SHAPES];
    int n = 0;
    for (int i = 0; i < w->n_shapes; i++) {
        if (w->n_rounds[i] > 0) {
            samples[n++] = (struct cost_sample){w->shape[i], w->least_ns[i]};
        }
    }
    cost_fit(out, samples, n);
}
static bool fits(const struct sweep *w, int i, int64_t left_ns) {
    struct cost_model m;
    const int64_t rows = (int64_t)w->n_seqs[i] * w->len[i];
    const struct cost_shape shape = {rows, rows * w->len[i]};
    fit(&m, w);
    return cost_predict_ns(&m, shape) <= left_ns;
}
static enum status run_shape(struct sweep *w, int i, struct probe *p, const struct device *d,
                             struct error *err) {
    int lens[MAX_SEQS];
    struct probe_pass pass;
    for (int k = 0; k < w->n_seqs[i]; k++) {
        lens[k] = w->len[i];
    }
    const enum status s = probe_run(p, d, lens, w->n_seqs[i], &pass, err);
    const bool disturbed = w->runs_here && (double)pass.cpu_ns < ON_CORE * (double)pass.ns;
    const int64_t ns = disturbed ? pass.cpu_ns : pass.ns;
    w->n_disturbed += disturbed, w->n_passes++;
    w->shape[i] = pass.shape;
    if (w->n_rounds[i]++ == 0 || ns < w->least_ns[i]) {
        w->least_ns[i] = ns > 0 ? ns : 1;
    }
    return s;
}
static enum status run_sweep(struct sweep *w, const struct device *d,
                             const struct device_plan *plan, struct error *err) {
    struct probe *p = probe_create(plan);
    choose_shapes(w, plan);
    w->runs_here = !strcmp(d->be->name, "cpu");
    enum status s = run_shape(w, 0, p, d, err); // the very first pass finds nothing in its caches
    const int64_t end_ns = time_now_ns() + SWEEP_NS;
    w->n_rounds[0] = 0;
    for (int round = 0; round < MAX_ROUNDS && !s; round++) {
        for (int i = 0; i < w->n_shapes && !s; i++) {
            if ((round == 0 && i < 2) || fits(w, i, end_ns - time_now_ns())) {
                s = run_shape(w, i, p, d, err);
            }
        }
    }
    probe_destroy(p);
    return s;
}

void sweep_key(char out[TUNING_MAX_KEY + 1], const char *what, const struct device_plan *plan,
               struct split split) {
    const struct model_config *m = plan->model;
    char cpu[96];
    cores_model(cpu, sizeof(cpu));
    snprintf(out, TUNING_MAX_KEY + 1, "%s; %s; %s %s; %s; %s; %d x %d; %d/%d/%d/%d; %s", what, cpu,
             plan->loader->name, plan->loader->detail, dtype_name(plan->loader->dtype),
             batch_mode_names[plan->cfg->batching.mode], split.n_workers, split.n_threads,
             m->n_layers, m->hidden, m->n_heads, m->intermediate, BERTH_VERSION);
}

/* Numbers that a machine can have: from a cache that anybody may have written. */
static bool is_plausible(const double coef[COST_TERMS]) {
    const double row_ns = coef[0] + coef[1] + coef[2];
    return coef[0] >= 0 && coef[1] >= 0 && coef[2] >= 0 && row_ns >= 1 && row_ns <= 60.0 * NS_PER_S;
}
enum status sweep_cost(struct cost_model *out, enum cost_source *from, const struct device *d,
                       const struct device_plan *plan, struct split split, struct tuning *tuning,
                       struct error *err) {
    char key[TUNING_MAX_KEY + 1];
    double coef[COST_TERMS];
    sweep_key(key, "cost", plan, split);
    if (tuning_get(tuning, key, coef, COST_TERMS) && is_plausible(coef)) {
        cost_set(out, coef);
        *from = COST_CACHE;
        return STATUS_OK;
    }
    cost_fit(out, NULL, 0);
    *from = COST_NOTHING;
    if (!plan->measure) {
        return STATUS_OK;
    }
    struct sweep w;
    const enum status s = run_sweep(&w, d, plan, err);
    if (s) {
        return s;
    }
    fit(out, &w);
    *from = COST_SWEEP;
    if (w.n_disturbed <= MOST_DISTURBED * w.n_passes) {
        tuning_set(tuning, key, out->coef, COST_TERMS);
    }
    return STATUS_OK;
}
