/* sweep.c - servers that differ in their batch budgets, the same rates on each. A closed loop on
 * every server says what it can do; the rates are parts of what the best can, taken in rounds over
 * the servers, each up to the first that is more than it can do: beyond, it would only queue; then
 * each server gets one rate more, between the last that held and the first that did not. The knee
 * is where throughput over latency is largest (Kleinrock's power, 1979). Cost is time of the
 * machine: all its cores, whether busy or waiting, for what it serves within the goal. */
#include "bench/experiment/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"

enum { CONNECTIONS = 64, MAX_LIST = 8, POINT_S = 3 };
#define MAX_ERROR_RATE 0.01
#define SAME_COST 0.02 // closer than that, CPU time decides
static const double grid[SWEEP_GRID] = {0.2, 0.4, 0.6, 0.75, 0.9, 1.05};

/* "64,256" */
static enum status read_list(double out[MAX_LIST], int *n, const char *text, double low,
                             double high, const char *option, struct error *err) {
    const char *at = text;
    for (*n = 0; *n < MAX_LIST; at++) {
        char *end = NULL;
        out[*n] = strtod(at, &end);
        if (end == at || !(out[*n] >= low && out[*n] <= high)) {
            break;
        }
        ++*n;
        if (!*end) {
            return STATUS_OK;
        }
        if (*end != ',') {
            break;
        }
        at = end;
    }
    return error_set(err, STATUS_INVALID,
                     "%s %.60s: expected up to %d numbers, %g to %g, and "
                     "commas between",
                     option, text, MAX_LIST, low, high);
}
static enum status choose_ways(struct sweep *w, const struct bench_config *c, struct error *err) {
    double tokens[MAX_LIST], ms[MAX_LIST];
    int n_tokens = 0, n_ms = 0;
    enum status s = read_list(tokens, &n_tokens, c->budgets, 1, 1 << 20, "--budgets", err);
    s = s ? s : read_list(ms, &n_ms, c->budget_ms, 0, 60e3, "--budget-ms", err);
    if (!s && n_tokens * n_ms > SWEEP_MAX_WAYS) {
        s = error_set(err, STATUS_INVALID, "--budgets times --budget-ms: %d servers, over %d",
                      n_tokens * n_ms, SWEEP_MAX_WAYS);
    }
    for (int i = 0; !s && i < n_tokens * n_ms; i++) {
        struct way *one = &w->ways[w->n_ways++];
        one->mode = "packed", one->is_fused = true;
        one->max_tokens = (int)tokens[i / n_ms], one->max_ms = ms[i % n_ms];
        snprintf(one->name, sizeof(one->name), "%d tokens, %g ms", one->max_tokens, one->max_ms);
    }
    if (!s && c->slo) {
        s = goal_parse(&w->goal, c->slo, err);
        s = s ? error_prefix(err, s, "--slo") : STATUS_OK;
        w->has_goal = true;
    }
    return s;
}

static struct sweep_point point_of(const struct sweep *w, int way, int cell) {
    const struct cell *c = &w->ways[way].cells[cell];
    struct sweep_point p = {.f = way_figures(&w->ways[way], cell, &w->runner)};
    if (p.f.is_there) {
        const struct round round = {
            .sum = c->sum, .window_s = c->seconds, .throughput = p.f.throughput};
        p.holds = p.f.is_steady && !p.f.is_partial &&
                  (double)p.f.n_failed <= MAX_ERROR_RATE * (double)p.f.n_due &&
                  !(w->has_goal && criterion_holds(&w->goal, &round));
    }
    return p;
}
static int compare_points(const void *a, const void *b) {
    const double x = ((const struct sweep_point *)a)->f.offered;
    const double y = ((const struct sweep_point *)b)->f.offered;
    return (x > y) - (x < y);
}
static void make_curve(struct sweep *w, int way) {
    struct sweep_curve *c = &w->curves[way];
    double most = 0;
    *c = (struct sweep_curve){.knee = -1, .best = -1, .cost_s = INFINITY};
    for (int i = 1; i <= SWEEP_POINTS; i++) {
        const struct sweep_point p = point_of(w, way, i);
        if (p.f.is_there) {
            c->points[c->n++] = p;
        }
    }
    qsort(c->points, (size_t)c->n, sizeof(c->points[0]), compare_points);
    for (int i = 0; i < c->n; i++) {
        const struct figures *f = &c->points[i].f;
        if (f->throughput / f->mean_ms > most) {
            most = f->throughput / f->mean_ms;
            c->knee = i;
        }
    }
    while (c->best + 1 < c->n && c->points[c->best + 1].holds) {
        c->best++;
    }
    if (c->best >= 0) {
        c->cost_s = 1000. * w->runner.n_cores / c->points[c->best].f.offered;
    }
}
static bool is_cheaper(const struct sweep_curve *a, const struct sweep_curve *b) {
    if (fabs(a->cost_s - b->cost_s) > SAME_COST * b->cost_s) {
        return a->cost_s < b->cost_s;
    }
    return a->points[a->best].f.cpu_ms < b->points[b->best].f.cpu_ms;
}
static void judge(struct sweep *w) {
    w->cheapest = -1;
    for (int i = 0; i < w->n_ways; i++) {
        make_curve(w, i);
        if (w->curves[i].best >= 0 &&
            (w->cheapest < 0 || is_cheaper(&w->curves[i], &w->curves[w->cheapest]))) {
            w->cheapest = i;
        }
    }
}

static double best_capacity(const struct sweep *w) {
    double best = 0;
    for (int i = 0; i < w->n_ways; i++) {
        const struct figures f = way_figures(&w->ways[i], SWEEP_CLOSED, &w->runner);
        best = f.is_there ? fmax(best, f.throughput) : best;
    }
    return best;
}
/* Between the last rate that held and the first that did not; below all when none held. */
static double rate_between(const struct sweep_curve *c) {
    if (c->n == 0 || c->best == c->n - 1) {
        return 0;
    }
    const double high = c->points[c->best + 1].f.offered;
    return c->best < 0 ? high / 2 : sqrt(high * c->points[c->best].f.offered);
}
static double point_seconds(const struct bench_config *c) {
    return c->duration_s > 0 ? c->duration_s : POINT_S;
}
/* At most: a server that cannot do them all gets fewer rates. */
static double load_seconds(const struct sweep *w, const struct bench_config *c) {
    return w->n_ways * (1 + SWEEP_POINTS) * (point_seconds(c) + c->warmup_s);
}
/* The rate before was within what the server can do. */
static bool is_worth(const struct sweep *w, int way, int k, double most) {
    const struct figures f = way_figures(&w->ways[way], SWEEP_CLOSED, &w->runner);
    return k == 0 || (f.is_there && grid[k - 1] * most < f.throughput);
}
static void run_grid(struct sweep *w, struct load_spec spec) {
    const double most = best_capacity(w);
    char label[64];
    spec.label = label;
    for (int k = 0; k < SWEEP_GRID && most > 0; k++) {
        spec.rate = grid[k] * most, spec.seed++;
        snprintf(label, sizeof(label), "rate %d of %d, %.4g/s", k + 1, SWEEP_GRID, spec.rate);
        for (int i = 0; i < w->n_ways; i++) {
            if (is_worth(w, i, k, most)) {
                way_load(&w->ways[i], 1 + k, &spec, &w->runner);
            }
        }
    }
}
static void run_between(struct sweep *w, struct load_spec spec) {
    spec.label = "between", spec.seed += SWEEP_GRID + 1;
    for (int i = 0; i < w->n_ways; i++) {
        spec.rate = rate_between(&w->curves[i]);
        if (spec.rate > 0) {
            way_load(&w->ways[i], 1 + SWEEP_GRID, &spec, &w->runner);
        }
    }
}
static void run(struct sweep *w) {
    const struct bench_config *c = w->runner.cfg;
    struct load_spec spec = {.seconds = point_seconds(c),
                             .warmup_s = c->warmup_s,
                             .seed = c->seed,
                             .label = "closed loop"};
    if (!c->quiet && isatty(STDERR_FILENO)) {
        fprintf(stderr, "%d budgets for %s, up to %.0f s of load, %.0f s at most in all\n",
                w->n_ways, c->model, load_seconds(w, c), w->runner.limit_s);
    }
    for (int i = 0; i < w->n_ways && runner_goes_on(&w->runner); i++) {
        way_start(&w->ways[i], &w->runner);
    }
    for (int i = 0; i < w->n_ways; i++) {
        way_load(&w->ways[i], SWEEP_CLOSED, &spec, &w->runner);
    }
    run_grid(w, spec);
    judge(w);
    run_between(w, spec);
    judge(w);
    ways_stop(w->ways, w->n_ways);
    if (isatty(STDERR_FILENO) && !c->quiet) {
        fputs("\r\033[K", stderr);
    }
}
static enum bench_exit run_and_report(struct sweep *w, struct report *reports) {
    const int64_t start_ns = time_now_ns();
    run(w);
    w->took_s = (double)(time_now_ns() - start_ns) / 1e9;
    const bool is_written =
        reports_write(reports, N_REPORTS, w->runner.cfg->quiet ? NULL : sweep_text, w);
    if (w->runner.is_partial || w->runner.is_interrupted || !is_written) {
        return BENCH_FAULT;
    }
    return w->has_goal && w->cheapest < 0 ? BENCH_CHECK_FAILED : BENCH_OK;
}
enum bench_exit experiment_sweep(const struct bench_config *cfg) {
    struct report reports[N_REPORTS] = {
        {.write = sweep_json}, {.write = sweep_csv}, {.write = sweep_html}};
    struct bench_config own = *cfg;
    struct sweep *w = xcalloc(1, sizeof(*w));
    struct error err = {""};
    const time_t now = time(NULL);
    struct tm utc;
    own.connections = cfg->connections > 0 ? cfg->connections : CONNECTIONS;
    gmtime_r(&now, &utc);
    strftime(w->started, sizeof(w->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
    enum status s = choose_ways(w, cfg, &err);
    runner_begin(&w->runner, &own, load_seconds(w, &own));
    s = s ? s : experiment_open(reports, cfg, &err);
    enum bench_exit code = s == STATUS_INVALID ? BENCH_USAGE : BENCH_FAULT;
    if (s) {
        fprintf(stderr, "berth: bench: %s\n", err.text);
    } else {
        code = run_and_report(w, reports);
    }
    reports_close(reports, N_REPORTS);
    ways_finish(w->ways, w->n_ways);
    free(w);
    return code;
}
