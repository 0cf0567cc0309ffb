/* lineup.h - jobs that wait, for tests of the policy alone, which bring their own time. */
#ifndef BERTH_TESTS_BATCHING_LINEUP_H
#define BERTH_TESTS_BATCHING_LINEUP_H
#include "batching/policy.h"
#include "tests/unit/test.h"
#include <string.h>

enum { MAX_JOBS = 512 };
struct lineup {
    struct policy_config cfg;
    struct cost_model cost;
    struct job jobs[MAX_JOBS]; // by rank
    int n_jobs;
    struct job_queue queues[POLICY_MAX_BUCKETS];
    struct job_order orders[POLICY_MAX_KEYS * POLICY_MAX_BUCKETS];
    int64_t deficits[POLICY_MAX_KEYS];
};

static inline struct job_order *lineup_order(struct lineup *l, const struct job *job) {
    return &l->orders[policy_key_of(&l->cfg, job) * policy_n_orders(&l->cfg) +
                      policy_order_of(&l->cfg, job->bucket)];
}
static inline struct job *lineup_push(struct lineup *l, int n_tokens, int64_t queued_ns, int key) {
    assert_true(l->n_jobs < MAX_JOBS);
    struct job *job = &l->jobs[l->n_jobs];
    *job = (struct job){.n_tokens = n_tokens,
                        .queued_ns = queued_ns,
                        .key = key,
                        .cost_ns = cost_job_ns(&l->cost, n_tokens),
                        .rank = l->n_jobs,
                        .number = (uint64_t)l->n_jobs + 1};
    l->n_jobs++;
    job->bucket = policy_bucket_of(&l->cfg, n_tokens);
    assert_true(job->bucket >= 0);
    job_queue_push(&l->queues[job->bucket], job);
    job_order_insert(lineup_order(l, job), job);
    return job;
}
static inline void lineup_take(struct lineup *l, struct job *const *chosen, int n) {
    for (int i = 0; i < n; i++) {
        assert_true(job_queue_holds(&l->queues[chosen[i]->bucket], chosen[i]));
        job_queue_remove(&l->queues[chosen[i]->bucket], chosen[i]);
        job_order_remove(lineup_order(l, chosen[i]), chosen[i]);
    }
}
static inline struct policy_view lineup_view(const struct lineup *l, int n_idle) {
    return (struct policy_view){.queues = l->queues,
                                .orders = l->orders,
                                .deficits = l->deficits,
                                .cost = &l->cost,
                                .first_start_ns = INT64_MAX,
                                .n_idle_workers = n_idle};
}
static inline struct decision lineup_decide(const struct lineup *l, int64_t now_ns, int n_idle,
                                            bool draining, struct job **chosen) {
    const struct policy_view view = lineup_view(l, n_idle);
    return policy_decide(&l->cfg, &view, now_ns, draining, chosen, MAX_JOBS);
}
#endif
