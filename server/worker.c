/* worker.c - the loop that joins batcher and encoder.
 * One thread a worker: take a batch, run it, write the results into its jobs, count, and only then
 * give the jobs back, so that whoever has an answer finds it in the metrics. A pass that fails
 * takes its jobs with it and the loop goes on: the next pass may work, and a worker that stopped
 * would leave its queue to wait forever. Health is told by the failures in a row. */
#include "server/worker.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/timing.h"

static_assert((int)JOB_OP_KINDS == (int)N_OP_KINDS, "a ride has a time for every kind of op");

enum { UNHEALTHY_AFTER = 3 }; // failed passes in a row

/* One batch at a time and what runs it. A worker has two: the second is for batches that run at a
 * layer border of the first's. */
struct seat {
    struct encoder *encoder;
    struct batch batch;
    float *logits; // [max_jobs, n_outputs]
};
struct worker {
    struct worker_parts parts;
    pthread_t thread;
    struct seat outer, urgent;
    struct op_profile profile; // of one pass
    int64_t inside_ns;         // what borders, and batches there, took of the outer one's time
    int n_failed_in_row;
    bool was_lost;
    struct device retired; // the lost one: it may hang, and nobody waits for it before the end
    int64_t launches;      // of the latest pass
    atomic_bool healthy;
};

static void add(counter *c, int64_t n) {
    atomic_fetch_add_explicit(c, (uint_fast64_t)n, memory_order_relaxed);
}

static void count_batch(struct metrics *m, const struct batch *b, int64_t batch_ns) {
    const struct ride *r = &b->ride;
    add(&m->batches[b->reason], 1);
    struct bucket_metrics *anchor = metrics_bucket_at(m, r->bucket_up_to);
    add(&anchor->batches, 1);
    add(&anchor->reasons[b->reason], 1);
    add(&anchor->tokens, r->n_tokens);
    add(&anchor->rows, r->n_rows);
    add(&anchor->room, atomic_load(&anchor->max_rows));
    add(&m->tokens, r->n_tokens);
    add(&m->rows, r->n_rows);
    add(&m->launches, r->launches);
    histogram_record(&m->batch_jobs, r->n_jobs);
    histogram_record(&m->batch_rows, r->n_rows);
    histogram_record(&m->batch_ns, batch_ns);
    for (int k = 0; k < N_OP_KINDS; k++) {
        add(&m->op_ns[k], r->op_ns[k]);
    }
    for (int i = 0; i < b->n_jobs; i++) {
        const struct job *job = b->jobs[i];
        struct bucket_metrics *own = metrics_bucket_of(m, job->n_tokens);
        add(&own->jobs, 1);
        histogram_record(&own->wait, job->chosen_ns - job->queued_ns);
    }
}

static void note_health(struct worker *w, const struct batch *b, enum status s,
                        const struct error *err) {
    if (!s) {
        w->n_failed_in_row = 0;
        atomic_store(&w->healthy, true);
        return;
    }
    w->n_failed_in_row++;
    if (w->n_failed_in_row >= UNHEALTHY_AFTER || w->parts.be->is_lost) {
        atomic_store(&w->healthy, false);
    }
    log_event(LOG_ERROR, "pass_failed", LOG_INT("worker", w->parts.index),
              LOG_INT("batch", b->ride.batch_id), LOG_INT("jobs", b->n_jobs),
              LOG_INT("in_a_row", w->n_failed_in_row), LOG_STR("status", status_name(s)),
              LOG_STR("reason", err->text));
}

/* The supervisor starts another process when this one ends. It ends as after SIGTERM, so that
 * whoever is served by another device still gets an answer. */
static void end_process(void) {
    kill(getpid(), SIGTERM);
}
/* Nothing but a new process frees a lost device. */
static void note_loss(struct worker *w) {
    static const char *const then[] = {
        [DEVICE_LOSS_EXIT] = "exit", [DEVICE_LOSS_STAY] = "stay", [DEVICE_LOSS_CPU] = "cpu"};
    if (!w->parts.be->is_lost || w->was_lost) {
        return;
    }
    w->was_lost = true;
    atomic_store(&w->parts.metrics->device_lost, true);
    if (w->parts.be->is_hung) {
        atomic_store(&w->parts.metrics->device_hung, true);
    }
    log_event(LOG_ERROR, "device_lost", LOG_INT("worker", w->parts.index),
              LOG_STR("then", then[w->parts.on_device_loss]));
    if (w->parts.on_device_loss == DEVICE_LOSS_EXIT) {
        end_process();
    }
}
static void take_over(struct worker *w, const struct device *d, double ms) {
    struct worker_parts *p = &w->parts;
    w->retired = (struct device){p->be, p->encoder, p->urgent_encoder};
    p->be = d->be, p->encoder = d->encoder, p->urgent_encoder = d->urgent;
    w->outer.encoder = d->encoder, w->urgent.encoder = d->urgent;
    add(&p->metrics->device_fallbacks, 1);
    log_event(LOG_WARN, "device_fallback", LOG_INT("worker", p->index),
              LOG_STR("used", d->be->name), LOG_STR("detail", d->be->detail),
              LOG_STR("dtype", dtype_name(d->be->dtype)), LOG_NUM("ms", ms));
}
/* After the loss, between two batches. False: the worker has nothing to do any more. */
static bool replace_device(struct worker *w) {
    struct device d = {.be = NULL};
    struct error err = {.text = ""};
    const int64_t start_ns = time_now_ns();
    const enum status s = w->parts.replace(w->parts.replace_arg, &d, &err);
    if (s) {
        log_event(LOG_ERROR, "device_fallback", LOG_INT("worker", w->parts.index),
                  LOG_STR("used", "nothing"), LOG_STR("status", status_name(s)),
                  LOG_STR("reason", err.text));
        end_process();
        return true; // it answers 503 until then
    }
    w->n_failed_in_row = 0;
    if (d.be) {
        take_over(w, &d, (double)(time_now_ns() - start_ns) / NS_PER_MS);
    } else {
        log_event(LOG_WARN, "device_fallback", LOG_INT("worker", w->parts.index),
                  LOG_STR("used", "other workers"));
    }
    atomic_store(&w->healthy, true);
    return d.be != NULL;
}

size_t worker_profile_size(int n_layers) {
    return ((size_t)n_layers + 1) * N_OP_STEPS;
}
/* The pass, op by op: summed over its layers to the metrics, whole to those jobs that want it. */
static void give_profile(struct worker *w, const struct seat *seat) {
    const size_t n = worker_profile_size(w->profile.n_layers);
    op_profile_reset(&w->profile);
    encoder_profile(seat->encoder, &w->profile);
    for (size_t k = 0; k < n; k++) {
        add(&w->parts.metrics->step_ns[k % N_OP_STEPS], w->profile.of[k].ns);
    }
    for (int i = 0; i < seat->batch.n_jobs; i++) {
        int64_t *ns = seat->batch.jobs[i]->profile_ns;
        for (size_t k = 0; ns && k < n; k++) {
            ns[k] = w->profile.of[k].ns;
        }
    }
}

/* After the pass: results to jobs, counters, and only then the jobs to their owners. own_ns: what
 * the pass took, without what interrupted it. */
static void finish_batch(struct worker *w, struct seat *seat, enum status s, int64_t infer_ns,
                         int64_t done_ns, int64_t own_ns) {
    const struct worker_parts *p = &w->parts;
    struct batch *b = &seat->batch;
    const int n_good = batch_settle(b, s, seat->logits, p->n_outputs, infer_ns, done_ns);
    count_batch(p->metrics, b, own_ns);
    give_profile(w, seat);
    add(&p->metrics->jobs_done, n_good);
    add(&p->metrics->jobs_failed, b->n_jobs - n_good);
    if (!s && n_good < b->n_jobs) {
        log_event(LOG_WARN, "logits_not_finite", LOG_INT("worker", p->index),
                  LOG_INT("batch", b->ride.batch_id), LOG_INT("jobs", b->n_jobs - n_good));
    }
    batcher_ran(p->batcher, p->index, b, s ? -1 : own_ns);
    batch_complete(b);
    note_loss(w);
}

static void run_inner(struct worker *w) {
    struct seat *seat = &w->urgent;
    struct batch *b = &seat->batch;
    struct op_times times = {.ns = {0}};
    struct error err = {.text = ""};
    const int64_t infer_ns = time_now_ns();
    const enum status s = encoder_forward(seat->encoder, seat->logits, &b->tokens, &times, &err);
    const int64_t done_ns = time_now_ns();
    memcpy(b->ride.op_ns, times.ns, sizeof(times.ns));
    b->ride.launches = times.launches;
    note_health(w, b, s, &err);
    finish_batch(w, seat, s, infer_ns, done_ns, done_ns - infer_ns);
}
/* At a layer border of the outer batch: whatever is urgent runs first. */
static void run_urgent(void *arg, int layers_left, int n_layers) {
    struct worker *w = arg;
    const int64_t border_ns = time_now_ns();
    while (batcher_interrupt(w->parts.batcher, w->parts.index, layers_left, n_layers,
                             &w->urgent.batch)) {
        run_inner(w);
    }
    w->inside_ns += time_now_ns() - border_ns;
}

static enum status forward(struct worker *w, struct op_times *times, struct error *err) {
    const struct seat *seat = &w->outer;
    const struct token_batch *tokens = &seat->batch.tokens;
    if (!batcher_interrupts(w->parts.batcher)) {
        return encoder_forward(seat->encoder, seat->logits, tokens, times, err);
    }
    return encoder_forward_in_steps(seat->encoder, seat->logits, tokens, run_urgent, w, times, err);
}
static void run_batch(struct worker *w) {
    struct batch *b = &w->outer.batch;
    struct op_times times = {.ns = {0}};
    struct error err = {.text = ""};
    const int64_t infer_ns = time_now_ns();
    w->inside_ns = 0;
    const enum status s = forward(w, &times, &err);
    const int64_t done_ns = time_now_ns();
    memcpy(b->ride.op_ns, times.ns, sizeof(times.ns));
    b->ride.launches = times.launches;
    note_health(w, b, s, &err);
    finish_batch(w, &w->outer, s, infer_ns, done_ns, done_ns - infer_ns - w->inside_ns);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    bool is_asked = false, goes_on = true;
    while (goes_on &&
           batcher_next(w->parts.batcher, w->parts.index, &w->outer.batch) == STATUS_OK) {
        run_batch(w);
        if (w->was_lost && !is_asked && w->parts.on_device_loss == DEVICE_LOSS_CPU) {
            is_asked = true;
            goes_on = replace_device(w);
        }
    }
    return NULL;
}

static enum status seat_init(struct seat *seat, struct encoder *encoder, struct batch_limits limits,
                             int n_outputs, struct error *err) {
    seat->encoder = encoder;
    seat->logits = xcalloc((size_t)limits.max_jobs * (size_t)n_outputs, sizeof(*seat->logits));
    return batch_init(&seat->batch, limits, err);
}
static void seat_finish(struct seat *seat) {
    batch_finish(&seat->batch);
    free(seat->logits);
}
static void worker_free(struct worker *w) {
    seat_finish(&w->outer);
    seat_finish(&w->urgent);
    op_profile_finish(&w->profile);
    free(w);
}

enum status worker_start(struct worker **out, const struct worker_parts *parts, struct error *err) {
    struct worker *w = xcalloc(1, sizeof(*w));
    const struct batch_limits limits = batcher_batch_limits(parts->batcher);
    w->parts = *parts;
    atomic_init(&w->healthy, true);
    op_profile_init(&w->profile, parts->n_layers);
    enum status s = seat_init(&w->outer, parts->encoder, limits, parts->n_outputs, err);
    s = s ? s : seat_init(&w->urgent, parts->urgent_encoder, limits, parts->n_outputs, err);
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
    encoder_destroy(w->parts.urgent_encoder);
    backend_destroy(w->parts.be);
    encoder_destroy(w->retired.encoder);
    encoder_destroy(w->retired.urgent);
    backend_destroy(w->retired.be);
    worker_free(w);
}

bool worker_is_healthy(const struct worker *w) {
    return atomic_load(&w->healthy);
}
