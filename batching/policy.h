/* policy.h - which jobs run next: pure decisions over a view of the queues. No locks, no clocks, no
 * allocation; `now` is an argument, so tests and simulations bring their own time. */
#ifndef BERTH_BATCHING_POLICY_H
#define BERTH_BATCHING_POLICY_H
#include "batching/job.h"
#include <stdbool.h>

struct bucket_limits {
    int up_to;              // tokens: the longest job of this bucket
    int max_batch_tokens;   // rows of one forward pass, padding included
    int max_batch_requests; // jobs of one forward pass
    int64_t
        max_wait_ns; // how long the oldest job may wait for company; 0: an idle device never waits
};
enum { POLICY_MAX_BUCKETS = 32, POLICY_LOOK_AHEAD = 16 };
struct policy_config {
    enum batch_mode mode;
    struct bucket_limits
        buckets[POLICY_MAX_BUCKETS]; // up_to ascending; the last is the model's limit
    int n_buckets;                   // `none` and `padded` have one
};
/* Refuses descending or overlapping bounds, zero caps, too many buckets, with the fix in the text.
 */
MUST_CHECK enum status policy_config_check(const struct policy_config *cfg, int max_seq_len,
                                           struct error *err);
int policy_bucket_of(const struct policy_config *cfg,
                     int n_tokens); // the smallest that holds it; -1: none

struct job_queue { // in rank order
    struct job *head, *tail;
    int n_jobs;
    int64_t n_tokens;
};
struct policy_view {
    const struct job_queue *queues; // [n_buckets]
    int n_idle_workers;             // other devices that wait for work, beside the one that asks
};
enum decision_kind {
    DECIDE_IDLE,
    DECIDE_WAIT,
    DECIDE_RUN
}; // nothing queued; look again at wake_ns; run
enum release_reason {
    RELEASE_FULL,
    RELEASE_WAITED,
    RELEASE_IDLE,
    RELEASE_DRAIN,
    N_RELEASE_REASONS
};
extern const char
    *const release_reason_names[N_RELEASE_REASONS]; // "full", "waited", "idle", "drain"
struct decision {
    enum decision_kind kind;
    int64_t wake_ns;            // DECIDE_WAIT
    enum release_reason reason; // DECIDE_RUN, with all below
    int bucket;                 // the anchor's
    int n_jobs, n_rows;         // rows: padding included
};
/* The anchor is the job of the smallest rank; the caps are its bucket's. Packed: filled in rank
 * order across buckets, skipping at most POLICY_LOOK_AHEAD jobs that do not fit. Bucketed: from the
 * anchor's bucket, padded to the longest chosen. Padded: in arrival order. None: the anchor alone.
 * A job longer than the cap runs alone. With several idle workers, waiting jobs are shared between
 * them rather than all given to one. `draining` releases what waits for company. chosen:
 * [max_chosen], filled with decision.n_jobs jobs in rank order. */
struct decision policy_decide(const struct policy_config *cfg, const struct policy_view *view,
                              int64_t now_ns, bool draining, struct job **chosen, int max_chosen);
#endif
