/* way.c - a server started with its settings, loaded by the client of `berth bench`, and asked
 * before and after for its counters. CPU time is the child's own, over the whole round with its
 * warm-up, as are padding and times by operation; latency and throughput leave the warm-up out. */
#include "bench/experiment/way.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/timing.h"

#define MAX_BEHIND_SHARE 0.05 // of what was due may be unanswered at the end,
enum { MAX_BEHIND = 3 };      // beside these
enum { THIRDS = 3, MAX_SAMPLES = 1000 };
#define LATE_FACTOR 1.25 // of the loads' time, and
#define START_S 60       // beside it: the limit of a run that was given none

void runner_begin(struct runner *r, const struct bench_config *cfg, double load_s) {
    cpu_set_t allowed;
    sigset_t signals;
    *r = (struct runner){.cfg = cfg, .n_cores = 1};
    r->limit_s = cfg->time_limit_s > 0 ? cfg->time_limit_s : LATE_FACTOR * load_s + START_S;
    r->end_by_ns = time_now_ns() + (int64_t)(r->limit_s * 1e9);
    if (!sched_getaffinity(0, sizeof(allowed), &allowed)) {
        r->n_cores = CPU_COUNT(&allowed);
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
}
const char *runner_cut(const struct runner *r) {
    return r->is_interrupted   ? "interrupted"
           : r->is_out_of_time ? "the time limit was over (--time-limit)"
                               : NULL;
}
static void say(const struct runner *r, const char *what, const char *name) {
    if (!r->cfg->quiet && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s %s", what, name);
        fflush(stderr);
    }
}
static void fail(struct way *w, struct runner *r, const char *reason) {
    w->has_failed = r->is_partial = true;
    snprintf(w->reason, sizeof(w->reason), "%s", reason);
    fprintf(stderr, "%sberth: bench: %s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", w->name,
            reason);
}
void way_start(struct way *w, struct runner *r) {
    char tokens[16], ms[32];
    const char *words[CHILD_MAX_WORDS] = {r->cfg->model, "--host",   "127.0.0.1",
                                          "--port",      "0",        "--mode",
                                          w->mode,       "--fusion", w->is_fused ? "on" : "off"};
    int n = 9;
    struct error err = {""};
    bool interrupted = false;
    if (w->max_tokens > 0) {
        snprintf(tokens, sizeof(tokens), "%d", w->max_tokens);
        words[n++] = "--batching.max_batch_tokens", words[n++] = tokens;
    }
    if (w->max_ms >= 0) {
        snprintf(ms, sizeof(ms), "%g", w->max_ms);
        words[n++] = "--batching.max_batch_ms", words[n++] = ms;
    }
    say(r, "starting", w->name);
    if (child_start(&w->child, words, r->end_by_ns, &interrupted, &err)) {
        r->is_interrupted = r->is_interrupted || interrupted;
        r->is_out_of_time = r->is_out_of_time || time_now_ns() >= r->end_by_ns;
        fail(w, r, err.text);
    }
}
void ways_stop(struct way *ways, int n) {
    for (int i = 0; i < n; i++) {
        child_ask_to_end(&ways[i].child);
    }
    for (int i = 0; i < n; i++) {
        child_stop(&ways[i].child);
    }
}
void ways_finish(struct way *ways, int n) {
    ways_stop(ways, n);
    for (int i = 0; i < n * WAY_MAX_CELLS; i++) {
        struct cell *c = &ways[i / WAY_MAX_CELLS].cells[i % WAY_MAX_CELLS];
        record_destroy(c->sum);
        c->sum = NULL;
    }
}

static void add_round(struct cell *c, struct round *one, double n_ok_in_window) {
    if (c->n_rounds < EXPERIMENT_MAX_ROUNDS) {
        c->round_throughput[c->n_rounds++] = one->throughput;
    }
    c->seconds += one->window_s;
    c->n_ok_in_window += n_ok_in_window;
    c->is_partial = c->is_partial || one->stop;
    if (c->sum) {
        record_add(c->sum, one->sum);
    } else {
        c->sum = one->sum;
        one->sum = NULL;
    }
}
static void add_spent(struct cell *c, const struct counters *before, const struct counters *after) {
    c->spent.tokens += after->tokens - before->tokens;
    c->spent.rows += after->rows - before->rows;
    c->spent.attention_s += after->attention_s - before->attention_s;
    c->spent.compute_s += after->compute_s - before->compute_s;
}
static struct bench_config round_config(const struct runner *r, const struct load_spec *spec,
                                        const char *url, const char *rate) {
    struct bench_config c = *r->cfg;
    c.url = url;
    c.rate = spec->rate > 0 ? rate : NULL;
    c.connections = spec->rate > 0 ? 0 : r->cfg->connections;
    c.duration_s = spec->seconds;
    c.warmup_s = spec->warmup_s;
    c.seed = spec->seed;
    return c;
}
/* STATUS_OK also when the round was stopped. */
static enum status run_round(struct way *w, struct cell *c, const struct load_spec *spec,
                             struct runner *r, struct error *err) {
    char url[64], rate[32], title[200];
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", w->child.port);
    snprintf(rate, sizeof(rate), "%.6g", spec->rate);
    snprintf(title, sizeof(title), "%s, %s", spec->label, w->name);
    const struct bench_config cfg = round_config(r, spec, url, rate);
    const bool is_shown = !cfg.quiet && isatty(STDERR_FILENO);
    struct load *load = xcalloc(1, sizeof(*load));
    struct round one = {.sum = NULL};
    enum status s = load_prepare(load, &cfg, err);
    load->plan.offset_ns = (int64_t)(c->seconds * 1e9);
    load->plan.end_by_ns = r->end_by_ns;
    s = s ? s : round_run(&one, &load->plan, MAX_SAMPLES, is_shown ? title : NULL, err);
    if (!s) {
        const enum stop stop = one.stop;
        const double n_ok = (double)one.sum->n_ok_in_window;
        r->is_interrupted = r->is_interrupted || stop == STOP_SIGNAL;
        r->is_out_of_time = r->is_out_of_time || stop == STOP_TIME_UP;
        r->is_partial = r->is_partial || stop != STOP_NOT;
        if (stop == STOP_SERVER_LOST) {
            fail(w, r, one.reason);
        }
        add_round(c, &one, n_ok);
    }
    round_finish(&one);
    load_finish(load);
    free(load);
    return s;
}
/* A load that would be cut is left out: a piece of it is not what the others are compared by. */
static bool has_time(struct runner *r, const struct load_spec *spec) {
    const double need_s = spec->warmup_s + spec->seconds;
    const bool has = time_now_ns() + (int64_t)(need_s * 1e9) <= r->end_by_ns;
    r->is_out_of_time = r->is_out_of_time || !has;
    r->is_partial = r->is_partial || !has;
    return has;
}
void way_load(struct way *w, int i, const struct load_spec *spec, struct runner *r) {
    struct cell *c = &w->cells[i];
    struct counters before, after;
    struct error err = {""};
    if (w->has_failed || !runner_goes_on(r) || !has_time(r, spec)) {
        return;
    }
    if (!child_is_alive(&w->child)) {
        fail(w, r, "the server has ended");
        return;
    }
    const double cpu_s = child_cpu_s(&w->child);
    const int64_t start_ns = time_now_ns();
    enum status s = scrape(&before, w->child.port, &err);
    c->rate = spec->rate;
    s = s ? s : run_round(w, c, spec, r, &err);
    if (!w->has_failed) { // else there is nobody to ask
        c->cpu_s += child_cpu_s(&w->child) - cpu_s;
        c->wall_s += (double)(time_now_ns() - start_ns) / 1e9;
        s = s ? s : scrape(&after, w->child.port, &err);
        if (!s) {
            add_spent(c, &before, &after);
        }
    }
    if (s && !w->has_failed) {
        fail(w, r, err.text);
    }
}

/* Mean latency in the thirds of what was due. */
static void read_thirds(struct figures *f, const struct record *sum, double seconds) {
    double ms[THIRDS] = {0}, n[THIRDS] = {0};
    for (int i = 0; i < RECORD_SLOTS; i++) {
        const double at = (i + 0.5) * (double)sum->slot_ns / 1e9 / seconds;
        if (at < 1) {
            const int third = (int)(at * THIRDS);
            ms[third] += sum->slots[i].latency_ms;
            n[third] += (double)sum->slots[i].n_ok;
        }
    }
    f->early_ms = n[0] > 0 ? ms[0] / n[0] : NAN;
    f->late_ms = n[THIRDS - 1] > 0 ? ms[THIRDS - 1] / n[THIRDS - 1] : NAN;
}
static double quantile_ms(const struct record *sum, double q) {
    return sum->latency.count ? (double)hist_quantile(&sum->latency, q) / 1e6 : NAN;
}
static double share(double part, double whole) {
    return whole > 0 ? part / whole : NAN;
}
struct figures way_figures(const struct way *w, int i, const struct runner *r) {
    const struct cell *c = &w->cells[i];
    const struct record *sum = c->sum;
    struct figures f = {.is_there = sum && c->seconds > 0};
    if (!f.is_there) {
        return f;
    }
    f.is_partial = c->is_partial;
    f.offered = c->rate;
    f.seconds = c->seconds;
    f.throughput = c->n_ok_in_window / c->seconds;
    f.tokens_per_s = share(c->spent.tokens, c->wall_s);
    f.mean_ms = sum->latency.count ? hist_mean(&sum->latency) / 1e6 : NAN;
    f.p50_ms = quantile_ms(sum, 0.5), f.p95_ms = quantile_ms(sum, 0.95);
    f.p99_ms = quantile_ms(sum, 0.99), f.max_ms = quantile_ms(sum, 1);
    f.padding = 1 - share(c->spent.tokens, c->spent.rows);
    f.attention = share(c->spent.attention_s, c->spent.compute_s);
    f.cpu = share(c->cpu_s, c->wall_s * r->n_cores);
    f.n_due = sum->n_due, f.n_ok = sum->n_ok;
    f.cpu_ms = share(c->cpu_s * 1e3, (double)f.n_ok);
    f.n_failed = record_failures(sum), f.n_timeouts = sum->n_failed[FAILURE_TIMEOUT];
    const double behind = (double)f.n_due - c->n_ok_in_window;
    f.is_steady = behind <= MAX_BEHIND + MAX_BEHIND_SHARE * (double)f.n_due && f.n_timeouts == 0;
    read_thirds(&f, sum, c->seconds);
    return f;
}
static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double way_ratio(const struct way *a, const struct way *b, int i) {
    const struct cell *x = &a->cells[i], *y = &b->cells[i];
    double ratios[EXPERIMENT_MAX_ROUNDS];
    const int n = x->n_rounds < y->n_rounds ? x->n_rounds : y->n_rounds;
    for (int k = 0; k < n; k++) { // from the last: ways that have fewer rounds have the last ones
        ratios[k] =
            x->round_throughput[x->n_rounds - 1 - k] / y->round_throughput[y->n_rounds - 1 - k];
    }
    qsort(ratios, (size_t)n, sizeof(*ratios), compare_doubles);
    return n ? (ratios[(n - 1) / 2] + ratios[n / 2]) / 2 : NAN;
}
