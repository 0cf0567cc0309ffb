/* padding.c - the experiment: the same seeded load on every way to batch, in interleaved rounds;
 * first as much as each can do, which also says what the bad case can; then, open loop, a rate that
 * it can hold, and one that it cannot. All servers are up all the time, idle but for the one under
 * load, so that no start falls into a measurement. */
#include "bench/experiment/padding.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"

#define EQUAL_LOAD 0.5       // of the bad case's closed-loop rate
#define OTHERS_OVERLOAD_S 8. // for ways that are neither the bad case nor the cure
enum { CONNECTIONS = 32 };

const char *const padding_load_names[N_PADDING_LOADS] = {"closed", "equal", "overload"};

static void add_way(struct padding *p, const char *mode, bool is_fused) {
    struct way *w = &p->ways[p->n_ways++];
    snprintf(w->name, sizeof(w->name), "%s%s", mode, is_fused ? "" : ", fusion off");
    w->mode = mode, w->is_fused = is_fused, w->max_ms = -1;
}
/* fusion NULL: both, where it tells something. */
static void choose_ways(struct padding *p, const char *fusion) {
    static const char *const modes[] = {"padded", "none", "bucketed", "packed"};
    const bool is_off = fusion && !strcmp(fusion, "off");
    for (size_t i = 0; i < N_ITEMS(modes); i++) {
        add_way(p, modes[i], !is_off);
    }
    p->n_compared = p->n_ways;
    p->cure = p->n_ways - 1;
    if (!fusion || is_off) {
        add_way(p, "padded", is_off);
        add_way(p, "packed", is_off);
    }
    if (is_off) {
        p->cure = p->n_ways - 1;
    }
}
struct figures padding_figures(const struct padding *p, int way, enum padding_load load) {
    return way_figures(&p->ways[way], (int)load, &p->runner);
}
const struct way *padding_find(const struct padding *p, const char *mode, bool is_fused) {
    for (int i = 0; i < p->n_ways; i++) {
        if (p->ways[i].is_fused == is_fused && !strcmp(p->ways[i].mode, mode)) {
            return &p->ways[i];
        }
    }
    return NULL;
}
double padding_gain(const struct way *a, const struct way *b) {
    return a && b ? way_ratio(a, b, LOAD_CLOSED) : NAN;
}

static bool is_main(const struct padding *p, int way) {
    return way < p->n_compared || way == p->cure;
}
static double closed_seconds(const struct bench_config *c) {
    return c->duration_s > 0 ? c->duration_s : 6;
}
static void run_closed(struct padding *p) {
    const struct bench_config *c = p->runner.cfg;
    char label[64];
    for (int k = 0; k < c->rounds; k++) {
        const struct load_spec spec = {.seconds = closed_seconds(c),
                                       .warmup_s = c->warmup_s,
                                       .seed = c->seed + k,
                                       .label = label};
        snprintf(label, sizeof(label), "closed loop, round %d of %d", k + 1, c->rounds);
        for (int i = 0; i < p->n_ways; i++) {
            way_load(&p->ways[i], LOAD_CLOSED, &spec, &p->runner);
        }
    }
    const struct figures bad = padding_figures(p, p->bad, LOAD_CLOSED);
    if (bad.is_there && bad.throughput > 0) {
        p->rates[LOAD_EQUAL] = EQUAL_LOAD * bad.throughput;
        p->rates[LOAD_OVERLOAD] = c->overload * bad.throughput;
    }
}
static void run_open(struct padding *p, enum padding_load load, const char *label, double seconds,
                     double others_s) {
    const struct bench_config *c = p->runner.cfg;
    const int first[] = {p->bad, p->cure}; // a run that is cut has these at least
    for (int k = -2; k < p->n_ways && p->rates[load] > 0; k++) {
        const int i = k < 0 ? first[k + 2] : k;
        const bool is_other = i != p->bad && i != p->cure;
        const struct load_spec spec = {.rate = p->rates[load],
                                       .seconds = is_other ? others_s : seconds,
                                       .warmup_s = c->warmup_s,
                                       .seed = c->seed + c->rounds + (int)load,
                                       .label = label};
        if (k < 0 || (is_other && is_main(p, i))) {
            way_load(&p->ways[i], (int)load, &spec, &p->runner);
        }
    }
}
/* Loads and warm-ups alone. */
static double expected_seconds(const struct padding *p, const struct bench_config *c) {
    const int n_main = p->cure < p->n_compared ? p->n_compared : p->n_compared + 1;
    const double others_s = fmin(OTHERS_OVERLOAD_S, c->overload_s);
    return p->n_ways * c->rounds * (closed_seconds(c) + c->warmup_s) +
           n_main * (c->equal_s + c->warmup_s) + 2 * c->overload_s + (n_main - 2) * others_s +
           n_main * c->warmup_s;
}
static void run(struct padding *p) {
    const struct bench_config *c = p->runner.cfg;
    if (!c->quiet && isatty(STDERR_FILENO)) {
        fprintf(stderr, "%d ways to serve %s, %.0f s of load, %.0f s at most in all\n", p->n_ways,
                c->model, expected_seconds(p, c), p->runner.limit_s);
    }
    for (int i = 0; i < p->n_ways && runner_goes_on(&p->runner); i++) {
        way_start(&p->ways[i], &p->runner);
    }
    run_closed(p);
    run_open(p, LOAD_EQUAL, "equal load", c->equal_s, c->equal_s);
    run_open(p, LOAD_OVERLOAD, "overload", c->overload_s, fmin(OTHERS_OVERLOAD_S, c->overload_s));
    if (isatty(STDERR_FILENO) && !c->quiet) {
        fputs("\r\033[K", stderr);
    }
    ways_stop(p->ways, p->n_ways);
}
static enum bench_exit exit_of(const struct padding *p, bool is_written) {
    return p->runner.is_partial || p->runner.is_interrupted || !is_written ? BENCH_FAULT : BENCH_OK;
}
enum bench_exit experiment_padding(const struct bench_config *cfg) {
    struct report reports[N_REPORTS] = {
        {.write = padding_json}, {.write = padding_csv}, {.write = padding_html}};
    struct bench_config own = *cfg;
    struct padding *p = xcalloc(1, sizeof(*p));
    struct error err = {""};
    const time_t now = time(NULL);
    struct tm utc;
    own.connections = cfg->connections > 0 ? cfg->connections : CONNECTIONS;
    gmtime_r(&now, &utc);
    strftime(p->started, sizeof(p->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
    choose_ways(p, cfg->fusion);
    runner_begin(&p->runner, &own, expected_seconds(p, &own));
    const int64_t start_ns = time_now_ns();
    bool is_written = false;
    if (experiment_open(reports, cfg, &err)) {
        fprintf(stderr, "berth: bench: %s\n", err.text);
    } else {
        run(p);
        p->took_s = (double)(time_now_ns() - start_ns) / 1e9;
        is_written = reports_write(reports, N_REPORTS, cfg->quiet ? NULL : padding_text, p);
    }
    const enum bench_exit code = exit_of(p, is_written);
    reports_close(reports, N_REPORTS);
    ways_finish(p->ways, p->n_ways);
    free(p);
    return code;
}
