/* way.h - one way to serve: a server with settings of its own, and what loads have found on it. */
#ifndef BERTH_BENCH_EXPERIMENT_WAY_H
#define BERTH_BENCH_EXPERIMENT_WAY_H
#include "bench/client/result.h"
#include "bench/experiment/child.h"
#include "bench/experiment/experiment.h"
#include "bench/experiment/scrape.h"

enum { WAY_MAX_CELLS = 24, WAY_REASON_BYTES = 400 };
/* All rounds of one load on one way. */
struct cell {
    struct record *sum; // owned; NULL: not measured
    int n_rounds;
    double rate; // a second, offered; 0: closed loop
    double seconds, wall_s, cpu_s;
    double round_throughput[EXPERIMENT_MAX_ROUNDS];
    double n_ok_in_window;
    struct counters spent;
    bool is_partial; // stopped before its time
};
struct way {
    char name[64];
    const char *mode; // batching.mode
    bool is_fused;    // compute.fusion
    int max_tokens;   // batching.max_batch_tokens; 0: the default
    double max_ms;    // batching.max_batch_ms; below 0: the default
    struct child child;
    bool has_failed;
    char reason[WAY_REASON_BYTES]; // why
    struct cell cells[WAY_MAX_CELLS];
};
/* What goes through all ways: the options, where things stand, whether to go on. */
struct runner {
    const struct bench_config *cfg;
    bool is_interrupted, is_out_of_time, is_partial;
    int n_cores;       // that this process, and so the servers, may use
    double limit_s;    // for all of it
    int64_t end_by_ns; // when that is over: no load begins that could not end by then
};
/* `load_s`: of all loads and warm-ups together. Without a --time-limit the limit is a quarter more,
 * for answers that are late, and a minute, for the servers' starts. */
void runner_begin(struct runner *r, const struct bench_config *cfg, double load_s);
/* Why the whole run ended early; NULL: it did not. */
const char *runner_cut(const struct runner *r);
/* A server that does not start, or is lost under load, fails its way and no other. */
void way_start(struct way *w, struct runner *r);
void ways_stop(struct way *ways, int n); // the servers; what was measured stays
void ways_finish(struct way *ways, int n);
struct load_spec {
    double rate; // 0: closed loop
    double seconds, warmup_s;
    int64_t seed;
    const char *label; // for the progress line
};
/* One round more of the load of cell `i`, if there is time for it. */
void way_load(struct way *w, int i, const struct load_spec *spec, struct runner *r);
static inline bool runner_goes_on(const struct runner *r) {
    return !r->is_interrupted && !r->is_out_of_time;
}

/* What a cell says. */
struct figures {
    bool is_there, is_partial;
    double offered, seconds; // offered 0: closed loop
    double throughput, tokens_per_s;
    double mean_ms, p50_ms, p95_ms, p99_ms, max_ms;
    double padding, attention; // shares: of the rows; of the passes' time, waiting left out
    double cpu, cpu_ms;        // of all cores, a share; a request's
    int64_t n_due, n_ok, n_failed, n_timeouts;
    bool is_steady;           // open loop: answers keep up with what is due
    double early_ms, late_ms; // mean latency in the first and the last third
};
struct figures way_figures(const struct way *w, int i, const struct runner *r);
/* The median of the rounds' own ratios of throughput; NAN: there is none. */
double way_ratio(const struct way *a, const struct way *b, int i);

/* JSON, CSV and HTML, each with its `write`, opened before anything runs. */
enum { N_REPORTS = 3 };
MUST_CHECK enum status experiment_open(struct report reports[N_REPORTS],
                                       const struct bench_config *cfg, struct error *err);
void figures_json(FILE *out, const struct figures *f); // an object
void figures_csv(FILE *out, const struct figures *f);  // without a line's end
extern const char figures_csv_header[];
extern const char report_css[]; // beside what all HTML reports share
#endif
