/* sweep.c - which shapes are timed, and what becomes of the times.
 * Shapes are taken in rounds, the smaller first, so that a slow moment falls on all alike; one that
 * is predicted not to fit into what is left of the time is left out, so a large model is told by
 * its small shapes. Pairs of one number of rows and different lengths tell the square's share. Of
 * each shape the least time counts, for neighbours on the machine only ever add. Where they took
 * much of a pass, its time on the core stands for it: terms then have their right shares, and the
 * speed is soon learnt from real batches; such a sweep is not kept for the next start. */
#include "server/sweep.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/timing.h"
#include "kernels/backend.h"
#include "server/cores.h"

enum { MAX_ROUNDS = 5, MAX_SEQS = 1024, N_SHAPES = 13, LONGEST = 512 };
static const int64_t SWEEP_NS = 500 * NS_PER_MS;
static const double ON_CORE = 0.7;         // less of a pass, and others had the core
static const double MOST_DISTURBED = 0.25; // of the passes of a sweep that is kept
static const double MOST_PAIR_FACTOR = 32; // of what arithmetic alone makes of a squared token

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
static int longest_of(const struct device_plan *plan) {
    return plan->max_seq_len < LONGEST ? plan->max_seq_len : LONGEST;
}
static void choose_shapes(struct sweep *w, const struct device_plan *plan) {
    static const int few[][2] = {{1, 8},  {1, 16},  {2, 16}, {1, 48},  {4, 16},
                                 {4, 32}, {1, 128}, {8, 32}, {2, 128}, {1, 256}};
    const int fill = plan->batch.max_rows / 32, longest = longest_of(plan);
    memset(w, 0, sizeof(*w));
    for (size_t i = 0; i < N_ITEMS(few); i++) {
        add_shape(w, few[i][0], few[i][1], plan);
    }
    if (longest > 256) {
        add_shape(w, 1, longest, plan);
    }
    if (fill > 8) {
        add_shape(w, fill < plan->batch.max_jobs ? fill : plan->batch.max_jobs, 32, plan);
    }
    if (w->n_shapes < 2) { // limits so small that nothing else fits
        add_shape(w, 1, 1, plan);
    }
}

static int samples_of(struct cost_sample samples[N_SHAPES], const struct sweep *w) {
    int n = 0;
    for (int i = 0; i < w->n_shapes; i++) {
        if (w->n_rounds[i] > 0) {
            samples[n++] = (struct cost_sample){w->shape[i], w->least_ns[i]};
        }
    }
    return n;
}
static void fit(struct cost_model *out, const struct sweep *w) {
    struct cost_sample samples[N_SHAPES];
    cost_fit(out, samples, samples_of(samples, w));
}

/* Scores and their weighted sums by the four projections and the two of the FFN: 4 h a squared
 * token, 8 h^2 + 4 h i a row, in flops. Measured it is 1.5 to 3 times that on CPUs. */
static double pair_by_row(const struct model_config *m) {
    return 1.0 / (2.0 * m->hidden + m->intermediate);
}
const char *sweep_fault(const double coef[COST_TERMS], const struct model_config *model,
                        int longest) {
    const double rows_ns = coef[1] * longest, pairs_ns = coef[2] * longest * longest;
    const double one_ns = coef[0] + coef[1] + coef[2], long_ns = coef[0] + rows_ns + pairs_ns;
    if (!(coef[0] >= 0 && coef[1] >= 0 && coef[2] >= 0 && one_ns >= 1 &&
          one_ns <= 60.0 * NS_PER_S)) {
        return "not times that a pass can take";
    }
    const bool pairs_matter = pairs_ns > long_ns / 2;
    return pairs_matter && coef[2] > MOST_PAIR_FACTOR * pair_by_row(model) * coef[1]
               ? "squared tokens would cost more beside rows than the model's arithmetic allows"
               : NULL;
}
void sweep_fit_tied(struct cost_model *out, const struct cost_sample *samples, int n,
                    const struct model_config *model) {
    enum { PARTS = 1024 }; // of a row, so that rounding does not matter
    struct cost_sample tied[N_SHAPES];
    const double share = pair_by_row(model);
    assert(n <= N_SHAPES);
    for (int i = 0; i < n; i++) {
        const struct cost_shape s = samples[i].shape;
        const double rows = (double)s.rows + share * (double)s.sum_len2;
        tied[i] = (struct cost_sample){{(int64_t)(rows * PARTS), 1}, samples[i].ns};
    }
    cost_fit(out, tied, n); // with one squared token each, which no term can be told from
    const double row_ns = out->coef[1] * PARTS;
    const double coef[COST_TERMS] = {out->coef[0] + out->coef[2], row_ns, row_ns * share};
    cost_set(out, coef);
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

static void log_not_kept(const char *reason, const double coef[COST_TERMS]) {
    log_event(LOG_WARN, "cost_sweep", LOG_STR("reason", reason), LOG_NUM("batch_ns", coef[0]),
              LOG_NUM("row_ns", coef[1]), LOG_NUM("token_pair_ns", coef[2]),
              LOG_STR("consequence", "not kept for the next start; corrected by every pass"));
}
/* What the samples say, or, where that cannot be, what can. True: it is worth keeping. */
static bool conclude(struct cost_model *out, const struct sweep *w,
                     const struct device_plan *plan) {
    struct cost_sample samples[N_SHAPES];
    const int n = samples_of(samples, w);
    cost_fit(out, samples, n);
    const char *fault = sweep_fault(out->coef, plan->model, longest_of(plan));
    if (fault) {
        log_not_kept(fault, out->coef);
        sweep_fit_tied(out, samples, n, plan->model);
        return false;
    }
    if (w->n_disturbed > MOST_DISTURBED * w->n_passes) {
        log_not_kept("other programs had the cores meanwhile", out->coef);
        return false;
    }
    return true;
}
enum status sweep_cost(struct cost_model *out, enum cost_source *from, const struct device *d,
                       const struct device_plan *plan, struct split split, struct tuning *tuning,
                       struct error *err) {
    char key[TUNING_MAX_KEY + 1];
    double coef[COST_TERMS];
    sweep_key(key, "cost", plan, split);
    if (tuning_get(tuning, key, coef, COST_TERMS) &&
        !sweep_fault(coef, plan->model, longest_of(plan))) {
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
    *from = COST_SWEEP;
    if (conclude(out, &w, plan)) {
        tuning_set(tuning, key, out->coef, COST_TERMS);
    }
    return STATUS_OK;
}
