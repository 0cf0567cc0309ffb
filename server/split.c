/* split.c - trials of workers times threads.
 * A trial opens the devices of one candidate, lets each worker run batches of mixed lengths for a
 * moment, and closes them again, so that nothing is left but the figure. Trials come in two rounds
 * and the better figure counts, for a neighbour on the machine can only slow one down. Fewer
 * workers answer a lone text sooner, so more of them have to be better by a margin.
 * Threads that wait for each other lose more to a neighbour than threads that do not; so when
 * workers of one thread did not get the cores that they ran on, nothing is learnt and nothing kept:
 * the cores go to one worker, and the next start tries again. */
#include "server/split.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/timing.h"
#include "kernels/backend.h"
#include "server/cores.h"
#include "server/sweep.h"

enum { N_ROUNDS = 2, LEAST_SEQS = 3 };
static const int64_t TRIAL_NS = 80 * NS_PER_MS; // of running, at least one batch
static const int64_t BATCH_NS = 30 * NS_PER_MS; // a slow model gets smaller batches
static const int64_t ALL_NS = 800 * NS_PER_MS;  // when so much has gone, one round has to do
static const double MARGIN = 1.10;
static const double UNDISTURBED = 0.93; // of the time a thread that never waits was on a core
/* 256 tokens; the first of them are the batch of a slow model. */
static const int mix[] = {16, 8, 24, 32, 12, 20, 48, 10, 64, 22};

struct trial {
    const struct device_plan *plan;
    int n_seqs; // of a batch, from mix[]
    pthread_mutex_t gate;
    bool is_void; // not all workers have a thread
};
struct trial_worker {
    struct trial *trial;
    pthread_t thread;
    struct device device;
    struct probe *probe;
    double rows_per_s;
    double on_core; // part of the time
    enum status status;
    struct error err;
};

int split_candidates(struct split out[SPLIT_MAX_CANDIDATES], int n_cores) {
    int n = 0;
    for (int w = 1; w <= n_cores && w <= SPLIT_MAX_WORKERS && n < SPLIT_MAX_CANDIDATES; w++) {
        if (n_cores % w == 0 && n_cores / w <= SPLIT_MAX_THREADS) {
            out[n++] = (struct split){w, n_cores / w};
        }
    }
    if (n == 0) { // a large prime
        out[n++] = (struct split){1, SPLIT_MAX_THREADS};
    }
    return n;
}

static void *run_worker(void *arg) {
    struct trial_worker *w = arg;
    struct probe_pass pass;
    int64_t rows = 0, ns = 0, cpu_ns = 0;
    pthread_mutex_lock(&w->trial->gate);
    pthread_mutex_unlock(&w->trial->gate);
    while (!w->trial->is_void && !w->status && ns < TRIAL_NS) {
        w->status = probe_run(w->probe, &w->device, mix, w->trial->n_seqs, &pass, &w->err);
        rows += pass.shape.rows, ns += pass.ns, cpu_ns += pass.cpu_ns;
    }
    w->rows_per_s = ns ? (double)rows * NS_PER_S / (double)ns : 0;
    w->on_core = ns ? (double)cpu_ns / (double)ns : 0;
    return NULL;
}
/* How many of mix[] make a batch that takes BATCH_NS, by what `pass` took. */
static int fitting_seqs(const struct probe_pass *pass) {
    const double rows = (double)BATCH_NS * (double)pass->shape.rows / (double)pass->ns;
    int n = 0, sum = 0;
    while (n < (int)N_ITEMS(mix) && (n < LEAST_SEQS || sum + mix[n] <= rows)) {
        sum += mix[n++];
    }
    return n;
}
static enum status open_workers(struct trial_worker *workers, struct trial *t, struct split split,
                                struct error *err) {
    struct probe_pass pass = {.ns = 1};
    enum status s = STATUS_OK;
    for (int i = 0; i < split.n_workers && !s; i++) {
        struct trial_worker *w = &workers[i];
        w->trial = t;
        w->probe = probe_create(t->plan);
        s = device_open(&w->device, t->plan, i, split, err);
        for (int k = 0; k < 2 && !s; k++) { // warm, and then timed
            s = probe_run(w->probe, &w->device, mix, LEAST_SEQS, &pass, err);
        }
    }
    if (!s && t->n_seqs == 0) {
        t->n_seqs = fitting_seqs(&pass);
    }
    return s;
}
/* Each worker on a thread of its own, for a pass pins the thread that runs it. */
static enum status run_workers(struct trial_worker *workers, struct trial *t, int n,
                               struct error *err) {
    enum status s = STATUS_OK;
    int n_started = 0;
    pthread_mutex_lock(&t->gate);
    t->is_void = false;
    while (n_started < n &&
           !pthread_create(&workers[n_started].thread, NULL, run_worker, &workers[n_started])) {
        n_started++;
    }
    t->is_void = n_started < n;
    if (t->is_void) {
        s = error_set(err, STATUS_NO_MEMORY, "no thread for worker %d of %d", n_started + 1, n);
    }
    pthread_mutex_unlock(&t->gate);
    for (int i = 0; i < n_started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status && !s) {
            s = workers[i].status;
            *err = workers[i].err;
        }
    }
    return s;
}
struct figure {
    double rows_per_s; // of all workers together
    double on_core;    // of the worker that had least of its core
};
static enum status run_trial(struct figure *out, struct trial *t, struct split split,
                             struct error *err) {
    struct trial_worker *workers = xcalloc((size_t)split.n_workers, sizeof(*workers));
    enum status s = open_workers(workers, t, split, err);
    s = s ? s : run_workers(workers, t, split.n_workers, err);
    *out = (struct figure){.on_core = 1};
    for (int i = 0; i < split.n_workers; i++) {
        const struct trial_worker *w = &workers[i];
        out->rows_per_s += w->rows_per_s;
        out->on_core = w->on_core < out->on_core ? w->on_core : out->on_core;
        device_close(&workers[i].device);
        probe_destroy(workers[i].probe);
    }
    free(workers);
    if (!s) {
        log_event(LOG_INFO, "split_trial", LOG_INT("workers", split.n_workers),
                  LOG_INT("threads", split.n_threads), LOG_NUM("rows_per_s", out->rows_per_s),
                  LOG_NUM("on_core", out->on_core));
    }
    return s;
}

static struct split best_of(const struct split *candidates, const double *rates, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) { // more workers, of those the fewest that are so much better
        best = rates[i] > MARGIN * rates[best] ? i : best;
    }
    return candidates[best];
}
/* The last candidate first: it tells whether there is anything to be learnt. */
static enum status run_trials(double *rates, bool *disturbed, struct trial *t,
                              const struct split *candidates, int n, struct error *err) {
    const struct cores_mask own = cores_mask_get();
    const int64_t end_ns = time_now_ns() + ALL_NS;
    for (int k = 0; k < N_ROUNDS * n && (k < n || time_now_ns() < end_ns); k++) {
        const int i = n - 1 - k % n;
        struct figure figure;
        const enum status s = run_trial(&figure, t, candidates[i], err);
        cores_mask_set(&own);
        if (s) {
            return s;
        }
        rates[i] = figure.rows_per_s > rates[i] ? figure.rows_per_s : rates[i];
        *disturbed = candidates[i].n_threads == 1 && figure.on_core < UNDISTURBED;
        if (*disturbed) {
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}
static enum status measure(struct split *out, bool *disturbed, const struct split *candidates,
                           int n, const struct device_plan *plan, struct error *err) {
    double rates[SPLIT_MAX_CANDIDATES] = {0};
    struct trial t = {.plan = plan};
    pthread_mutex_init(&t.gate, NULL);
    const enum status s = run_trials(rates, disturbed, &t, candidates, n, err);
    pthread_mutex_destroy(&t.gate);
    *out = *disturbed ? candidates[0] : best_of(candidates, rates, n);
    return s;
}

static int clamp_threads(int n) {
    return n < 1 ? 1 : n > SPLIT_MAX_THREADS ? SPLIT_MAX_THREADS : n;
}
/* What the settings decide without a measurement; n_workers 0: nothing. */
static struct split decided(const struct device_plan *plan, int n_cores) {
    const struct config *cfg = plan->cfg;
    const int workers = cfg->compute.workers, threads = cfg->compute.threads;
    const bool is_reference = !strcmp(cfg->compute.device, "reference"); // has one lane
    if (plan->choice.accelerator) { // a worker for each device, and no lanes
        return (struct split){workers ? workers : plan->choice.n, 1};
    }
    if (workers && threads) {
        return (struct split){workers, threads};
    }
    if (workers) {
        return (struct split){workers, clamp_threads(n_cores / workers)};
    }
    if (threads || cfg->compute.deterministic || is_reference || n_cores == 1) {
        return (struct split){1, threads ? threads : clamp_threads(n_cores)};
    }
    return (struct split){0, 0};
}
enum status split_choose(struct split *out, const struct device_plan *plan, struct tuning *tuning,
                         struct error *err) {
    struct split candidates[SPLIT_MAX_CANDIDATES];
    char key[TUNING_MAX_KEY + 1];
    double saved[2];
    const int n_cores = cores_available(), n = split_candidates(candidates, n_cores);
    *out = decided(plan, n_cores);
    if (out->n_workers) {
        return STATUS_OK;
    }
    sweep_key(key, "split", plan, (struct split){0, n_cores});
    if (tuning_get(tuning, key, saved, 2)) {
        for (int i = 0; i < n; i++) { // only what could have been chosen
            if (saved[0] == candidates[i].n_workers && saved[1] == candidates[i].n_threads) {
                *out = candidates[i];
                return STATUS_OK;
            }
        }
    }
    if (!plan->measure) {
        *out = candidates[0];
        return STATUS_OK;
    }
    bool disturbed = false;
    const enum status s = measure(out, &disturbed, candidates, n, plan, err);
    if (!s && !disturbed) {
        tuning_set(tuning, key, (const double[]){out->n_workers, out->n_threads}, 2);
    }
    return s;
}
