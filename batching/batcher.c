/* batcher.c - one lock, a clock and the workers that wait, around the queues.
 * Workers pull: whoever is free asks the policy under the lock, takes what it chose out of the
 * queues, and packs it after the lock is given back. One condition variable is enough: each change
 * wakes one worker, and a worker that leaves jobs behind wakes the next, so a burst spreads over
 * idle devices one by one instead of all of them running for the lock. Worth waking for are new
 * jobs, the end of a wait (a timed wait on the monotonic clock) and the close. */
#include "batching/batcher.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/timing.h"

enum { MAX_EXPIRED = 64 }; // at a time

struct batcher {
    int32_t pad_token_id;
    struct batch_limits limits; // of every batch, whatever the policy becomes
    int max_seq_len, max_queued_jobs;
    pthread_mutex_t lock; // of everything below
    pthread_cond_t work;  // CLOCK_MONOTONIC
    struct queues *queues;
    struct policy_config policy; // in force
    int n_free_workers;          // inside batcher_next()
    batcher_look_fn *look;       // NULL: there is none
    void *look_arg;
    int64_t last_batch_id, n_expired;
    bool closed;
    atomic_bool interrupts;    // policy.interrupt; this and the next are read without the lock
    atomic_bool may_interrupt; // and something waits
};

static enum status make_condition(pthread_cond_t *c, struct error *err) {
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    if (!rc) {
        rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (!rc) {
            rc = pthread_cond_init(c, &attr);
        }
        pthread_condattr_destroy(&attr);
    }
    return rc ? error_set(err, STATUS_NO_MEMORY, "condition variable: %s", strerror(rc))
              : STATUS_OK;
}

/* The largest batch that a policy may choose. */
static struct batch_limits limits_of(const struct policy_config *p, int max_seq_len,
                                     int max_queued_jobs) {
    struct batch_limits most = {.max_jobs = 1, .max_rows = max_seq_len};
    for (int i = 0; i < p->n_buckets && p->mode != BATCH_NONE; i++) {
        const struct bucket_limits *l = &p->buckets[i];
        const int jobs = l->max_batch_requests < l->max_batch_tokens ? l->max_batch_requests
                                                                     : l->max_batch_tokens;
        most.max_jobs = jobs > most.max_jobs ? jobs : most.max_jobs;
        most.max_rows = l->max_batch_tokens > most.max_rows ? l->max_batch_tokens : most.max_rows;
    }
    if (most.max_jobs > max_queued_jobs) {
        most.max_jobs = max_queued_jobs;
    }
    return most;
}

struct batch_limits batcher_limits(const struct batcher_config *cfg) {
    struct batch_limits l =
        limits_of(&cfg->queues.policy, cfg->queues.max_seq_len, cfg->queues.max_queued_jobs);
    l.max_rows = cfg->reserve_tokens > l.max_rows ? cfg->reserve_tokens : l.max_rows;
    l.max_jobs = cfg->reserve_jobs > l.max_jobs ? cfg->reserve_jobs : l.max_jobs;
    return l;
}

enum status batcher_create(struct batcher **out, const struct batcher_config *cfg,
                           struct error *err) {
    struct batcher *b = xcalloc(1, sizeof(*b));
    enum status s = queues_create(&b->queues, &cfg->queues, err);
    if (s) {
        free(b);
        return s;
    }
    *queues_cost(b->queues) = cfg->cost;
    b->pad_token_id = cfg->pad_token_id;
    b->limits = batcher_limits(cfg);
    b->policy = cfg->queues.policy;
    b->max_seq_len = cfg->queues.max_seq_len;
    b->max_queued_jobs = cfg->queues.max_queued_jobs;
    atomic_init(&b->interrupts, cfg->queues.policy.interrupt);
    atomic_init(&b->may_interrupt, false);
    s = make_condition(&b->work, err);
    if (s) {
        queues_destroy(b->queues);
        free(b);
        return s;
    }
    pthread_mutex_init(&b->lock, NULL); // cannot fail without attributes
    *out = b;
    return STATUS_OK;
}

void batcher_destroy(struct batcher *b) {
    if (!b) {
        return;
    }
    assert(queues_n_jobs(b->queues) == 0 && b->n_free_workers == 0);
    queues_destroy(b->queues);
    pthread_cond_destroy(&b->work);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

struct batch_limits batcher_batch_limits(const struct batcher *b) {
    return b->limits;
}

/* With the lock, after each change: what batcher_interrupt() may look at without it. */
static void note_waiting(struct batcher *b) {
    const bool may = b->policy.interrupt && queues_n_jobs(b->queues) > 0;
    atomic_store_explicit(&b->may_interrupt, may, memory_order_relaxed);
}

enum status batcher_submit(struct batcher *b, struct job *const *jobs, int n,
                           struct admission *why) {
    struct admission a = {.status = STATUS_UNAVAILABLE};
    pthread_mutex_lock(&b->lock);
    const int64_t now_ns = time_now_ns(); // under the lock: times rise with job numbers
    if (!b->closed) {
        a = queues_admit(b->queues, jobs, n, now_ns);
    }
    if (!a.status) {
        queues_push_request(b->queues, jobs, n, now_ns);
        note_waiting(b);
        pthread_cond_signal(&b->work);
    }
    pthread_mutex_unlock(&b->lock);
    if (why) {
        *why = a;
    }
    return a.status;
}

bool batcher_cancel(struct batcher *b, struct job *job) {
    pthread_mutex_lock(&b->lock);
    const bool queued = queues_remove(b->queues, job);
    note_waiting(b);
    pthread_mutex_unlock(&b->lock);
    return queued;
}

static void wait_until(struct batcher *b, int64_t wake_ns) {
    const struct timespec at = {.tv_sec = (time_t)(wake_ns / NS_PER_S),
                                .tv_nsec = (long)(wake_ns % NS_PER_S)};
    const int rc = pthread_cond_timedwait(&b->work, &b->lock, &at);
    assert(rc == 0 || rc == ETIMEDOUT);
}

/* With the lock, which is not held while the owners are told. True when there were any, and `now`
 * is old. */
static bool expire(struct batcher *b, int64_t now_ns) {
    struct job *expired[MAX_EXPIRED];
    const int n = queues_expire(b->queues, now_ns, expired, MAX_EXPIRED);
    if (n == 0) {
        return false;
    }
    b->n_expired += n;
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < n; i++) {
        expired[i]->status = STATUS_TIMEOUT;
        expired[i]->done(expired[i]);
    }
    pthread_mutex_lock(&b->lock);
    return true;
}

void batcher_set_look(struct batcher *b, batcher_look_fn *look, void *arg) {
    pthread_mutex_lock(&b->lock);
    b->look = look;
    b->look_arg = arg;
    pthread_mutex_unlock(&b->lock);
}
/* With the lock, which is not held meanwhile. */
static void look(struct batcher *b) {
    if (b->look && queues_n_jobs(b->queues) > 0) {
        pthread_mutex_unlock(&b->lock);
        b->look(b->look_arg); // never changes once there are jobs
        pthread_mutex_lock(&b->lock);
    }
}

/* With the lock: blocks until there is a decision to run, or until closed and empty. */
static enum status choose(struct batcher *b, int worker, struct batch *out, struct decision *d) {
    look(b);
    for (;;) {
        const int64_t now_ns = time_now_ns();
        if (expire(b, now_ns)) {
            continue;
        }
        *d = queues_choose(b->queues, worker, b->n_free_workers - 1, now_ns, b->closed, out->jobs,
                           out->limits.max_jobs);
        if (d->kind == DECIDE_RUN) {
            return STATUS_OK;
        }
        if (d->kind == DECIDE_WAIT) {
            wait_until(b, d->wake_ns);
        } else if (b->closed) {
            return STATUS_UNAVAILABLE;
        } else {
            pthread_cond_wait(&b->work, &b->lock);
        }
    }
}

/* What a chosen batch will be told, read under the lock: the policy may be another soon. */
struct form {
    enum batch_mode mode;
    int64_t batch_id;
    int bucket_up_to;
};

static struct form form_of(struct batcher *b, const struct decision *d) {
    const struct policy_config *p = &b->policy;
    const bool has_buckets = p->mode == BATCH_BUCKETED || p->mode == BATCH_PACKED;
    return (struct form){.mode = p->mode,
                         .batch_id = ++b->last_batch_id,
                         .bucket_up_to = has_buckets ? p->buckets[d->bucket].up_to : 0};
}

static void pack(const struct batcher *b, struct batch *out, const struct decision *d,
                 const struct form *f) {
    batch_pack(out, d->n_jobs, f->mode, b->pad_token_id);
    out->reason = d->reason;
    out->bucket = d->bucket;
    out->ride.batch_id = f->batch_id;
    out->ride.bucket_up_to = f->bucket_up_to;
}

enum status batcher_next(struct batcher *b, int worker, struct batch *out) {
    struct decision d;
    struct form f = {.batch_id = 0};
    pthread_mutex_lock(&b->lock);
    b->n_free_workers++;
    const enum status s = choose(b, worker, out, &d);
    b->n_free_workers--;
    if (!s) {
        f = form_of(b, &d);
        note_waiting(b);
        if (queues_n_jobs(b->queues) > 0) {
            pthread_cond_signal(&b->work);
        }
    }
    pthread_mutex_unlock(&b->lock);
    if (!s) {
        pack(b, out, &d, &f);
    }
    return s;
}

bool batcher_interrupts(struct batcher *b) {
    return atomic_load_explicit(&b->interrupts, memory_order_relaxed);
}

bool batcher_interrupt(struct batcher *b, int worker, int layers_left, int n_layers,
                       struct batch *out) {
    if (!atomic_load_explicit(&b->may_interrupt, memory_order_relaxed)) {
        return false;
    }
    struct form f = {.batch_id = 0};
    pthread_mutex_lock(&b->lock);
    const struct decision d = queues_interrupt(b->queues, worker, layers_left, n_layers,
                                               time_now_ns(), out->jobs, out->limits.max_jobs);
    if (d.kind == DECIDE_RUN) {
        f = form_of(b, &d);
        note_waiting(b);
    }
    pthread_mutex_unlock(&b->lock);
    if (d.kind == DECIDE_RUN) {
        pack(b, out, &d, &f);
    }
    return d.kind == DECIDE_RUN;
}

void batcher_ran(struct batcher *b, int worker, const struct batch *batch, int64_t ns) {
    const struct cost_shape shape = cost_shape_of(&batch->tokens);
    pthread_mutex_lock(&b->lock);
    queues_ran(b->queues, worker, shape, ns, time_now_ns());
    pthread_mutex_unlock(&b->lock);
}

static enum status check_reserved(const struct batcher *b, const struct policy_config *policy,
                                  struct error *err) {
    const struct batch_limits l = limits_of(policy, b->max_seq_len, b->max_queued_jobs);
    if (l.max_rows > b->limits.max_rows) {
        return error_set(err, STATUS_INVALID,
                         "max_batch_tokens is %d, but batches of at most %d tokens were made room "
                         "for at start: lower it, or restart",
                         l.max_rows, b->limits.max_rows);
    }
    if (l.max_jobs > b->limits.max_jobs) {
        return error_set(err, STATUS_INVALID,
                         "max_batch_requests is %d, but batches of at most %d inputs were made "
                         "room for at start: lower it, or restart",
                         l.max_jobs, b->limits.max_jobs);
    }
    return STATUS_OK;
}

enum status batcher_configure(struct batcher *b, const struct policy_config *policy,
                              struct error *err) {
    enum status s = policy_config_check(policy, b->max_seq_len, err);
    if (!s) {
        s = check_reserved(b, policy, err);
    }
    if (s) {
        return s;
    }
    pthread_mutex_lock(&b->lock);
    s = queues_configure(b->queues, policy, err);
    if (!s) {
        b->policy = *policy;
        atomic_store(&b->interrupts, policy->interrupt);
        note_waiting(b);
        pthread_cond_broadcast(&b->work); // waits and caps may be others
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

void batcher_worker_left(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    queues_worker_left(b->queues);
    pthread_mutex_unlock(&b->lock);
}

void batcher_get_policy(struct batcher *b, struct policy_config *out) {
    pthread_mutex_lock(&b->lock);
    *out = b->policy;
    pthread_mutex_unlock(&b->lock);
}

void batcher_close(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    b->closed = true;
    pthread_cond_broadcast(&b->work);
    pthread_mutex_unlock(&b->lock);
}

void batcher_get_stats(struct batcher *b, struct batcher_stats *out) {
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&b->lock);
    queues_get_stats(b->queues, time_now_ns(), &out->queues);
    out->cost = *queues_cost(b->queues);
    out->expired = b->n_expired;
    out->n_waiting_workers = b->n_free_workers;
    pthread_mutex_unlock(&b->lock);
}
