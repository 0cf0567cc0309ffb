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
    ROUTE_DEBUG,
    ROUTE_OTHER,
    N_METRIC_ROUTES
};
/* Why a request was turned away though nothing was wrong with it. */
enum limit { LIMIT_QUEUE, LIMIT_DEADLINE, LIMIT_RATE, LIMIT_SLOTS, LIMIT_CONNECTIONS, N_LIMITS };
enum waste { WASTE_CANCELLED, WASTE_EXPIRED, N_WASTES }; // computed, and nobody was there any more
enum { METRIC_STATUS_CLASSES = 6, METRIC_MAX_BUCKETS = 2 * POLICY_MAX_BUCKETS };
typedef atomic_uint_fast64_t counter;

/* Counts of one class of lengths. It keeps its bound for as long as there is room, so that a
 * reload that changes bounds gives new series and never another meaning to an old one. */
struct bucket_metrics {
    atomic_int up_to, max_rows; // 0: free; max_batch_tokens, as last configured
    counter jobs;               // by their own length
    counter batches, tokens, rows, room, reasons[N_RELEASE_REASONS]; // by the batch's anchor
    struct histogram wait;                                           // ns in queue, of `jobs`
};
struct key_metrics {
    counter answered, refused, cancelled, expired, limited, tokens; // tokens: of what was answered
};

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
    struct bucket_metrics buckets[METRIC_MAX_BUCKETS];
    atomic_int bucket_in_force[POLICY_MAX_BUCKETS], n_buckets_in_force; // places, up_to rising
    struct key_metrics keys[POLICY_MAX_KEYS];                           // by the key's index
    counter tokens, rows;                                               // real, computed
    counter op_ns[N_OP_KINDS], step_ns[N_OP_STEPS];
    counter launches; // sent to a device; a graph is one
    counter jobs_done, jobs_failed, jobs_cancelled, jobs_expired, tokens_truncated;
    counter items_failed; // inputs that were answered with an error in their place
    counter limited[N_LIMITS];
    counter wasted_jobs[N_WASTES], wasted_tokens[N_WASTES], wasted_ns[N_WASTES];
    counter reloads, reloads_failed;
    counter connections_open, connections_total;
    counter slots_used;
    atomic_bool ready;
    atomic_bool device_lost, device_hung; // hung: what waits for it will wait for ever
    counter device_fallbacks;             // workers that a CPU took over from a lost device
};
/* The bounds in force from now on. One thread at a time. */
void metrics_set_buckets(struct metrics *m, const struct policy_config *p);
/* The class that a length falls into; and the one of this bound, 0 for the last (a mode without
 * buckets has one). Never NULL. */
struct bucket_metrics *metrics_bucket_of(struct metrics *m, int n_tokens);
struct bucket_metrics *metrics_bucket_at(struct metrics *m, int up_to);
void metrics_reset_key(struct metrics *m, int index); // the index is another key's from now on
/* The exposition text (version 0.0.4) in `arena`; NULL when it does not fit. Names:
 * docs/METRICS.md. */
struct gpu_watch;
struct keys;
struct metrics_view { // what is read at the moment of asking
    const struct policy_config *policy;
    struct batcher_stats batcher;
    const char *model_name, *backend, *dtype;
    struct keys *keys;      // NULL: none are configured
    struct gpu_watch *gpus; // NULL: none are watched
};
char *metrics_write(const struct metrics *m, const struct metrics_view *view, struct arena *arena,
                    size_t *len);
/* What was freed and the allocator still keeps goes back to the system: after the trials of
 * start-up.
 */
void metrics_give_back_memory(void);
#endif
