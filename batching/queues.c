/* queues.c - the one place where a job begins and ends to wait.
 * Each waiting job stands in three structures, all linked through the job itself: its bucket's
 * arrivals (who has waited for how long), its key's rank order (who goes first) and, with a
 * deadline, the heap of those (who has to be given up). put_in() and take_out() keep all three and
 * the sums beside them; everything else here is account of what runs. */
#include "batching/queues.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/timing.h"
#include "batching/queues_internal.h"

static const double FADING = 0.95; // of a batch's weight with each that follows
enum { HEAD_START_PARTS = 16 };
static const int64_t LONGEST_JOB_NS = 3600 * NS_PER_S; // a model that knows better is wrong

static enum status check_config(const struct queues_config *cfg, struct error *err) {
    if (cfg->max_seq_len < 1) {
        return error_set(err, STATUS_INVALID, "max_seq_len is %d, it must be at least 1",
                         cfg->max_seq_len);
    }
    if (cfg->max_queued_jobs < 1 || cfg->max_queued_tokens < 1) {
        return error_set(err, STATUS_INVALID,
                         "max_queued_jobs and max_queued_tokens must be at least 1");
    }
    if (cfg->n_workers < 1) {
        return error_set(err, STATUS_INVALID, "%d workers take batches, it must be at least 1",
                         cfg->n_workers);
    }
    return policy_config_check(&cfg->policy, cfg->max_seq_len, err);
}

/* Keys from `first` on are new: a round each. */
static void start_keys(struct queues *q, const struct policy_config *policy, int first) {
    int64_t quanta[POLICY_MAX_KEYS];
    policy_quanta(policy, quanta);
    for (int key = first; key < policy->n_keys; key++) {
        q->deficits[key] = quanta[key];
    }
}

enum status queues_create(struct queues **out, const struct queues_config *cfg, struct error *err) {
    const enum status s = check_config(cfg, err);
    if (s) {
        return s;
    }
    struct queues *q = xcalloc(1, sizeof(*q));
    q->cfg = *cfg;
    q->running = xcalloc((size_t)cfg->n_workers, sizeof(*q->running));
    q->n_workers_left = cfg->n_workers;
    due_heap_init(&q->due, cfg->max_queued_jobs);
    start_keys(q, &cfg->policy, 0);
    *out = q;
    return STATUS_OK;
}

void queues_destroy(struct queues *q) {
    if (!q) {
        return;
    }
    due_heap_finish(&q->due);
    free(q->running);
    free(q);
}

struct cost_model *queues_cost(struct queues *q) {
    return &q->cost;
}

static struct job_order *order_of(struct queues *q, const struct job *job) {
    const struct policy_config *p = &q->cfg.policy;
    return &q->orders[policy_key_of(p, job) * policy_n_orders(p) + policy_order_of(p, job->bucket)];
}

/* Everything but the heap of deadlines, which knows neither buckets nor keys. */
static void stand_in_line(struct queues *q, struct job *job) {
    job_queue_push(&q->queues[job->bucket], job);
    job_order_insert(order_of(q, job), job);
    q->n_key_jobs[policy_key_of(&q->cfg.policy, job)]++;
}

/* How far lists are: by rank, without the class of priority. */
static void note_following(struct queues *q, const struct job *job) {
    if (job->follows) {
        q->following_ns = job->rank - q->cfg.policy.priority_ns[job->priority];
    }
}

static void put_in(struct queues *q, struct job *job) {
    stand_in_line(q, job);
    if (job->start_ns != INT64_MAX) {
        due_heap_insert(&q->due, job);
    }
    if (q->n_following == 0) {
        note_following(q, job);
    }
    q->n_following += job->follows;
    q->n_jobs++;
    q->n_tokens += job->n_tokens;
    q->cost_ns += job->cost_ns;
}

static void take_out(struct queues *q, struct job *job) {
    job_queue_remove(&q->queues[job->bucket], job);
    job_order_remove(order_of(q, job), job);
    due_heap_remove(&q->due, job);
    q->n_key_jobs[policy_key_of(&q->cfg.policy, job)]--;
    q->n_following -= job->follows;
    q->n_jobs--;
    q->n_tokens -= job->n_tokens;
    q->cost_ns -= job->cost_ns;
}

static int64_t min_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* When lists came together, or the device is slower than was predicted, their jobs are served after
 * the time they are ranked at, and whoever comes then would wait for all that is late. So he is
 * ranked almost as early as what is being served; not quite, as ranks have to move on with time, a
 * sixteenth as fast, or lists would never get their turn beside a steady load of others. */
static int64_t head_start_ns(const struct queues *q, int64_t now_ns) {
    if (q->n_following == 0 || q->following_ns >= now_ns || q->cfg.policy.mode == BATCH_PADDED) {
        return 0;
    }
    const int64_t late_ns = now_ns - q->following_ns;
    return late_ns - late_ns / HEAD_START_PARTS;
}

void queues_plan(const struct queues *q, struct job *job, int64_t behind_ns, int64_t now_ns) {
    job->queued_ns = now_ns;
    job->bucket = policy_bucket_of(&q->cfg.policy, job->n_tokens);
    job->cost_ns = min_ns(cost_job_ns(&q->cost, job->n_tokens), LONGEST_JOB_NS);
    job->follows = behind_ns > 0;
    job->rank = policy_rank(&q->cfg.policy, job, behind_ns) - head_start_ns(q, now_ns);
    job->start_ns = INT64_MAX;
    if (job->deadline_ns > 0) { // nothing was ahead of it: then only the clock says it is late
        const struct cost_shape alone = {job->n_tokens, (int64_t)job->n_tokens * job->n_tokens};
        const int64_t pass_ns = queues_idle(q) ? 0 : cost_predict_ns(&q->cost, alone);
        job->start_ns = job->deadline_ns - min_ns(pass_ns, LONGEST_JOB_NS);
    }
}

static void push(struct queues *q, struct job *job, int64_t behind_ns, int64_t now_ns) {
    queues_plan(q, job, behind_ns, now_ns);
    assert(job->bucket >= 0 && q->n_jobs < q->cfg.max_queued_jobs);
    job->status = STATUS_OK;
    job->number = ++q->last_number;
    put_in(q, job);
}

void queues_push(struct queues *q, struct job *job, int64_t now_ns) {
    push(q, job, 0, now_ns);
}

void queues_push_request(struct queues *q, struct job *const *jobs, int n, int64_t now_ns) {
    int64_t behind_ns = 0;
    for (int i = 0; i < n; i++) {
        push(q, jobs[i], behind_ns / q->n_workers_left, now_ns);
        behind_ns += jobs[i]->cost_ns;
    }
}

bool queues_remove(struct queues *q, struct job *job) {
    if (!job_queue_holds(&q->queues[job->bucket], job)) {
        return false;
    }
    take_out(q, job);
    return true;
}

int queues_expire(struct queues *q, int64_t now_ns, struct job **expired, int max) {
    int n = 0;
    while (n < max && due_heap_first_ns(&q->due) < now_ns) {
        expired[n] = q->due.jobs[0];
        take_out(q, expired[n++]);
    }
    return n;
}

static struct policy_view view_of(const struct queues *q, int n_idle_workers) {
    return (struct policy_view){
        .queues = q->queues,
        .orders = q->orders,
        .deficits = q->deficits,
        .cost = &q->cost,
        .first_start_ns = due_heap_first_ns(&q->due),
        .n_idle_workers = n_idle_workers,
        .went_first = q->went_first,
    };
}

/* A key with nothing left to do keeps what it owes, and of what it is owed one round: it begins at
 * once when it comes back, and cannot save up for a flood. */
static void settle_deficits(struct queues *q, const struct decision *d, struct job *const *chosen) {
    const struct policy_config *p = &q->cfg.policy;
    if (p->n_keys == 1) {
        return;
    }
    for (int i = 0; i < d->n_jobs; i++) {
        q->deficits[policy_key_of(p, chosen[i])] -= (int64_t)chosen[i]->n_tokens * POLICY_CREDIT;
    }
    int64_t quanta[POLICY_MAX_KEYS];
    policy_quanta(p, quanta);
    for (int key = 0; key < p->n_keys; key++) {
        q->deficits[key] += d->n_rounds * quanta[key];
        if (q->n_key_jobs[key] == 0 && q->deficits[key] > quanta[key]) {
            q->deficits[key] = quanta[key];
        }
    }
}

static void start(struct queues *q, struct running *r, const struct decision *d,
                  struct job *const *chosen, int64_t now_ns) {
    *r = (struct running){
        .active = true, .start_ns = now_ns, .cost_ns = d->cost_ns, .n_jobs = d->n_jobs};
    for (int i = 0; i < d->n_jobs; i++) {
        r->jobs_cost_ns += chosen[i]->cost_ns;
        chosen[i]->chosen_ns = now_ns;
        note_following(q, chosen[i]);
        take_out(q, chosen[i]);
    }
    settle_deficits(q, d, chosen);
}

struct decision queues_choose(struct queues *q, int worker, int n_idle_workers, int64_t now_ns,
                              bool draining, struct job **chosen, int max_chosen) {
    const struct policy_view view = view_of(q, n_idle_workers);
    const struct decision d =
        policy_decide(&q->cfg.policy, &view, now_ns, draining, chosen, max_chosen);
    if (d.kind == DECIDE_RUN) {
        q->went_first = d.reason == RELEASE_URGENT;
        start(q, &q->running[worker][RUN_OUTER], &d, chosen, now_ns);
    }
    return d;
}

struct decision queues_interrupt(struct queues *q, int worker, int left, int n_layers,
                                 int64_t now_ns, struct job **chosen, int max_chosen) {
    struct running *runs = q->running[worker], *outer = &runs[RUN_OUTER];
    assert(left >= 0 && left <= n_layers && n_layers > 0);
    if (!outer->active || runs[RUN_INNER].active) {
        return (struct decision){.kind = DECIDE_IDLE, .bucket = -1};
    }
    const struct outer_batch batch = {
        .n_jobs = outer->n_jobs,
        .cost_ns = outer->cost_ns,
        .rest_ns = (int64_t)((double)outer->cost_ns * left / n_layers),
        .inside_ns = outer->inside_ns,
    };
    const struct policy_view view = view_of(q, 0);
    const struct decision d =
        policy_interrupt(&q->cfg.policy, &view, &batch, now_ns, chosen, max_chosen);
    if (d.kind == DECIDE_RUN) {
        start(q, &runs[RUN_INNER], &d, chosen, now_ns);
    }
    return d;
}

void queues_ran(struct queues *q, int worker, struct cost_shape shape, int64_t ns, int64_t now_ns) {
    struct running *runs = q->running[worker];
    struct running *r = &runs[runs[RUN_INNER].active ? RUN_INNER : RUN_OUTER];
    if (!r->active) {
        return;
    }
    r->active = false;
    if (r == &runs[RUN_INNER]) {
        runs[RUN_OUTER].inside_ns += now_ns - r->start_ns;
    }
    if (ns < 0) {
        return;
    }
    const struct cost_sample sample = {.shape = shape, .ns = ns};
    q->took_ns = q->took_ns * FADING + (double)ns;
    q->predicted_ns = q->predicted_ns * FADING + q->cost.coef[0] + (double)r->jobs_cost_ns;
    cost_update(&q->cost, &sample);
}

void queues_worker_left(struct queues *q) {
    assert(q->n_workers_left > 1);
    q->n_workers_left--;
}

int queues_n_jobs(const struct queues *q) {
    return q->n_jobs;
}

void queues_get_stats(const struct queues *q, int64_t now_ns, struct queues_stats *out) {
    *out = (struct queues_stats){.n_jobs = q->n_jobs, .n_tokens = q->n_tokens};
    for (int i = 0; i < q->cfg.policy.n_buckets; i++) {
        out->n_queued[i] = q->queues[i].n_jobs;
        out->n_queued_tokens[i] = q->queues[i].n_tokens;
        out->oldest_ns[i] = q->queues[i].head ? q->queues[i].head->queued_ns : 0;
    }
    memcpy(out->n_key_jobs, q->n_key_jobs, sizeof(out->n_key_jobs));
    out->drain_ns = queues_work_ns(q, (double)q->cost_ns, now_ns);
}

/* All that waits, by arrival, linked by `next`: the buckets' lists merged, and left empty. */
static struct job *collect(struct queues *q) {
    struct job *first = NULL, **end = &first;
    for (;;) {
        struct job_queue *from = NULL;
        for (int i = 0; i < q->cfg.policy.n_buckets; i++) {
            struct job *head = q->queues[i].head;
            if (head && (!from || head->number < from->head->number)) {
                from = &q->queues[i];
            }
        }
        if (!from) {
            return first;
        }
        struct job *job = from->head;
        job_queue_remove(from, job);
        *end = job;
        end = &job->next;
    }
}

enum status queues_configure(struct queues *q, const struct policy_config *policy,
                             struct error *err) {
    const enum status s = policy_config_check(policy, q->cfg.max_seq_len, err);
    if (s) {
        return s;
    }
    struct job *job = collect(q), *next;
    start_keys(q, policy, q->cfg.policy.n_keys);
    memset(q->orders, 0, sizeof(q->orders));
    memset(q->n_key_jobs, 0, sizeof(q->n_key_jobs));
    q->cfg.policy = *policy;
    for (; job; job = next) {
        next = job->next;
        job->bucket = policy_bucket_of(policy, job->n_tokens);
        stand_in_line(q, job);
    }
    return STATUS_OK;
}
