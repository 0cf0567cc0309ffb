/* worker.c - the loop that joins batcher and encoder.
 * One thread a worker: take a batch, run it, write the results into its jobs, count, and only then
 * give the jobs back, so that whoever has an answer finds it in the metrics. A pass that fails
 * takes its jobs with it and the loop goes on: the next pass may work, and a worker that stopped
 * would leave its queue to wait forever. Health is told by the failures in a row. */
#include "server/worker.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/timing.h"

static_assert((int)JOB_OP_KINDS == (int)N_OP_KINDS, "a ride has a time for every kind of op");

enum { UNHEALTHY_AFTER = 3 }; // failed passes in a row

struct worker {
    struct worker_parts parts;
    pthread_t thread;
    struct batch batch;
    float *logits; // [max_jobs, n_outputs]
    int n_failed_in_row;
    atomic_bool healthy;
};

static void add(counter *c, int64_t n) {
    atomic_fetch_add_explicit(c, (uint_fast64_t)n, memory_order_relaxed);
}

static void count_batch(struct metrics *m, const struct batch *b, int64_t batch_ns) {
    const struct ride *r = &b->ride;
    add(&m->batches[b->reason], 1);
    add(&m->bucket_batches[b->bucket], 1);
    add(&m->bucket_tokens[b->bucket], r->n_tokens);
    add(&m->bucket_rows[b->bucket], r->n_rows);
    add(&m->tokens, r->n_tokens);
    add(&m->rows, r->n_rows);
    histogram_record(&m->batch_jobs, r->n_jobs);
    histogram_record(&m->batch_rows, r->n_rows);
    histogram_record(&m->batch_ns, batch_ns);
    for (int k = 0; k < N_OP_KINDS; k++) {
        add(&m->op_ns[k], r->op_ns[k]);
    }
    for (int i = 0; i < b->n_jobs; i++) {
        const struct job *job = b->jobs[i];
        add(&m->bucket_jobs[job->bucket], 1);
        histogram_record(&m->bucket_wait[job->bucket], job->chosen_ns - job->queued_ns);
    }
}

static void note_health(struct worker *w, enum status s, const struct error *err) {
    if (!s) {
        w->n_failed_in_row = 0;
        atomic_store(&w->healthy, true);
        return;
    }
    w->n_failed_in_row++;
    if (w->n_failed_in_row >= UNHEALTHY_AFTER) {
        atomic_store(&w->healthy, false);
    }
    log_event(LOG_ERROR, "pass_failed", LOG_INT("worker", w->parts.index),
              LOG_INT("batch", w->batch.ride.batch_id), LOG_INT("jobs", w->batch.n_jobs),
              LOG_INT("in_a_row", w->n_failed_in_row), LOG_STR("status", status_name(s)),
              LOG_STR("reason", err->text));
}

static void run_batch(struct worker *w) {
    const struct worker_parts *p = &w->parts;
    struct batch *b = &w->batch;
    struct op_times times = {.ns = {0}};
    struct error err = {.text = ""};
    const int64_t infer_ns = time_now_ns();
    const enum status s = encoder_forward(p->encoder, w->logits, &b->tokens, &times, &err);
    const int64_t done_ns = time_now_ns();
    memcpy(b->ride.op_ns, times.ns, sizeof(times.ns));
    note_health(w, s, &err);
    const int n_good = batch_settle(b, s, w->logits, p->n_outputs, infer_ns, done_ns);
    count_batch(p->metrics, b, done_ns - infer_ns);
    add(&p->metrics->jobs_done, n_good);
    add(&p->metrics->jobs_failed, b->n_jobs - n_good);
    if (!s && n_good < b->n_jobs) {
        log_event(LOG_WARN, "logits_not_finite", LOG_INT("worker", p->index),
                  LOG_INT("batch", b->ride.batch_id), LOG_INT("jobs", b->n_jobs - n_good));
    }
    batcher_ran(p->batcher, p->index, b, s ? -1 : done_ns - infer_ns);
    batch_complete(b);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    while (batcher_next(w->parts.batcher, w->parts.index, &w->batch) == STATUS_OK) {
        run_batch(w);
    }
    return NULL;
}

static void worker_free(struct worker *w) {
    batch_finish(&w->batch);
    free(w->logits);
    free(w);
}

enum status worker_start(struct worker **out, const struct worker_parts *parts, struct error *err) {
    struct worker *w = xcalloc(1, sizeof(*w));
    const struct batch_limits limits = batcher_batch_limits(parts->batcher);
    w->parts = *parts;
    w->logits = xcalloc((size_t)limits.max_jobs * (size_t)parts->n_outputs, sizeof(*w->logits));
    atomic_init(&w->healthy, true);
    enum status s = batch_init(&w->batch, limits, err);
    if (!s) {
        const int rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc) {
            s = error_set(err, STATUS_NO_MEMORY, "worker %d: no thread: %s", parts->index,
                          strerror(rc));
        }
    }
    if (s) {
        worker_free(w);
        return s;
    }
    char name[16]; // the kernel keeps no more
    snprintf(name, sizeof(name), "worker-%d", parts->index);
    pthread_setname_np(w->thread, name);
    *out = w;
    return STATUS_OK;
}

void worker_join(struct worker *w) {
    if (!w) {
        return;
    }
    pthread_join(w->thread, NULL);
    encoder_destroy(w->parts.encoder);
    backend_destroy(w->parts.be);
    worker_free(w);
}

bool worker_is_healthy(const struct worker *w) {
    return atomic_load(&w->healthy);
}
