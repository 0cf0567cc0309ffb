/* metrics.h - counters of the whole process and their Prometheus text.
 * Threads: record from any thread (relaxed atomics); write from any thread.
 * Memory:  one struct, made at start; jemalloc's figures are read here and nowhere else. */
#ifndef BERTH_SERVER_METRICS_H
#define BERTH_SERVER_METRICS_H
#include "base/arena.h"
#include "base/histogram.h"
#include "base/timing.h"
#include "batching/policy.h"
#include "batching/batcher.h"
#include "kernels/kernels.h"
#include <stdatomic.h>

enum metric_route {
    ROUTE_PREDICT,
    ROUTE_TOKENIZE,
    ROUTE_INFO,
    ROUTE_HEALTH,
    ROUTE_METRICS,
    ROUTE_OTHER,
    N_METRIC_ROUTES
};
enum { METRIC_STATUS_CLASSES = 6, METRIC_LENGTH_BINS = 12 };
typedef atomic_uint_fast64_t counter;

struct metrics {                                              // zeroed is empty
    counter requests[N_METRIC_ROUTES][METRIC_STATUS_CLASSES]; // by first digit of the status code
    counter errors[600];                                      // by status code
    /* Requests with a body, from the slot they got on: each ends in exactly one of the four, so
     * accepted = answered + refused + cancelled + expired + slots_used. */
    counter accepted;
    counter answered;                         // below 400, and the client took it
    counter refused;                          // any other error
    counter cancelled;                        // the client left: body, wait or answer broke off
    counter expired;                          // 504, or 408 in the middle of the body
    struct histogram stages[N_STAGES], total; // ns, POST requests
    struct histogram input_tokens;            // a job
    struct histogram batch_jobs, batch_rows, batch_ns;
    counter batches[N_RELEASE_REASONS];
    counter bucket_jobs[POLICY_MAX_BUCKETS], bucket_batches[POLICY_MAX_BUCKETS];
    counter bucket_tokens[POLICY_MAX_BUCKETS], bucket_rows[POLICY_MAX_BUCKETS];
    struct histogram bucket_wait[POLICY_MAX_BUCKETS]; // ns in queue, by the job's own bucket
    counter tokens, rows;                             // real, computed
    counter op_ns[N_OP_KINDS];
    counter jobs_done, jobs_failed, jobs_cancelled, tokens_truncated;
    counter connections_open, connections_total;
    counter slots_used;
    atomic_bool ready;
};
/* The exposition text (version 0.0.4) in `arena`; NULL when it does not fit. Names:
 * docs/METRICS.md. */
struct metrics_view { // what is read at the moment of asking
    const struct policy_config *policy;
    struct batcher_stats batcher;
    const char *model_name, *backend, *dtype;
};
char *metrics_write(const struct metrics *m, const struct metrics_view *view, struct arena *arena,
                    size_t *len);
#endif
