/* world.h - real queues under a made-up clock, with one device that takes what the model says. */
#ifndef BERTH_TESTS_BATCHING_WORLD_H
#define BERTH_TESTS_BATCHING_WORLD_H
#include "base/timing.h"
#include "batching/queues.h"
#include "tests/unit/batching/rng.h"
#include "tests/unit/test.h"
#include <string.h>

enum { WORLD_JOBS = 4000, WORLD_CHOSEN = 64 };
static const double world_coef[COST_TERMS] = {200e3, 50e3, 250}; // 8 tokens 0.6 ms, 512: 91 ms

struct world {
    struct queues *queues;
    struct queues_config cfg;
    struct job jobs[WORLD_JOBS];
    int64_t ends_ns[WORLD_JOBS]; // when its batch was over; 0: not yet
    int n_jobs, n_done;
    int64_t now_ns;
};
static inline struct queues_config world_config(enum batch_mode mode) {
    struct queues_config c = {
        .policy = {.mode = mode,
                   .max_batch_ns = 25 * NS_PER_MS,
                   .rank_cost_factor = 5,
                   .priority_ns = {0, -100 * NS_PER_MS, 100 * NS_PER_MS},
                   .n_keys = 1,
                   .key_weights = {1},
                   .buckets = {{16, 256, 64, 0}, {64, 256, 64, 0}, {512, 256, 64, 0}},
                   .n_buckets = 3},
        .max_seq_len = 512,
        .max_queued_jobs = WORLD_JOBS,
        .max_queued_tokens = WORLD_JOBS * 512,
        .n_workers = 1,
    };
    if (mode == BATCH_NONE || mode == BATCH_PADDED) {
        c.policy.buckets[0] = c.policy.buckets[2];
        c.policy.n_buckets = 1;
    }
    return c;
}
static inline void world_open(struct world *w, const struct queues_config *cfg) {
    struct error err = {.text = ""};
    memset(w, 0, sizeof(*w));
    w->cfg = *cfg;
    w->now_ns = NS_PER_S;
    if (queues_create(&w->queues, cfg, &err)) {
        fail_msg("%s", err.text);
    }
    cost_set(queues_cost(w->queues), world_coef);
}
static inline void world_close(struct world *w) {
    queues_destroy(w->queues);
}
static inline struct job *world_job(struct world *w, int n_tokens) {
    assert_true(w->n_jobs < WORLD_JOBS);
    struct job *job = &w->jobs[w->n_jobs++];
    *job = (struct job){.n_tokens = n_tokens};
    return job;
}
static inline struct job *world_push(struct world *w, int n_tokens) {
    struct job *job = world_job(w, n_tokens);
    queues_push(w->queues, job, w->now_ns);
    return job;
}
static inline int64_t world_ends(const struct world *w, const struct job *job) {
    return w->ends_ns[job - w->jobs];
}
/* Runs one batch, if there is one to run now, and lets its time pass. */
static inline struct decision world_run(struct world *w, struct job **chosen) {
    const struct decision d =
        queues_choose(w->queues, 0, 0, w->now_ns, false, chosen, WORLD_CHOSEN);
    if (d.kind == DECIDE_RUN) {
        w->now_ns += d.cost_ns;
        for (int i = 0; i < d.n_jobs; i++) {
            const int64_t at = chosen[i] - w->jobs;
            assert_int_equal(w->ends_ns[at], 0); // never twice
            w->ends_ns[at] = w->now_ns;
        }
        w->n_done += d.n_jobs;
        queues_ran(w->queues, 0, (struct cost_shape){1, 1}, -1, w->now_ns);
    }
    return d;
}
#endif
