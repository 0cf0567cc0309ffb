/* http_wait.c - a request whose jobs are out: queued, given up, done.
 * The connection is suspended meanwhile. `pending` counts the jobs, plus one that the handler
 * itself holds until suspending is done; who brings it to zero resumes the connection, once.
 * A deadline and a hang-up are told by the watch: jobs that still wait come back from the batcher
 * and are never computed; those that run are awaited, and counted as wasted. */
#include "server/http_internal.h"

#include <assert.h>
#include <microhttpd.h>
#include <string.h>

static const struct config *config_of(const struct connection *c) {
    return c->daemon->http->ctx->cfg;
}
static void release(struct slot *s, int n) {
    struct connection *c = s->connection;
    struct http *h = c->daemon->http;
    if (atomic_fetch_sub(&s->request.pending, n) == n) {
        atomic_fetch_add(&h->n_resuming, 1);
        MHD_resume_connection(c->mhd);
        atomic_fetch_sub(&h->n_resuming, 1);
    }
}
static void add(counter *c, int64_t n) {
    atomic_fetch_add_explicit(c, (uint_fast64_t)n, memory_order_relaxed);
}
/* Nobody gets what was computed: each job's share of its pass. */
static void count_waste(struct metrics *m, const struct request *r, enum waste why) {
    for (const struct job *job = r->jobs; job < r->jobs + r->n_jobs; job++) {
        if (job->done_ns) {
            const int rows = job->ride.n_rows > 0 ? job->ride.n_rows : 1;
            add(&m->wasted_jobs[why], 1);
            add(&m->wasted_tokens[why], job->n_tokens);
            add(&m->wasted_ns[why], (job->done_ns - job->infer_ns) * job->n_tokens / rows);
        }
    }
}
/* On a worker's thread: computed, or found to be too late when it was to be. */
static void on_job_done(struct job *job) {
    struct slot *s = job->owner;
    if (job->done_ns == 0 && job->status == STATUS_TIMEOUT) {
        add(&s->connection->daemon->http->ctx->metrics->jobs_expired, 1);
    }
    release(s, 1);
}
/* Ends a request that waits: what is queued comes back, what runs is awaited. */
static void end_early(struct connection *c, enum status why) {
    struct slot *s = c->slot;
    struct request *r = &s->request;
    struct batcher *b = engine_batcher(atomic_load(&c->daemon->http->ctx->engine));
    int expected = STATUS_OK, n_cancelled = 0;
    if (!atomic_load(&r->pending) || !atomic_compare_exchange_strong(&r->ended, &expected, why)) {
        return; // all done, or ended before
    }
    for (int i = 0; i < r->n_jobs; i++) {
        if (batcher_cancel(b, &r->jobs[i])) {
            r->jobs[i].status = why;
            n_cancelled++;
        }
    }
    struct metrics *m = c->daemon->http->ctx->metrics;
    add(why == STATUS_TIMEOUT ? &m->jobs_expired : &m->jobs_cancelled, n_cancelled);
    if (n_cancelled) {
        release(s, n_cancelled);
    }
}
static void on_wait(void *arg, enum watch_event event) {
    struct connection *c = arg;
    switch (event) {
    case WATCH_HANG_UP: end_early(c, STATUS_CANCELLED); break;
    case WATCH_HALF_CLOSE:
        if (!config_of(c)->server.tolerate_half_close) {
            end_early(c, STATUS_CANCELLED);
        }
        break;
    case WATCH_DEADLINE: end_early(c, STATUS_TIMEOUT); break;
    case WATCH_STOP: end_early(c, STATUS_UNAVAILABLE); break;
    }
}

/* Until when an answer is worth something, and whether the client said so itself. */
struct deadline {
    int64_t at_ns;
    bool is_own;
};
static struct deadline deadline_of(const struct connection *c, const struct request *r) {
    const int64_t ours_ns =
        r->clock.ends_ns[STAGE_READ] + config_of(c)->server.request_timeout_ms * NS_PER_MS;
    const int64_t own_ns = r->caller.deadline_ns;
    const bool is_own = own_ns && own_ns < ours_ns;
    return (struct deadline){is_own ? own_ns : ours_ns, is_own};
}
/* Of the time until the deadline, what the answer's way takes: on a busy machine its thread waits
 * for up to a tick of the scheduler. What is done later than that is computed for nobody. */
static int64_t answer_way_ns(const struct request *r, int64_t deadline_ns) {
    enum { LONGEST_MS = 5, PARTS = 32 };
    const int64_t part_ns = (deadline_ns - r->clock.ends_ns[STAGE_READ]) / PARTS;
    return part_ns < LONGEST_MS * NS_PER_MS ? part_ns : LONGEST_MS * NS_PER_MS;
}
static enum status submit_jobs(struct connection *c, struct slot *s, struct deadline deadline,
                               struct admission *why) {
    struct request *r = &s->request;
    struct job **jobs = arena_alloc(&r->arena, (size_t)r->n_jobs, sizeof(struct job *));
    if (!jobs) {
        return STATUS_NO_MEMORY;
    }
    const int64_t done_by_ns = deadline.at_ns - answer_way_ns(r, deadline.at_ns);
    for (int i = 0; i < r->n_jobs; i++) {
        struct job *job = jobs[i] = &r->jobs[i];
        job->done = on_job_done;
        job->owner = s;
        job->deadline_ns = done_by_ns;
        job->wants_deadline = deadline.is_own;
        job->priority = r->caller.priority;
        job->key = r->caller.key;
        job->status = STATUS_OK;
        job->queued_ns = job->chosen_ns = job->infer_ns = job->done_ns = 0;
        memset(&job->ride, 0, sizeof(job->ride));
    }
    atomic_store(&r->pending, r->n_jobs + 1);
    return batcher_submit(engine_batcher(atomic_load(&c->daemon->http->ctx->engine)), jobs,
                          r->n_jobs, why);
}

/* No room, or no hope: 429, with the time after which there should be. */
static void limit(struct connection *c, struct request *r, enum limit why,
                  const struct admission *a) {
    const double late_ms = (double)(a->finish_ns - time_now_ns()) / (double)NS_PER_MS;
    if (why == LIMIT_QUEUE) {
        reply_error(r, REFUSE_OVERLOADED, "the queue is full");
    } else {
        reply_error(r, REFUSE_OVERLOADED,
                    "the queue is too long: an answer is predicted in %.0f ms, after its deadline",
                    late_ms > 0 ? late_ms : 0);
    }
    reply_retry_after(r, a->retry_after_ns);
    add(&c->daemon->http->ctx->metrics->limited[why], 1);
}
static void tell_late(struct request *r, bool is_own) {
    reply_error(r, REFUSE_DEADLINE, "no answer within %s",
                is_own ? "Berth-Deadline-Ms" : "request_timeout_ms");
}
static bool refuse(struct connection *c, struct request *r, enum status s,
                   const struct admission *why) {
    switch (s) {
    case STATUS_OVERLOADED: limit(c, r, LIMIT_QUEUE, why); break;
    case STATUS_TIMEOUT: limit(c, r, LIMIT_DEADLINE, why); break;
    case STATUS_UNAVAILABLE:
        reply_error(r, REFUSE_UNAVAILABLE, "the server is shutting down");
        break;
    default: reply_error(r, refusal_of_status(s), "the input is too long"); break;
    }
    return exchange_answer(c, r);
}
bool exchange_wait(struct connection *c, struct slot *s) {
    struct request *r = &s->request;
    const struct deadline deadline = deadline_of(c, r);
    if (time_now_ns() >= deadline.at_ns) {
        tell_late(r, deadline.is_own);
        return exchange_answer(c, r);
    }
    struct admission why = {.status = STATUS_OK};
    const enum status status = submit_jobs(c, s, deadline, &why);
    if (status) {
        return refuse(c, r, status, &why);
    }
    s->submitted = true;
    MHD_suspend_connection(c->mhd);
    watch_add(c->daemon->http->watch, &c->watch, c->fd, deadline.at_ns, on_wait, c);
    release(s, 1); // the handler's own: from here on the connection may be resumed
    return true;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}
/* A request is in a stage as long as any of its jobs is. */
static void end_job_stages(struct request *r) {
    int64_t chosen_ns = 0, infer_ns = 0, done_ns = 0;
    for (int i = 0; i < r->n_jobs; i++) {
        chosen_ns = later(chosen_ns, r->jobs[i].chosen_ns);
        infer_ns = later(infer_ns, r->jobs[i].infer_ns);
        done_ns = later(done_ns, r->jobs[i].done_ns);
    }
    stage_clock_end(&r->clock, STAGE_QUEUE, chosen_ns);
    stage_clock_end(&r->clock, STAGE_FORM, infer_ns);
    stage_clock_end(&r->clock, STAGE_INFER, done_ns);
}
/* The batcher has found a job too late before the watch did. */
static bool has_expired(const struct request *r) {
    for (int i = 0; i < r->n_jobs; i++) {
        if (r->jobs[i].status == STATUS_TIMEOUT) {
            return true;
        }
    }
    return false;
}
bool exchange_waited(struct connection *c, struct slot *s) {
    struct http *h = c->daemon->http;
    struct request *r = &s->request;
    watch_pause(h->watch, &c->watch);
    assert(atomic_load(&r->pending) == 0);
    const enum status ended = (enum status)atomic_load(&r->ended); // for good
    if (ended == STATUS_CANCELLED) {
        count_waste(h->ctx->metrics, r, WASTE_CANCELLED);
        s->outcome = OUTCOME_CANCELLED;
        return false; // nobody is there to be answered
    }
    end_job_stages(r);
    if (ended == STATUS_UNAVAILABLE) {
        reply_error(r, REFUSE_UNAVAILABLE, "the server is shutting down");
    } else if ((ended == STATUS_TIMEOUT || has_expired(r)) && !r->is_partial) {
        count_waste(h->ctx->metrics, r, WASTE_EXPIRED);
        tell_late(r, deadline_of(c, r).is_own);
    } else {
        c->route->finish(h->ctx, r);
    }
    return exchange_answer(c, r);
}
