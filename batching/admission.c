/* admission.c - whether a request can be answered in time, told before it waits.
 * What is ahead of a job is read from sums that the rank orders keep, one descent an order, and
 * weighed by the keys' shares. Predicted work is multiplied by what the latest batches took for
 * each ns that was predicted for their jobs: padding, and whatever else one pass's model cannot
 * know. Never refused is a request that finds an idle device and nobody waiting: else a model that
 * is wrong about a length would never be told so. */
#include "batching/queues_internal.h"

#include <assert.h>

/* Of the wait, what may be added by those who come later and go first, by a device that is slower
 * than it was, and by the answer's way: under overload the whole queue waits for as long as it may,
 * and without that would be answered when it is just too late. */
enum { SPARE_PART = 16 };
static const double MOST_FACTOR = 4; // further off than that, the model is still learning
static const double LONGEST_NS = INT64_C(1) << 60; // so that sums with it stay numbers

bool queues_idle(const struct queues *q) {
    int n_busy = 0;
    for (int i = 0; i < q->cfg.n_workers; i++) {
        n_busy += q->running[i][RUN_OUTER].active;
    }
    return q->n_jobs == 0 && n_busy < q->n_workers_left;
}

/* One device at a time, as if all its work were done before anything else begins. */
static double running_ns(const struct queues *q, int64_t now_ns) {
    double sum = 0;
    for (int i = 0; i < q->cfg.n_workers; i++) {
        for (int k = 0; k < N_RUNS; k++) {
            const struct running *r = &q->running[i][k];
            const int64_t rest_ns = r->start_ns + r->inside_ns + r->cost_ns - now_ns;
            sum += r->active && rest_ns > 0 ? (double)rest_ns : 0;
        }
    }
    return sum;
}

/* Of its jobs' own cost, what a full batch of those that wait holds. */
static double full_batch_ns(const struct queues *q) {
    const struct policy_config *p = &q->cfg.policy;
    if (p->mode == BATCH_NONE) {
        return (double)q->cost_ns / q->n_jobs;
    }
    const int64_t rows = p->buckets[p->n_buckets - 1].max_batch_tokens;
    const struct cost_shape shape = {rows, rows * q->n_tokens / q->n_jobs};
    const double whole = (double)cost_predict_ns(&q->cost, shape), budget = (double)p->max_batch_ns;
    return (budget > 0 && budget < whole ? budget : whole) - q->cost.coef[0];
}

static double work_factor(const struct queues *q) {
    const double factor = q->predicted_ns > 0 ? q->took_ns / q->predicted_ns : 1;
    return factor < 1 / MOST_FACTOR ? 1 / MOST_FACTOR : factor < MOST_FACTOR ? factor : MOST_FACTOR;
}

int64_t queues_work_ns(const struct queues *q, double jobs_ns, int64_t now_ns) {
    const double launch_ns = q->cost.coef[0];
    double n_batches = jobs_ns > 0;
    if (q->n_jobs > 0) {
        const double full_ns = full_batch_ns(q);
        n_batches += full_ns > launch_ns ? jobs_ns / full_ns : 0;
    }
    double work_ns = jobs_ns + n_batches * launch_ns;
    work_ns = (work_ns * work_factor(q) + running_ns(q, now_ns)) / q->n_workers_left;
    return (int64_t)(work_ns < LONGEST_NS ? work_ns : LONGEST_NS);
}

static double ahead_in_key_ns(const struct queues *q, int key, int64_t rank) {
    const int n = policy_n_orders(&q->cfg.policy);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)job_order_ahead_ns(&q->orders[key * n + i], rank);
    }
    return sum;
}

static double waiting_in_key_ns(const struct queues *q, int key) {
    const int n = policy_n_orders(&q->cfg.policy);
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)job_order_total_ns(&q->orders[key * n + i]);
    }
    return sum;
}

/* Jobs' cost that goes first: of the job's own key what is ahead by rank; of another key as much as
 * its weight gives it meanwhile, and a turn. */
static double ahead_ns(const struct queues *q, int key, int64_t rank, double own_ns) {
    const struct policy_config *p = &q->cfg.policy;
    const double ours = ahead_in_key_ns(q, key, rank) + own_ns;
    const double turn = POLICY_QUANTUM * q->cost.coef[1];
    double sum = ours;
    for (int other = 0; other < p->n_keys; other++) {
        if (other == key || q->n_key_jobs[other] == 0) {
            continue;
        }
        const double share = ours * p->key_weights[other] / p->key_weights[key] + turn;
        const double waiting = waiting_in_key_ns(q, other);
        sum += waiting < share ? waiting : share;
    }
    return sum;
}

/* A request as admission sees it: its jobs' cost, and the last of them. */
struct request_plan {
    double own_ns;
    int64_t last_rank, deadline_ns;
    int key;
    bool too_long;
};

static struct request_plan plan_of(const struct queues *q, struct job *const *jobs, int n,
                                   int64_t now_ns) {
    struct request_plan plan = {.last_rank = INT64_MIN, .deadline_ns = INT64_MAX};
    int64_t behind_ns = 0;
    for (int i = 0; i < n; i++) {
        struct job job = *jobs[i];
        assert(job.n_tokens >= 1);
        if (job.n_tokens > q->cfg.max_seq_len) {
            plan.too_long = true;
            return plan;
        }
        queues_plan(q, &job, behind_ns / q->n_workers_left, now_ns);
        behind_ns += job.cost_ns;
        plan.last_rank = job.rank > plan.last_rank ? job.rank : plan.last_rank;
        if (job.deadline_ns > 0 && job.deadline_ns < plan.deadline_ns) {
            plan.deadline_ns = job.deadline_ns;
        }
        plan.key = policy_key_of(&q->cfg.policy, &job);
    }
    plan.own_ns = (double)behind_ns;
    return plan;
}

/* A full queue of tokens is one that reached the cap, not one that would: else a request larger
 * than what is left over would wait for luck, and one larger than the cap forever. */
static bool is_full(const struct queues *q, int n) {
    return q->n_jobs + (int64_t)n > q->cfg.max_queued_jobs ||
           q->n_tokens >= q->cfg.max_queued_tokens;
}

/* Until so much of what waits is gone that the request would not meet a cap. */
static int64_t until_room_ns(const struct queues *q, int n, int64_t now_ns) {
    if (q->n_jobs == 0) {
        return 0;
    }
    const double jobs = (double)(q->n_jobs + (int64_t)n - q->cfg.max_queued_jobs) / q->n_jobs;
    const double tokens =
        (double)(q->n_tokens - q->cfg.max_queued_tokens + 1) / (double)q->n_tokens;
    const double part = jobs > tokens ? jobs : tokens;
    return queues_work_ns(q, (double)q->cost_ns * (part < 1 ? part : 1), now_ns);
}

struct admission queues_admit(const struct queues *q, struct job *const *jobs, int n,
                              int64_t now_ns) {
    struct admission a = {.status = STATUS_OK};
    const struct request_plan plan = plan_of(q, jobs, n, now_ns);
    if (plan.too_long) {
        a.status = STATUS_TOO_LONG;
        return a;
    }
    const int64_t work_ns =
        queues_work_ns(q, ahead_ns(q, plan.key, plan.last_rank, plan.own_ns), now_ns);
    a.finish_ns = now_ns + work_ns + work_ns / SPARE_PART;
    if (is_full(q, n)) {
        a.status = STATUS_OVERLOADED;
        a.retry_after_ns = until_room_ns(q, n, now_ns);
    } else if (a.finish_ns > plan.deadline_ns && !queues_idle(q)) {
        a.status = STATUS_TIMEOUT;
        a.retry_after_ns = a.finish_ns - plan.deadline_ns;
    }
    return a;
}
