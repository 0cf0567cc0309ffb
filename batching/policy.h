/* policy.h - which jobs run next: pure decisions over a view of the queues. No locks, no clocks, no
 * allocation; `now` is an argument, so tests and simulations bring their own time. */
#ifndef BERTH_BATCHING_POLICY_H
#define BERTH_BATCHING_POLICY_H
#include "batching/cost.h"
#include "batching/order.h"
#include <stdbool.h>

struct bucket_limits {
    int up_to;              // tokens: the longest job of this bucket
    int max_batch_tokens;   // rows of one forward pass, padding included
    int max_batch_requests; // jobs of one forward pass
    int64_t max_wait_ns;    // how long the oldest job may wait for company; 0: not at all
};
enum {
    POLICY_MAX_BUCKETS = 32,
    POLICY_MAX_KEYS = 64,
    POLICY_LOOK_AHEAD = 16,
    POLICY_MAX_WEIGHT = 1000,
    POLICY_QUANTUM = 64,  // tokens that the key of the largest weight gets in a round
    POLICY_CREDIT = 1024, // credits a token: weights are told apart by less than a token a round
};
struct policy_config {
    enum batch_mode mode;
    int64_t max_batch_ns;              // a batch is predicted to take no longer; 0: the caps alone
    double rank_cost_factor;           // k: a job of cost t is ranked as if it had come k * t later
    int64_t priority_ns[N_PRIORITIES]; // added to the rank: 0 for normal, less for high
    int n_keys;                        // API keys that share the device; at least 1
    int key_weights[POLICY_MAX_KEYS];  // of the deficit round robin in tokens; at least 1
    bool interrupt; // urgent short jobs may run at a layer border of a long batch
    struct bucket_limits buckets[POLICY_MAX_BUCKETS]; // up_to ascending; the last holds every job
    int n_buckets;                                    // `none` and `padded` have one
};
/* Refuses bounds that do not rise or end below max_seq_len, caps below one, waits below zero or
 * above a minute, too many buckets or keys, weights below one; STATUS_INVALID, with the fix in the
 * text. */
MUST_CHECK enum status policy_config_check(const struct policy_config *cfg, int max_seq_len,
                                           struct error *err);
/* The smallest bucket that holds it; -1: none. */
int policy_bucket_of(const struct policy_config *cfg, int n_tokens);

/* Whose turns it takes: job->key, or 0 where the configuration knows no such key. */
int policy_key_of(const struct policy_config *cfg, const struct job *job);
/* Each key's waiting jobs are kept in rank order: all in one, or, where batches keep to a bucket,
 * in one a bucket. policy_view.orders is [n_keys][policy_n_orders()]. */
int policy_n_orders(const struct policy_config *cfg);
int policy_order_of(const struct policy_config *cfg, int bucket);
void policy_quanta(const struct policy_config *cfg, int64_t *quanta); // [n_keys], credits a round

/* Rank: arrival + k * cost, shifted by the class; a client's own deadline pulls it to the moment at
 * which the job has to start, when that is earlier. Ageing is built in: every rank is a time.
 * behind_ns: the jobs of one request are ranked as if they had come one after the other, at the
 * pace at which they can be computed. Mode padded knows arrival alone. */
int64_t policy_rank(const struct policy_config *cfg, const struct job *job, int64_t behind_ns);

struct policy_view {
    const struct job_queue *queues; // [n_buckets], by arrival
    const struct job_order *orders; // by rank, as above
    const int64_t *deficits;        // [n_keys], credits that are owed to the key; below 0: it owes
    const struct cost_model *cost;
    int64_t first_start_ns; // when the first of those with a deadline has to start; INT64_MAX
    int n_idle_workers;     // other devices that wait for work, beside the one that asks
    bool went_first;        // the batch before this one was let before a long job
};
enum decision_kind {
    DECIDE_IDLE, // nothing is queued
    DECIDE_WAIT, // look again at wake_ns, or when the queues change
    DECIDE_RUN,
};
enum release_reason {
    RELEASE_FULL,   // at a cap, or work is left for another batch
    RELEASE_WAITED, // a job has waited for as long as its bucket or its deadline allows
    RELEASE_IDLE,   // a device is free and nobody may wait for company
    RELEASE_DRAIN,  // the server is going
    RELEASE_URGENT, // before a long job, or at a layer border of a batch, that can wait
    N_RELEASE_REASONS
};
extern const char *const release_reason_names[N_RELEASE_REASONS]; // "full", "waited", ...
struct decision {
    enum decision_kind kind;
    int64_t wake_ns;            // DECIDE_WAIT
    enum release_reason reason; // DECIDE_RUN, with all below
    int bucket;                 // the anchor's
    int n_jobs, n_rows;         // rows: padding included
    int64_t cost_ns;            // predicted
    int n_rounds;               // of the keys' quanta that this batch uses
};
/* The anchor is the job of the smallest rank among the keys whose turn it is; the caps are its
 * bucket's, for whoever rides with it, and the predicted time is at most max_batch_ns.
 *   packed    in rank order across buckets, rows = tokens
 *   bucketed  in rank order from the anchor's bucket, rows = jobs * longest; then from others while
 *             the padding costs less than batches of their own would
 *   padded    in arrival order, no job left out, rows = jobs * longest; max_batch_ns plays no part
 *   none      the anchor alone
 * Packed and bucketed step over at most POLICY_LOOK_AHEAD jobs that do not fit, or whose deadline
 * (or that of one who rides) the pass would then end after. A job larger than the caps or than
 * max_batch_ns allows runs alone, and lets urgent short ones (below) go first, once, unless
 * rank_cost_factor is 0. A free device waits for company only while every bucket's oldest job and
 * every deadline allow it. With idle workers beside the asker, what waits is shared between them
 * rather than all given to one. chosen: [max_chosen], at least 1, filled with decision.n_jobs jobs,
 * the anchor first. */
struct decision policy_decide(const struct policy_config *cfg, const struct policy_view *view,
                              int64_t now_ns, bool draining, struct job **chosen, int max_chosen);

/* A batch that runs, at one of its layer borders. */
struct outer_batch {
    int n_jobs;
    int64_t cost_ns, rest_ns; // predicted: the whole, and what is still to come
    int64_t inside_ns;        // what interruptions have taken of it
};
/* What should run at that border before the batch goes on: DECIDE_RUN or DECIDE_IDLE. Urgent are
 * short jobs that the policy would rather have had in before the batch ends, by their rank. All
 * interruptions of a batch take at most two thirds of its own time, and each is worth it: what its
 * jobs gain together is more than twice what those of the batch lose, and two launches for each of
 * those that wait; of more launches, the more wait, where the batch has more than two jobs. Batches
 * of more than four jobs are left alone. */
struct decision policy_interrupt(const struct policy_config *cfg, const struct policy_view *view,
                                 const struct outer_batch *outer, int64_t now_ns,
                                 struct job **chosen, int max_chosen);
#endif
