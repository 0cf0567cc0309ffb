/* simulator_report.c - latencies to quantiles, exact: every answer is kept and sorted at the end,
 * since ratios of two policies' tails are what the simulator is for. */
#include "batching/simulator_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

void sim_answers_init(struct sim_answers *a, int capacity) {
    const size_t n = capacity > 0 ? (size_t)capacity : 1;
    a->latency_ns = xcalloc(n, sizeof(*a->latency_ns));
    a->n_tokens = xcalloc(n, sizeof(*a->n_tokens));
    a->capacity = capacity;
    a->n = 0;
}

void sim_answers_finish(struct sim_answers *a) {
    free(a->latency_ns);
    free(a->n_tokens);
    *a = (struct sim_answers){0};
}

void sim_answers_add(struct sim_answers *a, int n_tokens, int64_t latency_ns) {
    assert(a->n < a->capacity);
    a->latency_ns[a->n] = latency_ns;
    a->n_tokens[a->n++] = n_tokens;
}

static int by_value(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest value that at least a share q of the n sorted ones does not pass. */
static int64_t quantile(const int64_t *sorted, int n, double q) {
    const int rank = (int)ceil(q * n);
    return sorted[rank > 0 ? rank - 1 : 0];
}

static void summarise(struct sim_class *c, int64_t *values, int n) {
    c->n_done = n;
    if (n == 0) {
        return;
    }
    double sum = 0;
    qsort(values, (size_t)n, sizeof(*values), by_value);
    for (int i = 0; i < n; i++) {
        sum += (double)values[i];
    }
    c->mean_ns = (int64_t)(sum / n);
    c->p50_ns = quantile(values, n, 0.50);
    c->p95_ns = quantile(values, n, 0.95);
    c->p99_ns = quantile(values, n, 0.99);
    c->max_ns = values[n - 1];
}

void sim_answers_report(const struct sim_answers *a, struct sim_result *out, const int *class_up_to,
                        int n_classes) {
    assert(n_classes <= SIM_CLASSES);
    int64_t *values = xcalloc(a->n > 0 ? (size_t)a->n : 1, sizeof(*values));
    int after = 0;
    for (int c = 0; c < n_classes; c++) {
        int n = 0;
        for (int i = 0; i < a->n; i++) {
            if (a->n_tokens[i] > after && a->n_tokens[i] <= class_up_to[c]) {
                values[n++] = a->latency_ns[i];
            }
        }
        out->classes[c].up_to = class_up_to[c];
        summarise(&out->classes[c], values, n);
        after = class_up_to[c];
    }
    for (int i = 0; i < a->n; i++) {
        values[i] = a->latency_ns[i];
    }
    summarise(&out->all, values, a->n);
    free(values);
}
