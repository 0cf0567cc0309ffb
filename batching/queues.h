/* queues.h - the state that scheduling turns around: what waits, and what runs.
 * The batcher (with a lock and a real clock) and the simulator (with neither) drive the same code.
 * Pure: `now` is an argument; no lock, no clock, no callback; allocates in queues_create() alone.
 * Ranks within a queue are found and kept in O(log n) or better, whatever order jobs come in. */
#ifndef BERTH_BATCHING_QUEUES_H
#define BERTH_BATCHING_QUEUES_H
#include "batching/cost.h"
#include "batching/policy.h"

struct queues; // opaque: the fields are in queues.c
struct queues_config {
    struct policy_config policy;
    int max_seq_len;           // tokens of the longest job
    int max_queued_jobs;       // waiting, not running
    int64_t max_queued_tokens; // once so many wait, no more come in; the last to come may pass it
    int n_workers;             // devices that will take batches, as long as none leaves
};
MUST_CHECK enum status queues_create(struct queues **out, const struct queues_config *cfg,
                                     struct error *err);
void queues_destroy(struct queues *q); // takes NULL
/* Another policy from now on: what waits is put into the new queues with its rank and arrival kept.
 * STATUS_INVALID (with the fix in the text): the old one stays in force, nothing has changed. */
MUST_CHECK enum status queues_configure(struct queues *q, const struct policy_config *policy,
                                        struct error *err);
/* The model that ranks, budgets and admission are computed with; the owner's to update. */
struct cost_model *queues_cost(struct queues *q);

/* What admission knows and says. */
struct admission {
    enum status status;     // OK; STATUS_TOO_LONG; STATUS_OVERLOADED; STATUS_TIMEOUT: would be late
    int64_t finish_ns;      // predicted, of the last of the jobs, with some time to spare
    int64_t retry_after_ns; // when refused: until the queue is predicted to have room
};
/* Whether these jobs (of one request) can be taken: caps, and the predicted finish against the
 * deadline. An idle device takes whatever it is given. Changes nothing. */
struct admission queues_admit(const struct queues *q, struct job *const *jobs, int n,
                              int64_t now_ns);
/* Queues one job: sets queued_ns, cost_ns, rank, bucket and what else is the batcher's in it. Only
 * after queues_admit(). */
void queues_push(struct queues *q, struct job *job, int64_t now_ns);
/* The same for the jobs of one request, in their order: they are ranked as if they had come one
 * after the other, so that a long list does not hold up a short text that comes after it. */
void queues_push_request(struct queues *q, struct job *const *jobs, int n, int64_t now_ns);
bool queues_remove(struct queues *q, struct job *job); // false: it does not wait here
/* Takes out up to `max` jobs whose deadline has passed, or can no longer be kept even alone. */
int queues_expire(struct queues *q, int64_t now_ns, struct job **expired, int max);
/* policy_decide() over what waits; DECIDE_RUN takes the chosen jobs out and keeps account of the
 * running batch for worker `worker` until queues_ran(). */
struct decision queues_choose(struct queues *q, int worker, int n_idle_workers, int64_t now_ns,
                              bool draining, struct job **chosen, int max_chosen);
/* At a layer border of the batch that `worker` runs, `left` of `n_layers` still to come: what
 * should run in between (DECIDE_RUN; as queues_choose(), but the outer batch stays on account), or
 * DECIDE_IDLE. Only where policy_config.interrupt says so; never inside an interruption. */
struct decision queues_interrupt(struct queues *q, int worker, int left, int n_layers,
                                 int64_t now_ns, struct job **chosen, int max_chosen);
/* The batch last chosen for `worker` is over, an interruption before the batch that it interrupted.
 * ns: what its own pass took, without what ran at its borders; < 0: not measured (it failed). */
void queues_ran(struct queues *q, int worker, struct cost_shape shape, int64_t ns, int64_t now_ns);

/* A worker that has no batch will never ask for one again: predictions count on the others alone.
 * The last one stays. */
void queues_worker_left(struct queues *q);

int queues_n_jobs(const struct queues *q); // that wait
struct queues_stats {
    int n_queued[POLICY_MAX_BUCKETS]; // jobs
    int64_t n_queued_tokens[POLICY_MAX_BUCKETS];
    int64_t oldest_ns[POLICY_MAX_BUCKETS]; // when the oldest arrived; 0: empty
    int n_jobs, n_key_jobs[POLICY_MAX_KEYS];
    int64_t n_tokens;
    int64_t drain_ns; // predicted until everything that waits and runs is done
};
void queues_get_stats(const struct queues *q, int64_t now_ns, struct queues_stats *out);
#endif
