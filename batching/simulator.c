/* simulator.c - the event loop: arrivals, passes, clients that leave, deadlines.
 * The clock jumps from event to event; whenever something changed, idle workers ask the queues for
 * work as real ones would. Arrivals are not events: the trace is in order, so the next one is
 * compared with the heap's first. A job lives in a `flight`, one of a fixed pool; an event that
 * outlives its flight is told by the arrival's number, which the flight then no longer carries.
 * Randomness has a stream of its own for passes and one for clients, so that two policies meet the
 * same clients. */
#include "batching/simulator.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "batching/event_heap.h"
#include "batching/random.h"
#include "batching/simulator_internal.h"

enum event_kind {
    EVENT_BORDER,   // subject: worker; a layer, or the whole pass, is over
    EVENT_INNER,    // subject: worker; the pass that interrupted is over
    EVENT_FREE,     // subject: worker; it looks for work again
    EVENT_WAKE,     // somebody may wait no longer
    EVENT_NOTICE,   // subject: flight; the server sees that its client has gone
    EVENT_DEADLINE, // whatever has expired is taken out
};
enum flight_place { FLIGHT_FREE, FLIGHT_QUEUED, FLIGHT_RUNNING };
enum { MAX_EXPIRED = 64 };

struct flight {
    struct job job; // first: a job is cast back to its flight
    int arrival;    // its number in the trace
    enum flight_place place;
    int64_t leaves_ns; // the client; INT64_MAX: it stays
    int64_t begun_ns;
    int next_free;
};
struct pass {
    struct job **jobs; // [max_chosen], owned
    int n_jobs;
    struct cost_shape shape;
    int64_t took_ns; // as drawn, of itself
};
struct worker {
    bool busy;
    int layer; // layers done
    struct pass outer, inner;
};
struct sim {
    const struct sim_config *cfg;
    const struct trace *trace;
    struct sim_result *out;
    int64_t good_ns, now_ns, wake_ns; // wake_ns: the soonest EVENT_WAKE that is on its way
    struct queues *queues;
    struct dp_scheduler *dp;
    struct event_heap events;
    struct worker *workers;
    int n_idle, max_chosen;
    struct flight *flights;
    int n_flights, first_free;
    struct sim_answers answers;
    struct random passes, clients;
};

static void schedule(struct sim *s, enum event_kind kind, int subject, int arrival, int64_t at_ns) {
    const struct event e = {
        .at_ns = at_ns, .kind = (int)kind, .subject = subject, .arrival = arrival};
    event_heap_push(&s->events, &e);
}

/* Ends */

static void report_end(struct sim *s, int arrival, enum status status, int64_t begun_ns) {
    const struct arrival *a = &s->trace->arrivals[arrival];
    s->out->end_ns = s->now_ns;
    switch (status) {
    case STATUS_OK: s->out->n_done++; break;
    case STATUS_CANCELLED: s->out->n_cancelled++; break;
    default: s->out->n_refused++; break;
    }
    if (s->cfg->on_end) {
        const struct sim_end end = {a, status, begun_ns, s->now_ns};
        s->cfg->on_end(s->cfg->arg, &end);
    }
}

static void release(struct sim *s, struct flight *f, enum status status) {
    report_end(s, f->arrival, status, f->begun_ns);
    f->place = FLIGHT_FREE;
    f->arrival = -1;
    f->next_free = s->first_free;
    s->first_free = (int)(f - s->flights);
}

static void expire(struct sim *s) {
    struct job *expired[MAX_EXPIRED];
    int n;
    do {
        n = s->dp ? dp_expire(s->dp, s->now_ns, expired, MAX_EXPIRED)
                  : queues_expire(s->queues, s->now_ns, expired, MAX_EXPIRED);
        for (int i = 0; i < n; i++) {
            release(s, (struct flight *)expired[i], STATUS_TIMEOUT);
        }
        s->out->n_expired += n;
        s->out->n_refused -= n; // release() took them for such
    } while (n == MAX_EXPIRED);
}

/* Passes */

static struct cost_shape shape_of(const struct sim *s, struct job *const *jobs, int n) {
    struct cost_shape shape = {0, 0};
    const enum batch_mode mode = s->cfg->queues.policy.mode;
    const bool padded = s->dp || mode == BATCH_PADDED || mode == BATCH_BUCKETED;
    int64_t longest = 0;
    for (int i = 0; i < n; i++) {
        const int64_t len = jobs[i]->n_tokens;
        longest = len > longest ? len : longest;
        shape.rows += len;
        shape.sum_len2 += len * len;
    }
    if (padded) {
        shape.rows = n * longest;
        shape.sum_len2 = n * longest * longest;
    }
    return shape;
}

static double true_cost(const struct sim *s, struct cost_shape shape) {
    const double *c = s->cfg->coef;
    return c[0] + c[1] * (double)shape.rows + c[2] * (double)shape.sum_len2;
}

static void begin_pass(struct sim *s, struct pass *p, int n_jobs) {
    const double noise = s->cfg->noise > 0 ? s->cfg->noise * random_normal(&s->passes) : 0;
    p->n_jobs = n_jobs;
    p->shape = shape_of(s, p->jobs, n_jobs);
    p->took_ns = llround(true_cost(s, p->shape) * exp(noise));
    for (int i = 0; i < n_jobs; i++) {
        struct flight *f = (struct flight *)p->jobs[i];
        assert(f->place == FLIGHT_QUEUED);
        f->place = FLIGHT_RUNNING;
        f->begun_ns = s->now_ns;
        s->out->n_expired_run += f->job.deadline_ns && f->job.deadline_ns < s->now_ns;
        s->out->tokens += f->job.n_tokens;
    }
    s->out->n_batches++;
    s->out->rows += p->shape.rows;
}

static void answer(struct sim *s, const struct flight *f) {
    const int64_t latency_ns = s->now_ns - s->trace->arrivals[f->arrival].at_ns;
    const int64_t late_ns = f->job.deadline_ns ? s->now_ns - f->job.deadline_ns : 0;
    sim_answers_add(&s->answers, f->job.n_tokens, latency_ns);
    s->out->n_good += latency_ns <= s->good_ns;
    s->out->n_late += late_ns > 0;
    if (late_ns > s->out->max_over_deadline_ns) {
        s->out->max_over_deadline_ns = late_ns;
    }
}

/* What a job had of its pass: its share of the rows and squares, each priced. */
static int64_t share_of(const struct sim *s, const struct pass *p, const struct job *job) {
    const double own = true_cost(s, shape_of(s, (struct job *const[]){(struct job *)job}, 1));
    double all = 0;
    for (int i = 0; i < p->n_jobs; i++) {
        all += true_cost(s, shape_of(s, &p->jobs[i], 1));
    }
    return all > 0 ? (int64_t)((double)p->took_ns * own / all) : 0;
}

static void end_pass(struct sim *s, int worker, struct pass *p) {
    queues_ran(s->queues, worker, p->shape, p->took_ns, s->now_ns);
    s->out->busy_ns += p->took_ns;
    if (p->took_ns > s->out->longest_batch_ns) {
        s->out->longest_batch_ns = p->took_ns;
    }
    for (int i = 0; i < p->n_jobs; i++) {
        struct flight *f = (struct flight *)p->jobs[i];
        const bool gone = f->leaves_ns <= s->now_ns;
        const bool late = f->job.deadline_ns && f->job.deadline_ns < s->now_ns;
        if (gone || late) {
            s->out->wasted_ns += share_of(s, p, &f->job);
        }
        if (!gone) {
            answer(s, f);
        }
        release(s, f, gone ? STATUS_CANCELLED : STATUS_OK);
    }
    p->n_jobs = 0;
}

/* The next place at which this worker's pass may be left; it goes on in `pause_ns`. */
static void schedule_border(struct sim *s, int worker, int64_t pause_ns) {
    const struct worker *w = &s->workers[worker];
    const bool steps = s->cfg->queues.policy.interrupt && s->cfg->n_layers > 1 && !s->dp;
    const int n_layers = steps ? s->cfg->n_layers : 1;
    const int64_t took_ns = w->outer.took_ns; // whole ns: the layers' ends add up to it
    const int64_t step_ns = took_ns * (w->layer + 1) / n_layers - took_ns * w->layer / n_layers;
    schedule(s, EVENT_BORDER, worker, 0, s->now_ns + pause_ns + step_ns);
}

static int choose(struct sim *s, int worker) {
    if (s->dp) {
        return dp_choose(s->dp, s->workers[worker].outer.jobs, s->max_chosen);
    }
    const struct decision d = queues_choose(s->queues, worker, s->n_idle - 1, s->now_ns, false,
                                            s->workers[worker].outer.jobs, s->max_chosen);
    if (d.kind == DECIDE_WAIT && d.wake_ns < s->wake_ns) {
        s->wake_ns = d.wake_ns > s->now_ns ? d.wake_ns : s->now_ns + 1;
        schedule(s, EVENT_WAKE, 0, 0, s->wake_ns);
    }
    return d.kind == DECIDE_RUN ? d.n_jobs : 0;
}

static void feed_workers(struct sim *s) {
    for (int i = 0; s->n_idle > 0 && i < s->cfg->queues.n_workers; i++) {
        struct worker *w = &s->workers[i];
        if (w->busy) {
            continue;
        }
        expire(s);
        const int n = choose(s, i);
        if (n == 0) {
            return;
        }
        begin_pass(s, &w->outer, n);
        w->busy = true;
        w->layer = 0;
        s->n_idle--;
        schedule_border(s, i, 0);
    }
}

/* Events */

static void on_border(struct sim *s, int worker) {
    struct worker *w = &s->workers[worker];
    const bool steps = s->cfg->queues.policy.interrupt && !s->dp;
    const int n_layers = s->cfg->n_layers > 1 ? s->cfg->n_layers : 1;
    w->layer++;
    if (!steps || w->layer == n_layers) {
        end_pass(s, worker, &w->outer);
        schedule(s, EVENT_FREE, worker, 0, s->now_ns + s->cfg->overhead_ns);
        return;
    }
    expire(s);
    const struct decision d = queues_interrupt(s->queues, worker, n_layers - w->layer, n_layers,
                                               s->now_ns, w->inner.jobs, s->max_chosen);
    if (d.kind != DECIDE_RUN) {
        schedule_border(s, worker, 0);
        return;
    }
    begin_pass(s, &w->inner, d.n_jobs);
    s->out->n_interruptions++;
    schedule(s, EVENT_INNER, worker, 0, s->now_ns + w->inner.took_ns);
}

static void on_notice(struct sim *s, const struct event *e) {
    struct flight *f = &s->flights[e->subject];
    if (f->arrival != e->arrival || f->place != FLIGHT_QUEUED) {
        return; // answered, or its pass runs
    }
    const bool removed = s->dp ? dp_remove(s->dp, &f->job) : queues_remove(s->queues, &f->job);
    assert(removed);
    (void)removed;
    release(s, f, STATUS_CANCELLED);
}

static void on_event(struct sim *s, const struct event *e) {
    switch ((enum event_kind)e->kind) {
    case EVENT_BORDER: on_border(s, e->subject); break;
    case EVENT_INNER:
        end_pass(s, e->subject, &s->workers[e->subject].inner);
        schedule_border(s, e->subject, s->cfg->overhead_ns);
        break;
    case EVENT_FREE:
        s->workers[e->subject].busy = false;
        s->n_idle++;
        break;
    case EVENT_WAKE: s->wake_ns = INT64_MAX; break;
    case EVENT_NOTICE: on_notice(s, e); break;
    case EVENT_DEADLINE: expire(s); break;
    }
}

static bool admit(struct sim *s, struct job *job, enum status *why) {
    if (s->dp) {
        *why = dp_admit(s->dp) ? STATUS_OK : STATUS_OVERLOADED;
        return *why == STATUS_OK;
    }
    *why = queues_admit(s->queues, &job, 1, s->now_ns).status;
    return *why == STATUS_OK;
}

static void push(struct sim *s, struct flight *f) {
    if (s->dp) {
        f->job.queued_ns = s->now_ns;
        dp_push(s->dp, &f->job);
    } else {
        queues_push(s->queues, &f->job, s->now_ns);
    }
    f->place = FLIGHT_QUEUED;
}

/* When the client gives up, drawn for every arrival so that policies meet the same clients. */
static int64_t draw_patience(struct sim *s) {
    const double share = s->cfg->hang_up_share;
    if (share <= 0) {
        return INT64_MAX;
    }
    const bool leaves = random_unit(&s->clients) <= share;
    const double wait = random_exponential(&s->clients) * (double)s->cfg->hang_up_ns;
    return leaves ? s->now_ns + (int64_t)wait : INT64_MAX;
}

static void on_arrival(struct sim *s, int arrival) {
    const struct arrival *a = &s->trace->arrivals[arrival];
    const int64_t leaves_ns = draw_patience(s);
    const int64_t allowed_ns = a->deadline_ns ? a->deadline_ns : s->cfg->timeout_ns;
    assert(s->first_free >= 0);
    struct flight *f = &s->flights[s->first_free];
    f->job = (struct job){.n_tokens = a->n_tokens,
                          .priority = a->priority,
                          .key = a->key < s->cfg->queues.policy.n_keys ? a->key : 0,
                          .deadline_ns = allowed_ns ? s->now_ns + allowed_ns : 0,
                          .wants_deadline = a->deadline_ns != 0};
    enum status why;
    if (!admit(s, &f->job, &why)) {
        report_end(s, arrival, why, 0);
        return;
    }
    s->first_free = f->next_free;
    f->arrival = arrival;
    f->leaves_ns = leaves_ns;
    f->begun_ns = 0;
    push(s, f);
    if (leaves_ns != INT64_MAX) {
        schedule(s, EVENT_NOTICE, (int)(f - s->flights), arrival, leaves_ns + SIM_NOTICE_NS);
    }
    if (allowed_ns) {
        schedule(s, EVENT_DEADLINE, 0, 0, f->job.deadline_ns + 1);
    }
}

/* One step of the clock; false: nothing is to come. Of one instant, events go before arrivals. */
static bool step(struct sim *s, int *next) {
    const bool more = *next < s->trace->n;
    const int64_t arrives_ns = more ? s->trace->arrivals[*next].at_ns : INT64_MAX;
    if (s->events.n > 0 && s->events.events[0].at_ns <= arrives_ns) {
        struct event e;
        event_heap_pop(&s->events, &e);
        s->now_ns = e.at_ns;
        on_event(s, &e);
    } else if (more) {
        s->now_ns = arrives_ns;
        on_arrival(s, (*next)++);
    } else {
        return false;
    }
    /* What comes at the same instant is seen together. */
    const int64_t then_ns = *next < s->trace->n ? s->trace->arrivals[*next].at_ns : INT64_MAX;
    if (then_ns > s->now_ns && s->n_idle > 0) {
        feed_workers(s);
    }
    return true;
}

/* Making and ending */

static void make_flights(struct sim *s) {
    const struct queues_config *q = &s->cfg->queues;
    s->max_chosen = 1;
    for (int i = 0; i < q->policy.n_buckets; i++) {
        const int jobs = q->policy.buckets[i].max_batch_requests;
        s->max_chosen = jobs > s->max_chosen ? jobs : s->max_chosen;
    }
    s->max_chosen = s->max_chosen < q->max_queued_jobs ? s->max_chosen : q->max_queued_jobs;
    s->n_flights = q->max_queued_jobs + 2 * q->n_workers * s->max_chosen + 1;
    s->flights = xcalloc((size_t)s->n_flights, sizeof(*s->flights));
    for (int i = 0; i < s->n_flights; i++) {
        s->flights[i].arrival = -1;
        s->flights[i].next_free = i + 1 < s->n_flights ? i + 1 : -1;
    }
    s->workers = xcalloc((size_t)q->n_workers, sizeof(*s->workers));
    for (int i = 0; i < q->n_workers; i++) {
        s->workers[i].outer.jobs = xcalloc((size_t)s->max_chosen, sizeof(struct job *));
        s->workers[i].inner.jobs = xcalloc((size_t)s->max_chosen, sizeof(struct job *));
    }
    s->n_idle = q->n_workers;
}

static void finish(struct sim *s) {
    for (int i = 0; s->workers && i < s->cfg->queues.n_workers; i++) {
        free(s->workers[i].outer.jobs);
        free(s->workers[i].inner.jobs);
    }
    free(s->workers);
    free(s->flights);
    event_heap_finish(&s->events);
    sim_answers_finish(&s->answers);
    dp_destroy(s->dp);
    queues_destroy(s->queues);
}

enum status simulate(struct sim_result *out, const struct sim_config *cfg,
                     const struct trace *trace, const int *class_up_to, int n_classes,
                     int64_t good_ns, struct error *err) {
    struct sim s = {
        .cfg = cfg, .trace = trace, .out = out, .good_ns = good_ns, .wake_ns = INT64_MAX};
    const enum status status = queues_create(&s.queues, &cfg->queues, err);
    if (status) {
        return status;
    }
    *out = (struct sim_result){.n_arrived = trace->n};
    cost_set(queues_cost(s.queues), cfg->coef);
    if (cfg->kind == SIM_DP) {
        s.dp = dp_create(&cfg->queues, cfg->coef);
    }
    make_flights(&s);
    sim_answers_init(&s.answers, trace->n);
    random_seed(&s.passes, cfg->seed);
    random_seed(&s.clients, ~cfg->seed);
    for (int next = 0; step(&s, &next);) {
    }
    out->padding_ratio = out->rows > 0 ? 1 - (double)out->tokens / (double)out->rows : 0;
    sim_answers_report(&s.answers, out, class_up_to, n_classes);
    finish(&s);
    return STATUS_OK;
}

enum status sim_capacity(double *per_s, const struct sim_config *cfg, const struct lengths *lengths,
                         int n, struct error *err) {
    struct sim_config all_at_once = *cfg;
    struct sim_result r;
    struct trace t = {0};
    trace_generate(&t, ARRIVE_CONSTANT, 1e9, n, lengths, cfg->seed);
    for (int i = 0; i < t.n; i++) {
        t.arrivals[i].at_ns = 0;
    }
    all_at_once.queues.max_queued_jobs = n;
    all_at_once.queues.max_queued_tokens = INT64_MAX / 2;
    all_at_once.hang_up_share = 0;
    all_at_once.timeout_ns = 0;
    all_at_once.on_end = NULL;
    const enum status s = simulate(&r, &all_at_once, &t, NULL, 0, 0, err);
    trace_finish(&t);
    if (!s) {
        *per_s = (double)r.n_done * 1e9 / (double)r.end_ns;
    }
    return s;
}
