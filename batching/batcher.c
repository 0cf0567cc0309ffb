/* batcher.c - the queues, one lock, and the workers that wait for them.
 * Workers pull: whoever is free asks the policy under the lock, takes what it chose out of the
 * queues, and packs it after the lock is given back. One condition variable is enough: each change
 * wakes one worker, and a worker that leaves jobs behind wakes the next, so a burst spreads over
 * idle devices one by one instead of all of them running for the lock. Worth waking for are new
 * jobs, the end of a wait (a timed wait on the monotonic clock) and the close. */
#include "batching/batcher.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/timing.h"

struct batcher {
    struct batcher_config cfg;
    pthread_mutex_t lock; // of everything below
    pthread_cond_t work;  // CLOCK_MONOTONIC
    struct job_queue queues[POLICY_MAX_BUCKETS];
    int n_queued;
    int64_t queued_tokens;
    int n_free_workers; // inside batcher_next()
    int64_t next_rank, last_batch_id;
    bool closed;
};

static enum status check_config(const struct batcher_config *cfg, struct error *err) {
    if (cfg->max_seq_len < 1) {
        return error_set(err, STATUS_INVALID, "max_seq_len is %d, it must be at least 1",
                         cfg->max_seq_len);
    }
    if (cfg->max_queued_jobs < 1 || cfg->max_queued_tokens < 1) {
        return error_set(err, STATUS_INVALID,
                         "max_queued_jobs and max_queued_tokens must be at least 1");
    }
    return policy_config_check(&cfg->policy, cfg->max_seq_len, err);
}

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

enum status batcher_create(struct batcher **out, const struct batcher_config *cfg,
                           struct error *err) {
    enum status s = check_config(cfg, err);
    if (s) {
        return s;
    }
    struct batcher *b = xcalloc(1, sizeof(*b));
    b->cfg = *cfg;
    s = make_condition(&b->work, err);
    if (s) {
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
    assert(b->n_queued == 0 && b->n_free_workers == 0);
    pthread_cond_destroy(&b->work);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

struct batch_limits batcher_batch_limits(const struct batcher *b) {
    const struct policy_config *p = &b->cfg.policy;
    struct batch_limits most = {.max_jobs = 1, .max_rows = b->cfg.max_seq_len};
    for (int i = 0; i < p->n_buckets && p->mode != BATCH_NONE; i++) {
        const struct bucket_limits *l = &p->buckets[i];
        const int jobs = l->max_batch_requests < l->max_batch_tokens ? l->max_batch_requests
                                                                     : l->max_batch_tokens;
        most.max_jobs = jobs > most.max_jobs ? jobs : most.max_jobs;
        most.max_rows = l->max_batch_tokens > most.max_rows ? l->max_batch_tokens : most.max_rows;
    }
    if (most.max_jobs > b->cfg.max_queued_jobs) {
        most.max_jobs = b->cfg.max_queued_jobs;
    }
    return most;
}

/* A full queue of tokens is one that reached the cap, not one that would: else a request larger
 * than what is left over would wait for luck, and one larger than the cap forever. */
static enum status admit(const struct batcher *b, int n) {
    if (b->closed) {
        return STATUS_UNAVAILABLE;
    }
    const bool full = b->n_queued + (int64_t)n > b->cfg.max_queued_jobs ||
                      b->queued_tokens >= b->cfg.max_queued_tokens;
    return full ? STATUS_OVERLOADED : STATUS_OK;
}

static void enqueue(struct batcher *b, struct job *job, int64_t now_ns) {
    job->status = STATUS_OK;
    job->queued_ns = now_ns;
    job->rank = b->next_rank++;
    job->bucket = policy_bucket_of(&b->cfg.policy, job->n_tokens);
    job_queue_push(&b->queues[job->bucket], job);
    b->n_queued++;
    b->queued_tokens += job->n_tokens;
}

static void take_out(struct batcher *b, struct job *job) {
    job_queue_remove(&b->queues[job->bucket], job);
    b->n_queued--;
    b->queued_tokens -= job->n_tokens;
}

enum status batcher_submit(struct batcher *b, struct job *const *jobs, int n) {
    for (int i = 0; i < n; i++) {
        assert(jobs[i]->n_tokens >= 1);
        if (jobs[i]->n_tokens > b->cfg.max_seq_len) {
            return STATUS_TOO_LONG;
        }
    }
    pthread_mutex_lock(&b->lock);
    const enum status s = admit(b, n);
    if (!s) {
        const int64_t now_ns = time_now_ns(); // under the lock: times rise with ranks
        for (int i = 0; i < n; i++) {
            enqueue(b, jobs[i], now_ns);
        }
        pthread_cond_signal(&b->work);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

bool batcher_cancel(struct batcher *b, struct job *job) {
    pthread_mutex_lock(&b->lock);
    const bool queued = job_queue_holds(&b->queues[job->bucket], job);
    if (queued) {
        take_out(b, job);
    }
    pthread_mutex_unlock(&b->lock);
    return queued;
}

static void wait_until(struct batcher *b, int64_t wake_ns) {
    const struct timespec at = {.tv_sec = (time_t)(wake_ns / NS_PER_S),
                                .tv_nsec = (long)(wake_ns % NS_PER_S)};
    const int rc = pthread_cond_timedwait(&b->work, &b->lock, &at);
    assert(rc == 0 || rc == ETIMEDOUT);
}

/* With the lock: blocks until there is a decision to run, or until closed and empty. */
static enum status choose(struct batcher *b, struct batch *out, struct decision *d) {
    for (;;) {
        const struct policy_view view = {.queues = b->queues,
                                         .n_idle_workers = b->n_free_workers - 1};
        const int64_t now_ns = time_now_ns();
        *d = policy_decide(&b->cfg.policy, &view, now_ns, b->closed, out->jobs,
                           out->limits.max_jobs);
        if (d->kind == DECIDE_RUN) {
            for (int i = 0; i < d->n_jobs; i++) {
                take_out(b, out->jobs[i]);
                out->jobs[i]->chosen_ns = now_ns;
            }
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

enum status batcher_next(struct batcher *b, struct batch *out) {
    struct decision d;
    int64_t batch_id = 0;
    pthread_mutex_lock(&b->lock);
    b->n_free_workers++;
    const enum status s = choose(b, out, &d);
    b->n_free_workers--;
    if (!s) {
        batch_id = ++b->last_batch_id;
        if (b->n_queued > 0) {
            pthread_cond_signal(&b->work);
        }
    }
    pthread_mutex_unlock(&b->lock);
    if (s) {
        return s;
    }
    const struct policy_config *p = &b->cfg.policy;
    batch_pack(out, d.n_jobs, p->mode, b->cfg.pad_token_id);
    out->reason = d.reason;
    out->bucket = d.bucket;
    out->ride.batch_id = batch_id;
    if (p->mode == BATCH_BUCKETED || p->mode == BATCH_PACKED) {
        out->ride.bucket_up_to = p->buckets[d.bucket].up_to;
    }
    return STATUS_OK;
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
    for (int i = 0; i < b->cfg.policy.n_buckets; i++) {
        out->n_queued[i] = b->queues[i].n_jobs;
    }
    out->queued_tokens = b->queued_tokens;
    out->n_waiting_workers = b->n_free_workers;
    pthread_mutex_unlock(&b->lock);
}
