/* interrupt.c - what may run before a long batch goes on, or begins.
 * A single long text holds the device for longer than all of a short text's patience. At a border
 * its activations can wait in their arena while a short batch runs, so the question is whether that
 * is worth it. The short jobs gain what is left of the long batch; the long one loses the short
 * batch; and everybody who waits loses a launch, which is little while the queue is short and, near
 * full load, more than the short ones gain. The bounds are fixed shares of predicted times; they
 * were found by simulation (bench/results/, policy-*.md). */
#include "batching/fill.h"

enum {
    SHORT_PART = 8,    // a job is short when it takes at most 1/8 of what is left
    OUTER_JOBS = 4,    // a batch of more is no long text, and full ones pay for themselves
    WORTH = 2,         // gain to loss: a batch cut off early is a batch less full later
    LAUNCH_WEIGHT = 2, // for those who come before the queue is empty again
    FEW_JOBS = 2,      // a batch of more is harder to interrupt:
    CROWD = 10,        // while so many wait twice as hard, and so on
};
static const double INSIDE_PART = 2.0 / 3; // of the batch's own time, for all interruptions

static int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* What tells the urgent from the others, and bounds what they take. */
static void restrict_caps(struct caps *caps, const struct outer_batch *outer, int64_t now_ns) {
    caps->max_rank = now_ns + outer->rest_ns;
    caps->max_job_ns = outer->rest_ns / SHORT_PART;
    caps->least_start_ns = now_ns;
    caps->max_ns =
        min_ns(caps->max_ns, (int64_t)((double)outer->cost_ns * INSIDE_PART) - outer->inside_ns);
}

/* The first urgent job, not further than a batch looks. */
static const struct job *find_anchor(struct walk *w, const struct outer_batch *outer,
                                     int64_t now_ns) {
    struct caps caps = caps_of(w->cfg, 0, 1, now_ns);
    restrict_caps(&caps, outer, now_ns);
    for (int i = 0; i <= POLICY_LOOK_AHEAD; i++) {
        const struct job *job = walk_next(w);
        if (!job || caps_let_ride(&caps, job)) {
            return job;
        }
    }
    return NULL;
}

static int n_waiting(const struct policy_config *cfg, const struct policy_view *view) {
    int n = 0;
    for (int i = 0; i < cfg->n_buckets; i++) {
        n += view->queues[i].n_jobs;
    }
    return n;
}

/* What all who wait lose by another launch. A batch of several jobs is interrupted the less the
 * more wait: where launches are dear that takes 4 % off everybody's p99 at 90 % load. */
static double launches_ns(const struct walk *w, const struct outer_batch *outer, int n_others) {
    const double crowding = outer->n_jobs > FEW_JOBS ? 1 + (double)n_others / CROWD : 1;
    return w->view->cost->coef[0] * n_others * LAUNCH_WEIGHT * crowding;
}

static bool is_worth_it(const struct load *l, const struct walk *w, const struct caps *caps,
                        const struct outer_batch *outer) {
    const int n_others = n_waiting(w->cfg, w->view) - l->n_jobs;
    const double gain = (double)l->n_jobs * (double)outer->rest_ns;
    const double loss = (double)outer->n_jobs * (double)l->cost_ns * WORTH;
    return l->n_jobs > 0 && l->cost_ns <= caps->max_ns && l->cost_ns < outer->rest_ns &&
           gain > loss + launches_ns(w, outer, n_others);
}

struct decision urgent_before(const struct policy_config *cfg, const struct policy_view *view,
                              const struct outer_batch *outer, int64_t now_ns, struct job **chosen,
                              int max_chosen) {
    struct decision d = {.kind = DECIDE_IDLE, .bucket = -1};
    struct walk w;
    walk_start(&w, cfg, view, WALK_ALL);
    const struct job *anchor = find_anchor(&w, outer, now_ns);
    if (!anchor) {
        return d;
    }
    struct caps caps = caps_of(cfg, anchor->bucket, max_chosen, now_ns);
    restrict_caps(&caps, outer, now_ns);
    struct load l = {.n_jobs = 0};
    walk_start(&w, cfg, view, UINT32_C(1) << policy_order_of(cfg, anchor->bucket));
    fill(&l, &w, &caps, chosen);
    if (is_worth_it(&l, &w, &caps, outer) &&
        !w.overdrawn) { // nobody is urgent out of his key's turn
        d = (struct decision){.kind = DECIDE_RUN,
                              .reason = RELEASE_URGENT,
                              .bucket = chosen[0]->bucket,
                              .n_jobs = l.n_jobs,
                              .n_rows = (int)l.shape.rows,
                              .cost_ns = l.cost_ns,
                              .n_rounds = w.n_rounds_used};
    }
    return d;
}

struct decision policy_interrupt(const struct policy_config *cfg, const struct policy_view *view,
                                 const struct outer_batch *outer, int64_t now_ns,
                                 struct job **chosen, int max_chosen) {
    if (!cfg->interrupt || cfg->mode == BATCH_PADDED || outer->n_jobs > OUTER_JOBS) {
        return (struct decision){.kind = DECIDE_IDLE, .bucket = -1};
    }
    return urgent_before(cfg, view, outer, now_ns, chosen, max_chosen);
}
