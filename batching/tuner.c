/* tuner.c - the search for a configuration, by simulation.
 * A configuration is a point of six coordinates, each with a short list of values that are worth
 * telling apart. The search goes along one coordinate at a time, keeps the best value, and ends
 * when a round changes nothing: some tens of trials, each two simulations (the trace as it is, for
 * waits; arrivals without end, for capacity), all with the same arrivals and the same noise, so
 * that small differences count. What is tried twice is looked up. Bounds come from tuner_bounds():
 * the simulation decides how many. */
#include "batching/tuner.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"

enum coordinate { BUCKETS, TOKENS, REQUESTS, BATCH_MS, WAIT_MS, RANK, N_COORDINATES };
enum { MAX_VALUES = 12, MAX_ROUNDS = 4, FULL_HOUSE = 128, LEAST_JOBS = 3000, MOST_JOBS = 15000 };
/* Less than this share of capacity or of waits counts as none, and of refusals likewise. Waits are
 * of the same arrivals and the same noise, so less of them is told apart. */
#define WORTH 0.01
#define WORTH_OF_WAITS 0.004
#define MAX_LOSS_DIFFERENCE 0.005

struct values {
    int n;
    double v[MAX_VALUES];
};
static const struct values lists[N_COORDINATES] = {
    [BUCKETS] = {10, {1, 2, 3, 4, 5, 6, 8, 10, 12, 16}},
    [TOKENS] = {10, {64, 128, 256, 384, 512, 768, 1024, 2048, 4096, 8192}},
    [REQUESTS] = {7, {4, 8, 16, 32, 64, 128, 256}},
    [BATCH_MS] = {8, {0, 5, 10, 15, 25, 40, 60, 100}},
    [WAIT_MS] = {6, {0, 1, 2, 5, 10, 20}},
    [RANK] = {6, {0, 1, 2, 3, 5, 8}},
};
struct point {
    double at[N_COORDINATES];
};
struct search {
    const struct sim_config *base;
    const struct tune_goal *goal;
    const int *class_up_to;
    int n_classes;
    struct trace stretch;    // borrowed from the caller's trace
    struct trace flood;      // owned: more than any configuration can take
    struct lengths *lengths; // owned
    bool moves_bounds;
    struct tune_report *report;
    struct point points[TUNE_MAX_ROWS]; // of the report's rows
};

/* The largest cap stands for all buckets: what was set apart by hand is row 0. */
static struct point point_of(const struct policy_config *p) {
    struct point at = {.at = {[BUCKETS] = p->n_buckets,
                              [BATCH_MS] = (double)p->max_batch_ns / NS_PER_MS,
                              [RANK] = p->rank_cost_factor}};
    for (int i = 0; i < p->n_buckets; i++) {
        const struct bucket_limits *b = &p->buckets[i];
        at.at[TOKENS] = fmax(at.at[TOKENS], b->max_batch_tokens);
        at.at[REQUESTS] = fmax(at.at[REQUESTS], b->max_batch_requests);
        at.at[WAIT_MS] = fmax(at.at[WAIT_MS], (double)b->max_wait_ns / NS_PER_MS);
    }
    return at;
}
static void policy_at(struct policy_config *out, const struct search *s, const struct point *p) {
    int bounds[POLICY_MAX_BUCKETS];
    double cost;
    *out = s->base->queues.policy;
    if (s->moves_bounds) {
        out->n_buckets = tuner_bounds(bounds, (int)p->at[BUCKETS], s->lengths,
                                      s->base->queues.max_seq_len, s->base->coef, &cost);
    }
    for (int i = 0; i < out->n_buckets; i++) {
        out->buckets[i] = (struct bucket_limits){
            .up_to = s->moves_bounds ? bounds[i] : out->buckets[i].up_to,
            .max_batch_tokens = (int)p->at[TOKENS],
            .max_batch_requests = (int)p->at[REQUESTS],
            .max_wait_ns = llround(p->at[WAIT_MS] * NS_PER_MS),
        };
    }
    out->max_batch_ns = llround(p->at[BATCH_MS] * NS_PER_MS);
    out->rank_cost_factor = p->at[RANK];
}

/* Arrivals faster than work without padding or overhead could be done. */
static void make_flood(struct trace *out, const struct sim_config *cfg,
                       const struct lengths *lengths, int n_arrivals) {
    const int n_jobs = n_arrivals < LEAST_JOBS  ? LEAST_JOBS
                       : n_arrivals < MOST_JOBS ? n_arrivals
                                                : MOST_JOBS;
    double jobs = 0, ns = 0;
    for (int len = 1; len <= TRACE_MAX_TOKENS; len++) {
        const double n = (double)lengths->count[len];
        jobs += n;
        ns += n * (cfg->coef[1] * len + cfg->coef[2] * len * (double)len);
    }
    const double each_ns = fmax(ns / jobs, 1);
    trace_generate(out, ARRIVE_CONSTANT, 1.1 * NS_PER_S / each_ns * cfg->queues.n_workers, n_jobs,
                   lengths, cfg->seed);
}
/* The flood is refused but for FULL_HOUSE waiting jobs. */
static enum status drown(double *per_s, const struct sim_config *cfg, const struct trace *flood,
                         struct error *err) {
    struct sim_config full = *cfg;
    struct sim_result r;
    full.queues.max_queued_jobs = FULL_HOUSE;
    full.queues.max_queued_tokens = INT64_MAX / 2;
    full.hang_up_share = 0;
    full.timeout_ns = 0;
    full.on_end = NULL;
    const enum status status = simulate(&r, &full, flood, NULL, 0, 0, err);
    if (!status) {
        *per_s = r.end_ns > 0 ? (double)r.n_done * NS_PER_S / (double)r.end_ns : 0;
    }
    return status;
}
enum status tuner_capacity(double *per_s, const struct sim_config *cfg,
                           const struct lengths *lengths, int n_arrivals, struct error *err) {
    struct trace flood = {.n = 0};
    make_flood(&flood, cfg, lengths, n_arrivals);
    const enum status status = drown(per_s, cfg, &flood, err);
    trace_finish(&flood);
    return status;
}

static enum status try_policy(struct search *s, const struct policy_config *policy,
                              const struct point *point, struct error *err) {
    struct tune_report *report = s->report;
    struct tune_row *row = &report->rows[report->n_rows];
    struct sim_config cfg = *s->base;
    cfg.queues.policy = *policy;
    row->policy = *policy;
    enum status status = simulate(&row->at_load, &cfg, &s->stretch, s->class_up_to, s->n_classes,
                                  s->goal->p99_ns ? s->goal->p99_ns : INT64_MAX, err);
    if (!status) {
        status = drown(&row->capacity, &cfg, &s->flood, err);
    }
    if (!status) {
        row->holds =
            !s->goal->p99_ns || row->at_load.n_good * 100 >= (int64_t)99 * row->at_load.n_arrived;
        s->points[report->n_rows++] = *point;
    }
    return status;
}

static double loss(const struct tune_row *r) {
    return (double)(r->at_load.n_refused + r->at_load.n_expired) / r->at_load.n_arrived;
}
/* The tail and the mean: a wait that everybody pays buys next to nothing in a p99 that is made of
 * long texts, and the p99 of some thousand arrivals is noisy by itself. */
static double waits(const struct tune_row *r) {
    return (double)r->at_load.all.p99_ns + (double)r->at_load.all.mean_ns;
}
static bool waits_less(const struct tune_row *a, const struct tune_row *b) {
    const double less = loss(b) - loss(a);
    if (fabs(less) > MAX_LOSS_DIFFERENCE) {
        return less > 0;
    }
    return waits(a) < (1 - WORTH_OF_WAITS) * waits(b);
}
/* `b` was there first: what is about as good does not take its place. So values that come first in
 * the lists, fewer buckets and shorter waits, win over noise. */
static bool is_better(const struct tune_row *a, const struct tune_row *b) {
    if (a->holds != b->holds) {
        return a->holds;
    }
    const bool differ = fabs(a->capacity - b->capacity) > WORTH * b->capacity;
    return a->holds && differ ? a->capacity > b->capacity : waits_less(a, b);
}

/* Whoever takes the place of the configuration in force has to be better at something promised. */
static bool is_gain(const struct tune_row *row, const struct tune_row *in_force) {
    return row->holds > in_force->holds || loss(row) < loss(in_force) ||
           row->at_load.all.p99_ns < in_force->at_load.all.p99_ns ||
           row->capacity > (1 + WORTH) * in_force->capacity;
}

static int find_point(const struct search *s, const struct point *p) {
    for (int i = 1; i < s->report->n_rows; i++) { // row 0 may have caps of its own
        if (!memcmp(&s->points[i], p, sizeof(*p))) {
            return i;
        }
    }
    return -1;
}
static bool is_over(struct search *s) {
    const bool late = s->goal->until_ns && time_now_ns() >= s->goal->until_ns;
    const bool full = s->report->n_rows == TUNE_MAX_ROWS;
    s->report->cut_short = s->report->cut_short || late;
    return late || full;
}
/* Tries `p` unless it was; the best row so far and its point are kept up. */
static enum status try_point(struct search *s, const struct point *p, struct point *best,
                             struct error *err) {
    struct policy_config policy;
    if (find_point(s, p) >= 0) {
        return STATUS_OK;
    }
    policy_at(&policy, s, p);
    const enum status status = try_policy(s, &policy, p, err);
    if (status) {
        return status;
    }
    const int last = s->report->n_rows - 1;
    const struct tune_row *row = &s->report->rows[last];
    if (is_gain(row, &s->report->rows[0]) && is_better(row, &s->report->rows[s->report->best])) {
        s->report->best = last;
        *best = *p;
    }
    return STATUS_OK;
}
static enum status go_along(struct search *s, enum coordinate c, struct point *best,
                            struct error *err) {
    struct point p = *best;
    for (int i = 0; i < lists[c].n && !is_over(s); i++) {
        p.at[c] = lists[c].v[i];
        const enum status status = try_point(s, &p, best, err);
        if (status) {
            return status;
        }
    }
    return STATUS_OK;
}
static enum status go_around(struct search *s, struct error *err) {
    struct point best = point_of(&s->base->queues.policy);
    enum status status = try_policy(s, &s->base->queues.policy, &best, err);
    if (!status && !is_over(s)) {
        status = try_point(s, &best, &best, err); // with bounds and caps of the search's kind
    }
    int before = -1;
    for (int round = 0; round < MAX_ROUNDS && before != s->report->best && !status; round++) {
        before = s->report->best;
        for (int c = s->moves_bounds ? BUCKETS : TOKENS; c < N_COORDINATES && !status; c++) {
            status = go_along(s, (enum coordinate)c, &best, err);
        }
    }
    return status;
}

/* The window of TUNE_MAX_ARRIVALS that took the least time. */
static struct trace busiest(const struct trace *t) {
    const int n = t->n < TUNE_MAX_ARRIVALS ? t->n : TUNE_MAX_ARRIVALS;
    int first = 0;
    for (int i = 1; i + n <= t->n; i++) {
        const int64_t span = t->arrivals[i + n - 1].at_ns - t->arrivals[i].at_ns;
        first = span < t->arrivals[first + n - 1].at_ns - t->arrivals[first].at_ns ? i : first;
    }
    return (struct trace){.arrivals = t->arrivals + first, .n = n, .capacity = n};
}
static double rate_of(const struct trace *t) {
    const int64_t span = t->arrivals[t->n - 1].at_ns - t->arrivals[0].at_ns;
    return span > 0 ? (double)(t->n - 1) * NS_PER_S / (double)span : 0;
}
static enum status check(const struct sim_config *base, const struct trace *trace,
                         struct error *err) {
    if (trace->n < 1) {
        return error_set(err, STATUS_INVALID, "the trace has no arrivals: nothing to tune for");
    }
    if (base->queues.policy.mode == BATCH_NONE) {
        return error_set(err, STATUS_INVALID,
                         "mode none has nothing to tune: it runs one job a pass");
    }
    for (int i = 0; i < trace->n; i++) {
        if (trace->arrivals[i].n_tokens > base->queues.max_seq_len) {
            return error_set(err, STATUS_INVALID,
                             "arrival %d has %d tokens, but the longest input is %d", i + 1,
                             trace->arrivals[i].n_tokens, base->queues.max_seq_len);
        }
    }
    return STATUS_OK;
}
enum status tuner_run(struct tune_report *out, const struct sim_config *base,
                      const struct trace *trace, const struct tune_goal *goal,
                      const int *class_up_to, int n_classes, struct error *err) {
    enum status status = check(base, trace, err);
    if (status) {
        return status;
    }
    struct search *s = xcalloc(1, sizeof(*s));
    *s = (struct search){.base = base,
                         .goal = goal,
                         .class_up_to = class_up_to,
                         .n_classes = n_classes,
                         .stretch = busiest(trace),
                         .moves_bounds = base->queues.policy.mode == BATCH_BUCKETED,
                         .report = out};
    s->lengths = xcalloc(1, sizeof(*s->lengths));
    lengths_of_trace(s->lengths, &s->stretch);
    make_flood(&s->flood, base, s->lengths, s->stretch.n);
    *out = (struct tune_report){.rows = xcalloc(TUNE_MAX_ROWS, sizeof(*out->rows)),
                                .n_arrivals = s->stretch.n,
                                .load = rate_of(&s->stretch)};
    status = go_around(s, err);
    if (status) {
        tune_report_finish(out);
    }
    trace_finish(&s->flood);
    free(s->lengths);
    free(s);
    return status;
}
void tune_report_finish(struct tune_report *r) {
    free(r->rows);
    *r = (struct tune_report){.n_rows = 0};
}

static bool is_beaten(const struct tune_report *r, int i) {
    const struct tune_row *a = &r->rows[i];
    for (int j = 0; j < r->n_rows; j++) {
        const struct tune_row *b = &r->rows[j];
        const bool no_worse = b->at_load.all.p99_ns <= a->at_load.all.p99_ns &&
                              b->capacity >= a->capacity && loss(b) <= loss(a);
        const bool better = b->at_load.all.p99_ns < a->at_load.all.p99_ns ||
                            b->capacity > a->capacity || loss(b) < loss(a);
        if (no_worse && (better || j < i)) { // of equals the first stands for all
            return true;
        }
    }
    return false;
}
static int by_p99(const void *a, const void *b, void *report) {
    const struct tune_report *r = report;
    const int i = *(const int *)a, j = *(const int *)b;
    const int64_t p = r->rows[i].at_load.all.p99_ns, q = r->rows[j].at_load.all.p99_ns;
    return p != q ? (p > q) - (p < q) : i - j;
}
/* Leaves out what differs from the one before it by next to nothing. */
static int thin(const struct tune_report *r, int *front, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        const struct tune_row *a = &r->rows[front[kept > 0 ? kept - 1 : 0]];
        const struct tune_row *b = &r->rows[front[i]];
        const bool alike =
            (double)b->at_load.all.p99_ns <= (1 + WORTH) * (double)a->at_load.all.p99_ns &&
            b->capacity <= (1 + WORTH) * a->capacity;
        if (i == 0 || !alike) {
            front[kept++] = front[i];
        }
    }
    return kept;
}
int tune_report_front(const struct tune_report *r, int *rows, int max) {
    int front[TUNE_MAX_ROWS], n = 0;
    for (int i = 0; i < r->n_rows; i++) {
        if (!is_beaten(r, i)) {
            front[n++] = i;
        }
    }
    qsort_r(front, (size_t)n, sizeof(front[0]), by_p99, (void *)r);
    n = thin(r, front, n);
    const int given = n < max ? n : max;
    for (int i = 0; i < given; i++) {
        rows[i] = front[given > 1 ? i * (n - 1) / (given - 1) : 0];
    }
    return given;
}
