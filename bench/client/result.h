/* result.h - what a bench has found, for the reports. Everything is borrowed. */
#ifndef BERTH_BENCH_CLIENT_RESULT_H
#define BERTH_BENCH_CLIENT_RESULT_H
#include "bench/client/bench.h"
#include "bench/client/criteria.h"
#include "bench/client/prepare.h"
#include "bench/client/report_files.h"
#include <stdio.h>

enum { RESULT_MAX_ROUNDS = 100 };
struct interval { // of a mean over rounds, 95 %
    double mean, half_width;
};
struct result {
    const struct bench_config *cfg;
    const struct load *load;
    const struct round *round; // the sum of all rounds
    char started[32];          // ISO 8601, UTC
    double offered;            // requests a second by the schedule; 0: closed loop

    int n_rounds; // of --until-stable; 0: not asked for
    double round_throughput[RESULT_MAX_ROUNDS], round_p99_ms[RESULT_MAX_ROUNDS];
    struct interval throughput, p99_ms;
    bool is_stable;

    struct criterion checks[BENCH_MAX_CHECKS]; // of --fail-if
    int n_checks;

    struct criterion goal; // of --find-rate
    int n_tries;           // 0: not asked for
    struct rate_try {
        double rate, value_ms, throughput, error_rate;
        bool holds;
    } tries[RESULT_MAX_ROUNDS];
    double found_rate; // 0: none
};
/* The share of each stage in the server's total; the slowest 1 % by themselves too. */
struct stage_share {
    const char *name;
    double mean_ms, share, slow_share; // slow_share NAN: no samples
};
#define SHARE_TO_NAME 0.20 // a stage above it is pointed out
/* At most STAGES_MAX; how many. Parts of infer (a profile) overlap with it. */
int result_stages(struct stage_share out[STAGES_MAX], const struct result *r);
/* Bucket records by rising length; how many. */
int result_buckets(const struct bucket_record *out[RECORD_MAX_BUCKETS], const struct result *r);
bool result_is_partial(const struct result *r);
/* "open loop, poisson, 100/s, 10 s after 1 s of warm-up" */
void result_describe_load(char *out, size_t size, const struct result *r);
/* The row of a histogram for people: edges in ns, counts between them. */
struct display_row {
    int64_t upper_ns;
    uint64_t count;
};
enum { DISPLAY_ROWS = 24 };
int result_display_rows(struct display_row out[DISPLAY_ROWS], const struct hist *h);

/* Of a struct result, as report_files.h calls them. */
void report_text(FILE *out, const void *result);
void report_json(FILE *out, const void *result);
void report_csv(FILE *out, const void *result);     // one header, one line
void report_samples(FILE *out, const void *result); // a line a request
void report_html(FILE *out, const void *result);
#endif
