/* policy.c - which jobs run next.
 * A batch is filled (fill.c) by walking the waiting jobs (walk.c) and taking what fits the anchor
 * bucket's caps and the time budget. Whether it may go is then read from the queues alone: full, or
 * somebody may not wait. When other devices are idle, the batch is filled a second time with a
 * smaller cap, this device's share, so that the reason stays the true one. The work is that of the
 * jobs looked at: those chosen, and at most POLICY_LOOK_AHEAD + 1 others. */
#include "batching/policy.h"

#include <assert.h>
#include "base/timing.h"
#include "batching/fill.h"

#define MAX_WAIT_NS (60 * NS_PER_S)
enum { MAX_COST_FACTOR = 1000 };
#define WAKE_UP_NS NS_PER_MS // how early a wait ends for a deadline's sake

const char *const release_reason_names[N_RELEASE_REASONS] = {
    [RELEASE_FULL] = "full",   [RELEASE_WAITED] = "waited", [RELEASE_IDLE] = "idle",
    [RELEASE_DRAIN] = "drain", [RELEASE_URGENT] = "urgent",
};

static enum status check_bucket(const struct bucket_limits *l, int after, struct error *err) {
    if (l->up_to <= after) {
        return error_set(
            err, STATUS_INVALID,
            "bucket up_to %d follows up_to %d: list buckets by rising up_to, from 1 on", l->up_to,
            after);
    }
    if (l->max_batch_tokens < 1) {
        return error_set(err, STATUS_INVALID,
                         "bucket up_to %d: max_batch_tokens is %d, it must be at least 1", l->up_to,
                         l->max_batch_tokens);
    }
    if (l->max_batch_requests < 1) {
        return error_set(err, STATUS_INVALID,
                         "bucket up_to %d: max_batch_requests is %d, it must be at least 1",
                         l->up_to, l->max_batch_requests);
    }
    if (l->max_wait_ns < 0 || l->max_wait_ns > MAX_WAIT_NS) {
        return error_set(err, STATUS_INVALID,
                         "bucket up_to %d: max_wait_ms is %g, it must be 0 to %g", l->up_to,
                         (double)l->max_wait_ns / 1e6, (double)MAX_WAIT_NS / 1e6);
    }
    return STATUS_OK;
}

static enum status check_times(const struct policy_config *cfg, struct error *err) {
    if (cfg->max_batch_ns < 0 || cfg->max_batch_ns > MAX_WAIT_NS) {
        return error_set(err, STATUS_INVALID, "max_batch_ms is %g, it must be 0 to %g",
                         (double)cfg->max_batch_ns / 1e6, (double)MAX_WAIT_NS / 1e6);
    }
    if (!(cfg->rank_cost_factor >= 0 && cfg->rank_cost_factor <= MAX_COST_FACTOR)) {
        return error_set(err, STATUS_INVALID, "rank_cost_factor is %g, it must be 0 to %d",
                         cfg->rank_cost_factor, MAX_COST_FACTOR);
    }
    for (int i = 0; i < N_PRIORITIES; i++) {
        if (cfg->priority_ns[i] < -MAX_WAIT_NS || cfg->priority_ns[i] > MAX_WAIT_NS) {
            return error_set(err, STATUS_INVALID,
                             "priority %s shifts by %g ms, it must be at most %g either way",
                             priority_names[i], (double)cfg->priority_ns[i] / 1e6,
                             (double)MAX_WAIT_NS / 1e6);
        }
    }
    return STATUS_OK;
}

static enum status check_keys(const struct policy_config *cfg, struct error *err) {
    if (cfg->n_keys < 1 || cfg->n_keys > POLICY_MAX_KEYS) {
        return error_set(err, STATUS_INVALID, "%d API keys share the device, it must be 1 to %d",
                         cfg->n_keys, POLICY_MAX_KEYS);
    }
    for (int i = 0; i < cfg->n_keys; i++) {
        if (cfg->key_weights[i] < 1 || cfg->key_weights[i] > POLICY_MAX_WEIGHT) {
            return error_set(err, STATUS_INVALID,
                             "API key %d has the weight %d, it must be 1 to %d", i,
                             cfg->key_weights[i], POLICY_MAX_WEIGHT);
        }
    }
    return STATUS_OK;
}

static enum status check_count(const struct policy_config *cfg, struct error *err) {
    if (cfg->n_buckets < 1 || cfg->n_buckets > POLICY_MAX_BUCKETS) {
        return error_set(err, STATUS_INVALID, "%d buckets are given, it must be 1 to %d",
                         cfg->n_buckets, POLICY_MAX_BUCKETS);
    }
    if ((cfg->mode == BATCH_NONE || cfg->mode == BATCH_PADDED) && cfg->n_buckets != 1) {
        return error_set(err, STATUS_INVALID, "mode %s has one bucket, %d are given",
                         batch_mode_names[cfg->mode], cfg->n_buckets);
    }
    return STATUS_OK;
}

enum status policy_config_check(const struct policy_config *cfg, int max_seq_len,
                                struct error *err) {
    if ((unsigned)cfg->mode >= N_BATCH_MODES) {
        return error_set(err, STATUS_INVALID, "batching mode %d does not exist", (int)cfg->mode);
    }
    enum status s = check_count(cfg, err);
    if (!s) {
        s = check_times(cfg, err);
    }
    if (!s) {
        s = check_keys(cfg, err);
    }
    if (s) {
        return s;
    }
    int after = 0;
    for (int i = 0; i < cfg->n_buckets; i++) {
        s = check_bucket(&cfg->buckets[i], after, err);
        if (s) {
            return s;
        }
        after = cfg->buckets[i].up_to;
    }
    if (after < max_seq_len) {
        return error_set(err, STATUS_INVALID,
                         "the longest bucket is up_to %d, inputs have up to %d tokens: "
                         "add a bucket with up_to %d",
                         after, max_seq_len, max_seq_len);
    }
    return STATUS_OK;
}

int policy_bucket_of(const struct policy_config *cfg, int n_tokens) {
    for (int i = 0; i < cfg->n_buckets; i++) {
        if (n_tokens <= cfg->buckets[i].up_to) {
            return i;
        }
    }
    return -1;
}

int policy_key_of(const struct policy_config *cfg, const struct job *job) {
    return job->key >= 0 && job->key < cfg->n_keys ? job->key : 0;
}
int policy_n_orders(const struct policy_config *cfg) {
    return cfg->mode == BATCH_BUCKETED ? cfg->n_buckets : 1;
}
int policy_order_of(const struct policy_config *cfg, int bucket) {
    return cfg->mode == BATCH_BUCKETED ? bucket : 0;
}
void policy_quanta(const struct policy_config *cfg, int64_t *quanta) {
    int largest = 1;
    for (int key = 0; key < cfg->n_keys; key++) {
        largest = cfg->key_weights[key] > largest ? cfg->key_weights[key] : largest;
    }
    for (int key = 0; key < cfg->n_keys; key++) {
        quanta[key] = (int64_t)POLICY_QUANTUM * POLICY_CREDIT * cfg->key_weights[key] / largest;
    }
}

int64_t policy_rank(const struct policy_config *cfg, const struct job *job, int64_t behind_ns) {
    if (cfg->mode == BATCH_PADDED) {
        return job->queued_ns;
    }
    const int64_t late_ns = (int64_t)(cfg->rank_cost_factor * (double)job->cost_ns);
    const int64_t rank = job->queued_ns + behind_ns + late_ns + cfg->priority_ns[job->priority];
    const int64_t start_ns = job->deadline_ns - job->cost_ns;
    return job->wants_deadline && start_ns < rank ? start_ns : rank;
}

/* True when company could not come: a cap is reached, or a job that waits was left behind. */
static bool make_batch(struct decision *d, struct walk *w, const struct caps *caps,
                       struct job **chosen) {
    struct load l = {.n_jobs = 0};
    walk_start(w, w->cfg, w->view, UINT32_C(1) << policy_order_of(w->cfg, d->bucket));
    fill(&l, w, caps, chosen);
    const bool full = load_is_full(&l, caps) || l.n_skipped > 0;
    if (w->cfg->mode == BATCH_BUCKETED && w->view->n_idle_workers == 0) {
        fill_from_others(&l, w, caps, d->bucket, chosen);
    }
    d->n_jobs = l.n_jobs;
    d->n_rows = (int)l.shape.rows;
    d->cost_ns = l.cost_ns;
    d->n_rounds = w->n_rounds_used;
    return full;
}

/* Padded by buckets, a batch leaves the other queues alone: a device that holds the anchor back for
 * company must not stand idle before one of them that has a batch's worth. */
static bool another_is_full(const struct policy_config *cfg, const struct policy_view *view,
                            int anchor_bucket) {
    for (int i = 0; cfg->mode == BATCH_BUCKETED && i < cfg->n_buckets; i++) {
        const struct bucket_limits *l = &cfg->buckets[i];
        const struct job_queue *q = &view->queues[i];
        if (i != anchor_bucket &&
            (q->n_jobs >= l->max_batch_requests || q->n_tokens >= l->max_batch_tokens)) {
            return true;
        }
    }
    return false;
}

/* The bucket whose oldest job is the first that may wait no longer, and until when it may. */
static int first_due(const struct policy_config *cfg, const struct policy_view *view,
                     int64_t *due_ns) {
    int first = -1;
    for (int i = 0; i < cfg->n_buckets; i++) {
        const struct job *oldest = view->queues[i].head;
        const int64_t wait_ns = cfg->buckets[i].max_wait_ns;
        if (oldest && (first < 0 || oldest->queued_ns + wait_ns < *due_ns)) {
            *due_ns = oldest->queued_ns + wait_ns;
            first = i;
        }
    }
    return first;
}

/* Sets run and the reason, or wait and until when. */
static void release(struct decision *d, const struct policy_config *cfg,
                    const struct policy_view *view, bool full, int64_t now_ns, bool draining) {
    const int first = first_due(cfg, view, &d->wake_ns);
    const int64_t start_ns = view->first_start_ns - d->cost_ns - WAKE_UP_NS;
    d->wake_ns = start_ns < d->wake_ns ? start_ns : d->wake_ns;
    d->kind = DECIDE_RUN;
    if (full) {
        d->reason = RELEASE_FULL;
    } else if (draining) {
        d->reason = RELEASE_DRAIN;
    } else if (now_ns >= d->wake_ns) {
        d->reason = cfg->buckets[first].max_wait_ns > 0 ? RELEASE_WAITED : RELEASE_IDLE;
    } else if (another_is_full(cfg, view, d->bucket)) {
        d->reason = RELEASE_FULL;
    } else {
        d->kind = DECIDE_WAIT;
    }
}

static int64_t div_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

/* Lowers the caps to what this device takes when the idle ones beside it take as much each. Packed
 * batches cost by their tokens, padded ones by their jobs. Buckets that are not mixed have a device
 * each before one of them is divided. False: nothing to share. */
static bool share(struct caps *caps, const struct policy_config *cfg,
                  const struct policy_view *view, int anchor_bucket) {
    int64_t n_tokens = 0, n_jobs = 0;
    int n_devices = view->n_idle_workers + 1;
    for (int i = 0; i < cfg->n_buckets; i++) {
        const struct job_queue *q = &view->queues[i];
        if (cfg->mode == BATCH_BUCKETED && i != anchor_bucket) {
            n_devices -= q->n_jobs > 0;
            continue;
        }
        n_tokens += q->n_tokens;
        n_jobs += q->n_jobs;
    }
    if (n_devices < 2) {
        return false;
    }
    const int64_t rows = div_up(n_tokens, n_devices), jobs = div_up(n_jobs, n_devices);
    if (!caps->padded && rows < caps->max_rows) {
        caps->max_rows = rows;
    } else if (caps->padded && jobs < caps->max_jobs) {
        caps->max_jobs = (int)jobs;
    }
    return true;
}

/* A job larger than a batch may be, alone: the short ones that wait can go before it, once; the
 * next batch is its own. Not where the order is that of arrival. */
static bool lets_others_first(const struct decision *d, const struct caps *caps,
                              const struct policy_config *cfg, const struct policy_view *view,
                              bool draining) {
    return d->n_jobs == 1 && (d->cost_ns > caps->max_ns || d->n_rows > caps->max_rows) &&
           cfg->rank_cost_factor > 0 && cfg->mode != BATCH_PADDED && !view->went_first && !draining;
}

static struct decision first_or_urgent(const struct decision *first,
                                       const struct policy_config *cfg,
                                       const struct policy_view *view, int64_t now_ns,
                                       struct job **chosen, int max_chosen) {
    const struct outer_batch outer = {
        .n_jobs = first->n_jobs, .cost_ns = first->cost_ns, .rest_ns = first->cost_ns};
    struct job *anchor = chosen[0];
    const struct decision urgent = urgent_before(cfg, view, &outer, now_ns, chosen, max_chosen);
    if (urgent.kind == DECIDE_RUN) {
        return urgent;
    }
    chosen[0] = anchor;
    return *first;
}

struct decision policy_decide(const struct policy_config *cfg, const struct policy_view *view,
                              int64_t now_ns, bool draining, struct job **chosen, int max_chosen) {
    assert(max_chosen >= 1);
    struct decision d = {.kind = DECIDE_IDLE, .bucket = -1};
    struct walk w;
    walk_start(&w, cfg, view, WALK_ALL);
    const struct job *anchor = walk_next(&w);
    if (!anchor) {
        return d;
    }
    d.bucket = anchor->bucket;
    struct caps caps = caps_of(cfg, d.bucket, max_chosen, now_ns);
    const struct caps whole = caps; // what a batch may hold, whatever this device's share is
    const bool full = make_batch(&d, &w, &caps, chosen);
    release(&d, cfg, view, full, now_ns, draining);
    if (d.kind == DECIDE_RUN && share(&caps, cfg, view, d.bucket)) {
        make_batch(&d, &w, &caps, chosen);
    }
    if (d.kind == DECIDE_RUN && lets_others_first(&d, &whole, cfg, view, draining)) {
        return first_or_urgent(&d, cfg, view, now_ns, chosen, max_chosen);
    }
    return d;
}
