/* fill.c - jobs into a batch, in the order of a walk.
 * Every candidate is tried on: rows, longest and predicted time as they would be with it. What does
 * not fit is stepped over, a bounded number of times, so the work is bounded by the batch and not
 * by the queue. A pass that ends after a rider's deadline has computed it in vain, so the earliest
 * deadline bounds a batch as max_batch_ns does. */
#include "batching/fill.h"

enum { LATE_PART = 8 }; // a pass may well take 1/8 longer than predicted

struct caps caps_of(const struct policy_config *cfg, int bucket, int max_chosen, int64_t now_ns) {
    const struct bucket_limits *l = &cfg->buckets[bucket];
    struct caps c = {
        .max_rows = l->max_batch_tokens,
        .max_ns = cfg->max_batch_ns > 0 ? cfg->max_batch_ns : INT64_MAX,
        .max_jobs = l->max_batch_requests < max_chosen ? l->max_batch_requests : max_chosen,
        .max_skipped = POLICY_LOOK_AHEAD,
        .padded = cfg->mode == BATCH_PADDED || cfg->mode == BATCH_BUCKETED,
        .begin_ns = now_ns,
        .max_rank = INT64_MAX,
        .max_job_ns = INT64_MAX,
        .least_start_ns = INT64_MIN,
    };
    if (cfg->mode == BATCH_PADDED) {
        c.max_ns = INT64_MAX;
        c.max_skipped = 0;
        c.begin_ns = 0;
    } else if (cfg->mode == BATCH_NONE) {
        c.max_jobs = 1;
    }
    return c;
}

bool caps_let_ride(const struct caps *caps, const struct job *job) {
    return job->rank <= caps->max_rank && job->cost_ns <= caps->max_job_ns &&
           job->start_ns >= caps->least_start_ns;
}

static bool is_in_time(const struct load *l, const struct caps *caps) {
    return l->due_ns == 0 || caps->begin_ns + l->cost_ns + l->cost_ns / LATE_PART <= l->due_ns;
}

static struct load load_with(const struct load *l, const struct caps *caps,
                             const struct cost_model *cost, const struct job *job) {
    const int n_tokens = job->n_tokens;
    struct load more = *l;
    more.n_jobs++;
    more.longest = n_tokens > l->longest ? n_tokens : l->longest;
    if (caps->padded) {
        more.shape.rows = (int64_t)more.n_jobs * more.longest;
        more.shape.sum_len2 = more.shape.rows * more.longest;
    } else {
        more.shape.rows += n_tokens;
        more.shape.sum_len2 += (int64_t)n_tokens * n_tokens;
    }
    more.cost_ns = cost_predict_ns(cost, more.shape);
    if (caps->begin_ns && job->deadline_ns > 0 && (!l->due_ns || job->deadline_ns < l->due_ns)) {
        more.due_ns = job->deadline_ns;
    }
    if (more.n_jobs == 1 && caps->begin_ns + more.cost_ns > more.due_ns) {
        more.due_ns = 0; // it runs all the same, and nobody need hurry for it
    }
    return more;
}

bool load_is_full(const struct load *l, const struct caps *caps) {
    return l->n_jobs == caps->max_jobs || l->shape.rows >= caps->max_rows;
}

static bool fits(const struct load *with_it, const struct caps *caps) {
    return with_it->n_jobs == 1 || (with_it->shape.rows <= caps->max_rows &&
                                    with_it->cost_ns <= caps->max_ns && is_in_time(with_it, caps));
}

static void take(struct load *l, const struct load *with_it, struct walk *w, struct job *job,
                 struct job **chosen) {
    chosen[l->n_jobs] = job;
    walk_took(w, job);
    *l = *with_it;
}

/* True while others may be looked at. */
static bool step_over(struct load *l, struct walk *w, const struct caps *caps,
                      const struct job *job) {
    walk_stepped_over(w, job);
    return ++l->n_skipped <= caps->max_skipped;
}

void fill(struct load *l, struct walk *w, const struct caps *caps, struct job **chosen) {
    struct job *job;
    while (!load_is_full(l, caps) && (job = walk_next(w))) {
        const struct load more = load_with(l, caps, w->view->cost, job);
        if (caps_let_ride(caps, job) && fits(&more, caps)) {
            take(l, &more, w, job, chosen);
        } else if (!step_over(l, w, caps, job)) {
            break;
        }
    }
}

void fill_from_others(struct load *l, struct walk *w, const struct caps *caps, int anchor_bucket,
                      struct job **chosen) {
    const struct cost_model *cost = w->view->cost;
    const int64_t launch_ns =
        cost_predict_ns(cost, (struct cost_shape){1, 1}) - cost_job_ns(cost, 1);
    int64_t apart_ns = l->cost_ns;
    uint32_t joined = 0; // buckets whose batch would be one of its own
    struct job *job;
    walk_restart(w, ~(UINT32_C(1) << anchor_bucket));
    while (!load_is_full(l, caps) && (job = walk_next(w))) {
        const uint32_t bit = UINT32_C(1) << job->bucket;
        const int64_t own_ns = cost_job_ns(cost, job->n_tokens) + (joined & bit ? 0 : launch_ns);
        const struct load more = load_with(l, caps, cost, job);
        if (fits(&more, caps) && more.cost_ns < apart_ns + own_ns) {
            take(l, &more, w, job, chosen);
            apart_ns += own_ns;
            joined |= bit;
        } else if (!step_over(l, w, caps, job)) {
            break;
        }
    }
}
