/* interrupt.c - what may run before a long batch goes on, or begins.
 * A single long text holds the device for longer than all of a short text's patience. At a border
 * its activations can wait in their arena while a short batch runs, so the question is whether that
 * is worth it: the short jobs gain what is left of the long batch, the long ones lose the short
 * batch. The bounds are fixed shares of predicted times; nothing here depends on how often it is
 * asked. */
#include "batching/fill.h"

enum {
    SHORT_PART = 6,  // a job is short when it takes at most 1/6 of what is left
    INSIDE_PART = 3, // interruptions take at most 1/3 of the batch's own time
    WORTH = 2,       // gain to loss: a batch cut off early is a batch less full later
};

static int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* What tells the urgent from the others, and bounds what they take. */
static void restrict_caps(struct caps *caps, const struct outer_batch *outer, int64_t now_ns) {
    caps->max_rank = now_ns + outer->rest_ns;
    caps->max_job_ns = outer->rest_ns / SHORT_PART;
    caps->least_start_ns = now_ns;
    caps->max_ns = min_ns(caps->max_ns, outer->cost_ns / INSIDE_PART - outer->inside_ns);
}

/* The first urgent job, not further than a batch looks. */
static const struct job *find_anchor(struct walk *w, const struct outer_batch *outer,
                                     int64_t now_ns) {
    struct caps caps = caps_of(w->cfg, 0, 1);
    restrict_caps(&caps, outer, now_ns);
    for (int i = 0; i <= POLICY_LOOK_AHEAD; i++) {
        const struct job *job = walk_next(w);
        if (!job || caps_let_ride(&caps, job)) {
            return job;
        }
    }
    return NULL;
}

static bool is_worth_it(const struct load *l, const struct caps *caps,
                        const struct outer_batch *outer) {
    const double gain = (double)l->n_jobs * (double)outer->rest_ns;
    const double loss = (double)outer->n_jobs * (double)l->cost_ns;
    return l->n_jobs > 0 && l->cost_ns <= caps->max_ns && l->cost_ns < outer->rest_ns &&
           gain > WORTH * loss;
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
    struct caps caps = caps_of(cfg, anchor->bucket, max_chosen);
    restrict_caps(&caps, outer, now_ns);
    struct load l = {.n_jobs = 0};
    walk_start(&w, cfg, view, UINT32_C(1) << policy_order_of(cfg, anchor->bucket));
    fill(&l, &w, &caps, chosen);
    if (is_worth_it(&l, &caps, outer) && !w.overdrawn) { // nobody is urgent out of his key's turn
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
    if (!cfg->interrupt || cfg->mode == BATCH_PADDED) {
        return (struct decision){.kind = DECIDE_IDLE, .bucket = -1};
    }
    return urgent_before(cfg, view, outer, now_ns, chosen, max_chosen);
}
