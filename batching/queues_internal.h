/* queues_internal.h - the fields of struct queues, for queues.c and admission.c alone. */
#ifndef BERTH_BATCHING_QUEUES_INTERNAL_H
#define BERTH_BATCHING_QUEUES_INTERNAL_H
#include "batching/due.h"
#include "batching/queues.h"

struct running { // a batch on a device
    bool active;
    int64_t start_ns, cost_ns; // chosen; predicted
    int64_t jobs_cost_ns;      // the sum of its jobs' own
    int n_jobs;
    int64_t inside_ns; // what interruptions took of it
};
enum { RUN_OUTER, RUN_INNER, N_RUNS };
struct queues {
    struct queues_config cfg;
    struct cost_model cost;
    struct job_queue queues[POLICY_MAX_BUCKETS];
    struct job_order orders[POLICY_MAX_KEYS * POLICY_MAX_BUCKETS];
    int64_t deficits[POLICY_MAX_KEYS];
    int n_key_jobs[POLICY_MAX_KEYS];
    struct due_heap due;
    struct running (*running)[N_RUNS]; // [n_workers]
    int n_jobs;
    int n_workers_left;
    int64_t n_tokens, cost_ns; // of all that waits
    int n_following;           // of those that wait: jobs ranked after another of their request
    int64_t following_ns;      // the rank up to which such jobs have been served
    uint64_t last_number;
    bool went_first;              // policy_view's
    double took_ns, predicted_ns; // of the latest batches, fading: what a predicted ns really takes
};
/* Until everything that runs, and waiting jobs of this cost, are done. */
int64_t queues_work_ns(const struct queues *q, double jobs_ns, int64_t now_ns);
bool queues_idle(const struct queues *q); // nothing waits, and a device has nothing to do
/* What queues_push() will set. */
void queues_plan(const struct queues *q, struct job *job, int64_t behind_ns, int64_t now_ns);
#endif
