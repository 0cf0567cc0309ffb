/* policy.c - which jobs run next.
 * A batch is filled by walking the queues in rank order (`struct walk`, a merge of one or all of
 * them) and taking what fits the anchor bucket's caps. Whether it may go is then read from the
 * queues alone: full, or somebody may not wait. When other devices are idle, the batch is filled a
 * second time with a smaller cap, this device's share, so that the reason stays the true one.
 * Cost: the jobs looked at (chosen, and at most POLICY_LOOK_AHEAD + 1 others) times the buckets. */
#include "batching/policy.h"

#include <assert.h>
#include "base/timing.h"

#define MAX_WAIT_NS (60 * NS_PER_S)

const char *const release_reason_names[N_RELEASE_REASONS] = {
    [RELEASE_FULL] = "full",
    [RELEASE_WAITED] = "waited",
    [RELEASE_IDLE] = "idle",
    [RELEASE_DRAIN] = "drain",
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

/* The queues that one batch may be filled from, each from its head on. */
struct walk {
    struct job *cursors[POLICY_MAX_BUCKETS];
    int n_cursors;
};

static struct walk walk_start(const struct policy_config *cfg, const struct policy_view *view,
                              int anchor_bucket) {
    struct walk w = {.n_cursors = 0};
    for (int i = 0; i < cfg->n_buckets; i++) {
        if (view->queues[i].head && (cfg->mode != BATCH_BUCKETED || i == anchor_bucket)) {
            w.cursors[w.n_cursors++] = view->queues[i].head;
        }
    }
    return w;
}

static struct job *walk_next(struct walk *w) {
    int first = -1;
    for (int i = 0; i < w->n_cursors; i++) {
        if (w->cursors[i] && (first < 0 || w->cursors[i]->rank < w->cursors[first]->rank)) {
            first = i;
        }
    }
    if (first < 0) {
        return NULL;
    }
    struct job *job = w->cursors[first];
    w->cursors[first] = job->next;
    return job;
}

struct caps {
    int64_t max_rows;
    int max_jobs, max_skipped;
    bool padded; // a row for every place up to the longest
};

static struct caps caps_of(const struct policy_config *cfg, int bucket, int max_chosen) {
    const struct bucket_limits *l = &cfg->buckets[bucket];
    struct caps c = {
        .max_rows = l->max_batch_tokens,
        .max_jobs = l->max_batch_requests < max_chosen ? l->max_batch_requests : max_chosen,
        .max_skipped = cfg->mode == BATCH_PADDED ? 0 : POLICY_LOOK_AHEAD,
        .padded = cfg->mode == BATCH_PADDED || cfg->mode == BATCH_BUCKETED,
    };
    if (cfg->mode == BATCH_NONE) {
        c.max_jobs = 1;
    }
    return c;
}

/* Takes what fits, the first job in any case. True when company could not come: a cap is reached,
 * or a job that waits was left behind. */
static bool fill(struct decision *d, struct walk w, const struct caps *caps, struct job **chosen) {
    int n = 0, longest = 0, n_skipped = 0;
    int64_t rows = 0;
    struct job *job;
    while (n < caps->max_jobs && rows < caps->max_rows && (job = walk_next(&w))) {
        const int new_longest = job->n_tokens > longest ? job->n_tokens : longest;
        const int64_t new_rows =
            caps->padded ? (int64_t)(n + 1) * new_longest : rows + job->n_tokens;
        if (n > 0 && new_rows > caps->max_rows) {
            if (++n_skipped > caps->max_skipped) {
                break;
            }
            continue;
        }
        chosen[n++] = job;
        longest = new_longest;
        rows = new_rows;
    }
    d->n_jobs = n;
    d->n_rows = (int)rows;
    return n == caps->max_jobs || rows >= caps->max_rows || n_skipped > 0;
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

struct decision policy_decide(const struct policy_config *cfg, const struct policy_view *view,
                              int64_t now_ns, bool draining, struct job **chosen, int max_chosen) {
    assert(max_chosen >= 1);
    struct decision d = {.kind = DECIDE_IDLE, .bucket = -1};
    for (int i = 0; i < cfg->n_buckets; i++) {
        const struct job *head = view->queues[i].head;
        if (head && (d.bucket < 0 || head->rank < view->queues[d.bucket].head->rank)) {
            d.bucket = i;
        }
    }
    if (d.bucket < 0) {
        return d;
    }
    const struct walk w = walk_start(cfg, view, d.bucket);
    struct caps caps = caps_of(cfg, d.bucket, max_chosen);
    const bool full = fill(&d, w, &caps, chosen);
    release(&d, cfg, view, full, now_ns, draining);
    if (d.kind == DECIDE_RUN && share(&caps, cfg, view, d.bucket)) {
        fill(&d, w, &caps, chosen);
    }
    return d;
}
