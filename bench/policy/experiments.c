/* experiments.c - loads, policies and the figures that are held against each other.
 * Both sides of a ratio play the same trace with the same noise. FIFO is the same code with rank
 * cost factor 0, no time budget and no interruptions; "packed FIFO" has our caps in rows, "padded
 * FIFO" is the setting that stands for servers without buckets: 32 jobs, 5 ms wait. Capacity is
 * what FIFO does when there is always work. */
#include "bench/policy/experiments.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/timing.h"

enum { SHORT_TOKENS = 8, LONG_TOKENS = 512, SHORTEST = 3, CAPACITY_JOBS = 20000, CLOSED_LOOP = 32 };
static const int mixed_classes[] = {32, 255, 512};
enum { CLASS_SHORT, CLASS_MIDDLE, CLASS_LONG, N_MIXED_CLASSES };

const struct experiment experiments[N_EXPERIMENTS] = {
    {"beside", "8-token texts at 20/s beside 512-token texts at 80 % load", experiment_beside},
    {"mixed", "the mixed load, Poisson, against packed FIFO", experiment_mixed},
    {"padded", "the mixed load against padded FIFO", experiment_padded},
    {"overload", "the mixed load, 60 s of three times the capacity", experiment_overload},
    {"hang-ups", "the mixed load, half of the clients hang up", experiment_hang_ups},
};

bool finding_holds(const struct finding *f) {
    return f->at_least ? f->figure >= f->bound : f->figure <= f->bound;
}

static struct finding *add(struct findings *out, double figure, double bound, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
static struct finding *add(struct findings *out, double figure, double bound, const char *fmt,
                           ...) {
    struct finding *f = &out->rows[out->n++];
    va_list args;
    *f = (struct finding){.figure = figure, .bound = bound};
    va_start(args, fmt);
    vsnprintf(f->name, sizeof(f->name), fmt, args);
    va_end(args);
    return f;
}

/* Policies */

static struct sim_config config_of(const struct setup *s) {
    struct sim_config c = {.kind = SIM_QUEUES,
                           .queues = s->ours,
                           .noise = s->noise,
                           .n_layers = s->n_layers,
                           .overhead_ns = s->overhead_ns,
                           .seed = s->seed};
    for (int i = 0; i < COST_TERMS; i++) {
        c.coef[i] = s->coef[i];
    }
    c.queues.policy.interrupt = false;
    c.queues.max_queued_jobs = 100000; // steady loads are not to be refused
    c.queues.max_queued_tokens = INT64_C(1) << 40;
    return c;
}

static struct sim_config ours(const struct setup *s, bool interrupt) {
    struct sim_config c = config_of(s);
    c.queues.policy.interrupt = interrupt;
    return c;
}

static struct sim_config packed_fifo(const struct setup *s) {
    struct sim_config c = config_of(s);
    c.queues.policy.rank_cost_factor = 0;
    c.queues.policy.max_batch_ns = 0;
    return c;
}

static struct sim_config padded_fifo(const struct setup *s) {
    struct sim_config c = packed_fifo(s);
    struct policy_config *p = &c.queues.policy;
    p->mode = BATCH_PADDED;
    p->n_buckets = 1;
    p->buckets[0] = (struct bucket_limits){.up_to = c.queues.max_seq_len,
                                           .max_batch_tokens = 32 * c.queues.max_seq_len,
                                           .max_batch_requests = 32,
                                           .max_wait_ns = 5 * NS_PER_MS};
    return c;
}

static enum status mixed_lengths(struct lengths *out, const struct setup *s, struct error *err) {
    return lengths_named(out, "mixed", SHORTEST, s->ours.max_seq_len, err);
}

static double alone_ms(const struct setup *s, double tokens) {
    return (s->coef[0] + s->coef[1] * tokens + s->coef[2] * tokens * tokens) / 1e6;
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

/* Short beside long */

static enum status beside_trace(struct trace *out, const struct setup *s, bool deadlines,
                                struct error *err) {
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    struct trace shorts = {0};
    const double rate = 0.8 * 1e3 / alone_ms(s, LONG_TOKENS), seconds = 4000 * s->length;
    enum status status = lengths_named(lengths, "fixed:512", 1, s->ours.max_seq_len, err);
    if (!status) {
        trace_generate(out, ARRIVE_POISSON, rate, (int)(rate * seconds), lengths, s->seed);
        status = lengths_named(lengths, "fixed:8", 1, s->ours.max_seq_len, err);
    }
    if (!status) {
        trace_generate(&shorts, ARRIVE_POISSON, 20, (int)(20 * seconds), lengths, s->seed + 1);
        trace_merge(out, &shorts);
    }
    for (int i = 0; deadlines && i < out->n; i++) {
        const bool is_short = out->arrivals[i].n_tokens == SHORT_TOKENS;
        out->arrivals[i].deadline_ns = (is_short ? 200 : 1000) * NS_PER_MS;
    }
    trace_finish(&shorts);
    free(lengths);
    return status;
}

static enum status run_beside(struct sim_result r[3], const struct setup *s, const struct trace *t,
                              struct error *err) {
    static const int classes[] = {SHORT_TOKENS, LONG_TOKENS};
    const struct sim_config configs[] = {packed_fifo(s), ours(s, false), ours(s, true)};
    enum status status = STATUS_OK;
    for (int i = 0; i < 3 && !status; i++) {
        status = simulate(&r[i], &configs[i], t, classes, 2, NS_PER_S, err);
    }
    return status;
}

enum status experiment_beside(struct findings *out, const struct setup *s, struct error *err) {
    struct sim_result r[3];
    struct trace t = {0};
    const double longest = alone_ms(s, LONG_TOKENS), own = alone_ms(s, SHORT_TOKENS);
    enum status status = beside_trace(&t, s, false, err);
    if (!status) {
        status = run_beside(r, s, &t, err);
    }
    trace_finish(&t);
    if (status) {
        return status;
    }
    const double fifo_long = ms(r[0].classes[1].p99_ns);
    add(out, ms(r[1].classes[0].p99_ns) / (longest + own), 2,
        "short p99 / (longest batch + own time)")
        ->context = longest + own;
    add(out, ms(r[1].classes[1].p99_ns) / fifo_long, 1.2, "long p99 / FIFO's")->context = fifo_long;
    add(out, ms(r[2].classes[0].p99_ns) / longest, 0.5, "interrupting: short p99 / longest batch")
        ->context = longest;
    add(out, ms(r[2].classes[1].p99_ns) / fifo_long, 1.2, "interrupting: long p99 / FIFO's")
        ->context = fifo_long;
    status = beside_trace(&t, s, true, err);
    if (!status) {
        status = run_beside(r, s, &t, err);
    }
    trace_finish(&t);
    if (!status) {
        add(out, ms(r[1].max_over_deadline_ns) / ms(r[1].longest_batch_ns), 1,
            "with deadlines: the latest answer after its deadline / longest batch")
            ->context = ms(r[1].longest_batch_ns);
        add(out, (double)r[1].n_expired_run, 0, "with deadlines: jobs begun after theirs");
    }
    return status;
}

/* Mixed, packed */

struct pair {
    struct sim_result fifo, ours, interrupting;
};

static enum status run_pair(struct pair *out, const struct setup *s, const struct lengths *l,
                            double rate, struct error *err) {
    struct trace t = {0};
    const struct sim_config fifo = packed_fifo(s), plain = ours(s, false), inter = ours(s, true);
    trace_generate(&t, ARRIVE_POISSON, rate, (int)(200000 * s->length), l, s->seed);
    enum status status =
        simulate(&out->fifo, &fifo, &t, mixed_classes, N_MIXED_CLASSES, NS_PER_S, err);
    if (!status) {
        status = simulate(&out->ours, &plain, &t, mixed_classes, N_MIXED_CLASSES, NS_PER_S, err);
    }
    if (!status) {
        status =
            simulate(&out->interrupting, &inter, &t, mixed_classes, N_MIXED_CLASSES, NS_PER_S, err);
    }
    trace_finish(&t);
    return status;
}

static void add_ratio(struct findings *out, const struct sim_class *a, const struct sim_class *b,
                      double bound, const char *what, int percent) {
    add(out, ms(a->p99_ns) / ms(b->p99_ns), bound, "%d %%: %s / packed FIFO's", percent, what)
        ->context = ms(b->p99_ns);
}

static void add_mixed(struct findings *out, const struct pair *p, int percent) {
    add_ratio(out, &p->ours.all, &p->fifo.all, 1, "overall p99", percent);
    add_ratio(out, &p->interrupting.all, &p->fifo.all, 1, "interrupting: overall p99", percent);
    if (percent == 80) {
        const struct sim_class *fifo = p->fifo.classes;
        add_ratio(out, &p->ours.classes[CLASS_SHORT], &fifo[CLASS_SHORT], 0.55,
                  "p99 of <= 32 tokens", percent);
        add_ratio(out, &p->ours.classes[CLASS_LONG], &fifo[CLASS_LONG], 2, "p99 of >= 256 tokens",
                  percent);
        add_ratio(out, &p->interrupting.classes[CLASS_SHORT], &fifo[CLASS_SHORT], 0.35,
                  "interrupting: p99 of <= 32 tokens", percent);
        add_ratio(out, &p->interrupting.classes[CLASS_LONG], &fifo[CLASS_LONG], 2,
                  "interrupting: p99 of >= 256 tokens", percent);
    }
}

enum status experiment_mixed(struct findings *out, const struct setup *s, struct error *err) {
    static const int percents[] = {10, 50, 80, 90, 95};
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    const struct sim_config fifo = packed_fifo(s);
    double capacity = 0;
    enum status status = mixed_lengths(lengths, s, err);
    if (!status) {
        status = sim_capacity(&capacity, &fifo, lengths, CAPACITY_JOBS, err);
    }
    for (size_t i = 0; i < N_ITEMS(percents) && !status; i++) {
        struct pair p;
        status = run_pair(&p, s, lengths, capacity * percents[i] / 100, err);
        if (!status) {
            add_mixed(out, &p, percents[i]);
        }
    }
    free(lengths);
    return status;
}

/* Mixed, padded */

/* The clients of the closed loop that the rate was measured with, all at once: without them it is a
 * matter of luck when a load beyond that rate tips padded FIFO over. */
static void add_closed_loop(struct trace *t) {
    struct trace all = {0};
    for (int i = 0; i < CLOSED_LOOP && i < t->n; i++) {
        struct arrival a = t->arrivals[i];
        a.at_ns = 0;
        trace_add(&all, &a);
    }
    trace_merge(&all, t);
    trace_finish(t);
    *t = all;
}

static enum status run_padded(struct findings *out, const struct setup *s,
                              const struct lengths *lengths, double capacity, double share,
                              double seconds, double bound, struct error *err) {
    const struct sim_config fifo = padded_fifo(s), mine = ours(s, false);
    struct sim_result a, b;
    struct trace t = {0};
    const double rate = share * capacity;
    trace_generate(&t, ARRIVE_POISSON, rate, (int)(rate * seconds), lengths, s->seed);
    if (share > 1) {
        add_closed_loop(&t);
    }
    enum status status = simulate(&a, &mine, &t, NULL, 0, NS_PER_S, err);
    if (!status) {
        status = simulate(&b, &fifo, &t, NULL, 0, NS_PER_S, err);
    }
    trace_finish(&t);
    if (!status) {
        add(out, ms(a.all.p99_ns) / ms(b.all.p99_ns), bound,
            "%.1f x padded FIFO's capacity: p99 / its", share)
            ->context = ms(b.all.p99_ns);
    }
    return status;
}

enum status experiment_padded(struct findings *out, const struct setup *s, struct error *err) {
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    const struct sim_config fifo = padded_fifo(s);
    double capacity = 0;
    enum status status = mixed_lengths(lengths, s, err);
    if (!status) {
        status = sim_capacity(&capacity, &fifo, lengths, CAPACITY_JOBS, err);
    }
    if (!status) {
        status = run_padded(out, s, lengths, capacity, 0.8, 2000 * s->length, 0.75, err);
    }
    if (!status) {
        status = run_padded(out, s, lengths, capacity, 1.5, 60, 1.0 / 3, err);
    }
    free(lengths);
    return status;
}

/* Overload */

enum { OVERLOAD_S = 60, AFTER_S = 20 };
struct watch { // answers by the second of their arrival
    int64_t from_ns, to_ns, recovered_ns, normal_ns;
    int64_t n_good, n_ended;
};

/* Good are answers within a second. recovered_ns: after the overload, when the last one came that
 * was refused or took longer than what is normal at the load that follows; what happens after a
 * second without such is that load's own. */
static void watch_end(void *arg, const struct sim_end *end) {
    struct watch *w = arg;
    const int64_t latency_ns = end->end_ns - end->arrival->at_ns;
    if (end->arrival->at_ns >= w->from_ns && end->arrival->at_ns < w->to_ns) {
        w->n_ended++;
        w->n_good += end->status == STATUS_OK && latency_ns <= NS_PER_S;
    }
    const bool normal = end->status == STATUS_OK && latency_ns <= w->normal_ns;
    const int64_t since_ns = end->arrival->at_ns - w->to_ns;
    if (since_ns >= 0 && !normal && since_ns < w->recovered_ns + NS_PER_S) {
        w->recovered_ns = since_ns > w->recovered_ns ? since_ns : w->recovered_ns;
    }
}

static void add_arrivals(struct trace *t, const struct lengths *l, double rate, double seconds,
                         uint64_t seed) {
    struct trace more = {0};
    const int64_t from_ns = t->n > 0 ? t->arrivals[t->n - 1].at_ns : 0;
    trace_generate(&more, ARRIVE_POISSON, rate, (int)(rate * seconds), l, seed);
    for (int i = 0; i < more.n; i++) {
        more.arrivals[i].at_ns += from_ns;
        trace_add(t, &more.arrivals[i]);
    }
    trace_finish(&more);
}

/* OVERLOAD_S seconds of `share` of the capacity, then half of it for AFTER_S. */
static enum status run_overload(struct watch *w, struct sim_result *r, const struct setup *s,
                                const struct lengths *lengths, double capacity, double share,
                                struct error *err) {
    struct sim_config mine = ours(s, false);
    struct trace t = {0};
    mine.queues.max_queued_jobs = s->ours.max_queued_jobs;
    mine.queues.max_queued_tokens = s->ours.max_queued_tokens;
    mine.timeout_ns = NS_PER_S;
    mine.on_end = watch_end;
    mine.arg = w;
    add_arrivals(&t, lengths, share * capacity, OVERLOAD_S, s->seed);
    w->to_ns = t.arrivals[t.n - 1].at_ns + 1;
    add_arrivals(&t, lengths, 0.5 * capacity, AFTER_S, s->seed + 1);
    const enum status status = simulate(r, &mine, &t, NULL, 0, NS_PER_S, err);
    trace_finish(&t);
    return status;
}

static double goodput(const struct watch *w) {
    return (double)w->n_good * 1e9 / (double)(w->to_ns - w->from_ns);
}

enum status experiment_overload(struct findings *out, const struct setup *s, struct error *err) {
    static const double shares[] = {0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2};
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    const struct sim_config fifo = packed_fifo(s);
    struct sim_result r, after;
    struct watch w = {.normal_ns = INT64_MAX};
    double capacity = 0, peak = 0;
    enum status status = mixed_lengths(lengths, s, err);
    if (!status) {
        status = sim_capacity(&capacity, &fifo, lengths, CAPACITY_JOBS, err);
    }
    for (size_t i = 0; i < N_ITEMS(shares) && !status; i++) {
        w = (struct watch){.normal_ns = INT64_MAX};
        status = run_overload(&w, &r, s, lengths, capacity, shares[i], err);
        peak = !status && goodput(&w) > peak ? goodput(&w) : peak;
        if (i == 0) {
            after = r;
        }
    }
    if (!status) {
        w = (struct watch){.normal_ns = after.all.max_ns};
        status = run_overload(&w, &r, s, lengths, capacity, 3, err);
    }
    if (!status) {
        struct finding *f = add(out, goodput(&w) / peak, 0.95, "goodput / its peak");
        f->at_least = true;
        f->context = peak;
        add(out, (double)w.recovered_ns / 1e9, 2,
            "s until no answer takes longer than the longest at half load");
        add(out, (double)r.n_expired_run, 0, "jobs begun after their deadline");
        add(out, (double)r.wasted_ns / (double)r.busy_ns, 0.1, "compute for answers too late");
    }
    free(lengths);
    return status;
}

/* Hang-ups */

enum status experiment_hang_ups(struct findings *out, const struct setup *s, struct error *err) {
    static const double shares[] = {0.8, 2};
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    const struct sim_config fifo = packed_fifo(s);
    double capacity = 0;
    enum status status = mixed_lengths(lengths, s, err);
    if (!status) {
        status = sim_capacity(&capacity, &fifo, lengths, CAPACITY_JOBS, err);
    }
    for (size_t i = 0; i < N_ITEMS(shares) && !status; i++) {
        struct sim_config mine = ours(s, false);
        struct sim_result r;
        struct trace t = {0};
        mine.hang_up_share = 0.5;
        mine.hang_up_ns = NS_PER_S;
        mine.queues.max_queued_jobs = s->ours.max_queued_jobs;
        mine.queues.max_queued_tokens = s->ours.max_queued_tokens;
        trace_generate(&t, ARRIVE_POISSON, shares[i] * capacity, (int)(50000 * s->length), lengths,
                       s->seed);
        status = simulate(&r, &mine, &t, NULL, 0, NS_PER_S, err);
        trace_finish(&t);
        if (!status) {
            add(out, (double)r.wasted_ns / (double)r.busy_ns, 0.05,
                "%.1f x capacity: compute for clients that had gone", shares[i])
                ->context = (double)r.n_cancelled / (double)r.n_arrived;
        }
    }
    free(lengths);
    return status;
}
