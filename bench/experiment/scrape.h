/* scrape.h - GET /metrics of a server on this machine, and the numbers in it. */
#ifndef BERTH_BENCH_EXPERIMENT_SCRAPE_H
#define BERTH_BENCH_EXPERIMENT_SCRAPE_H
#include "base/status.h"

struct counters { // sums since the server's start
    double tokens, rows;
    double attention_s, compute_s; // of forward passes; compute leaves waiting out
};
MUST_CHECK enum status scrape(struct counters *out, int port, struct error *err);
/* The value of the sample `name`, labels and all, in Prometheus text; 0: it is not there. */
double metric_of(const char *text, const char *name);
#endif
