/* queues.h - jobs and queues for tests that bring their own time. */
#ifndef BERTH_TESTS_BATCHING_QUEUES_H
#define BERTH_TESTS_BATCHING_QUEUES_H
#include "batching/policy.h"
#include "tests/unit/test.h"
#include <string.h>

enum { MAX_JOBS = 512 };
struct queues {
    struct policy_config cfg;
    struct job jobs[MAX_JOBS]; // by rank
    int n_jobs;
    struct job_queue queues[POLICY_MAX_BUCKETS];
};

static inline void queues_push(struct queues *q, int n_tokens, int64_t queued_ns) {
    assert_true(q->n_jobs < MAX_JOBS);
    struct job *job = &q->jobs[q->n_jobs];
    *job = (struct job){.n_tokens = n_tokens, .queued_ns = queued_ns, .rank = q->n_jobs++};
    job->bucket = policy_bucket_of(&q->cfg, n_tokens);
    assert_true(job->bucket >= 0);
    job_queue_push(&q->queues[job->bucket], job);
}

static inline void queues_take(struct queues *q, struct job *const *chosen, int n) {
    for (int i = 0; i < n; i++) {
        assert_true(job_queue_holds(&q->queues[chosen[i]->bucket], chosen[i]));
        job_queue_remove(&q->queues[chosen[i]->bucket], chosen[i]);
    }
}

static inline struct decision queues_decide(const struct queues *q, int64_t now_ns, int n_idle,
                                            bool draining, struct job **chosen) {
    const struct policy_view view = {.queues = q->queues, .n_idle_workers = n_idle};
    return policy_decide(&q->cfg, &view, now_ns, draining, chosen, MAX_JOBS);
}
#endif
