/* bench.h - a load test of an HTTP server, from its options to its report. */
#ifndef BERTH_BENCH_CLIENT_BENCH_H
#define BERTH_BENCH_CLIENT_BENCH_H
#include <stdbool.h>
#include <stdint.h>

enum { BENCH_MAX_HEADERS = 32, BENCH_MAX_CHECKS = 16 };
enum { BENCH_MAX_CONNECTIONS = 10000, BENCH_MAX_THREADS = 64, BENCH_MAX_SAMPLES = 2000000 };

/* Options as they were given; strings are borrowed, NULL where there is none. */
struct bench_config {
    const char *url;
    const char *dialect, *method, *path, *field;
    const char *headers[BENCH_MAX_HEADERS];
    int n_headers;

    const char *texts, *lengths;
    int max_tokens;

    const char *rate, *arrivals, *trace;
    double speed;
    int connections; // 0: open loop
    int max_connections, threads;
    int64_t seed;
    double warmup_s, duration_s; // duration 0: not given
    int64_t requests;            // 0: no limit
    double timeout_s, give_up_s;
    int spin_us;
    int64_t max_body_bytes;
    bool no_probe;

    const char *find_rate;
    bool until_stable;
    double precision; // of until_stable and find_rate: a share
    int max_rounds;

    const char *json, *csv, *samples, *html, *title;
    bool quiet;
    const char *fail_if[BENCH_MAX_CHECKS];
    int n_fail_if;
    int max_samples;

    /* Of bench/experiment, which starts servers itself; NULL or false: not asked for. */
    const char *experiment, *model, *fusion;
    int rounds;
    double equal_s, overload_s, overload; // overload: times the bad case's closed-loop rate
    bool sweep;
    bool quick;          // times of rounds that are not given are short
    double time_limit_s; // of all of it, servers' starts included; 0: worked out from the loads
    const char *slo, *budgets, *budget_ms;
};
extern const struct bench_config bench_defaults;

/* What the process should say of it. */
enum bench_exit {
    BENCH_OK,
    BENCH_FAULT,       // no server, or lost on the way: results are partial
    BENCH_USAGE,       // an option is wrong
    BENCH_CHECK_FAILED // a --fail-if holds, or --find-rate found none
};
/* Runs the load; results on stdout and into the files, progress and faults on stderr. */
enum bench_exit bench_run(const struct bench_config *cfg);
#endif
