/* criteria.h - "p99>20ms": what must not be, for --fail-if; "p99=50ms": what must hold, for
 * --find-rate. */
#ifndef BERTH_BENCH_CLIENT_CRITERIA_H
#define BERTH_BENCH_CLIENT_CRITERIA_H
#include "bench/client/round.h"

enum metric {
    METRIC_QUANTILE, // latency, ms
    METRIC_MEAN,
    METRIC_MIN,
    METRIC_MAX,
    METRIC_THROUGHPUT, // a second
    METRIC_ERRORS,     // a number, or with % a share
    METRIC_ERROR_RATE, // a share
    METRIC_PADDING,    // a share of the rows
};
enum comparison { ABOVE, ABOVE_OR_EQUAL, BELOW, BELOW_OR_EQUAL };
struct criterion {
    enum metric metric;
    double quantile; // 0 to 1
    enum comparison comparison;
    double value;  // ms, a second, or a share
    char text[64]; // as it was written
};
/* METRIC, one of > >= < <=, and a value: p50 p99 p99.9 mean min max with us, ms or s; throughput;
 * errors with or without %; error_rate and padding as 0.01 or 1%. STATUS_INVALID says what is
 * wrong. */
MUST_CHECK enum status criterion_parse(struct criterion *out, const char *text, struct error *err);
/* METRIC=VALUE or METRIC<VALUE (or <=): a goal, turned into the criterion that breaks it. Latencies
 * only. */
MUST_CHECK enum status goal_parse(struct criterion *out, const char *text, struct error *err);
/* The value that a criterion looks at; NAN when the round has none. */
double criterion_value(const struct criterion *c, const struct round *r);
/* Holds also when there is no value: what cannot be shown is not well. */
bool criterion_holds(const struct criterion *c, const struct round *r);
#endif
