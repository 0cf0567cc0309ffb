/* admission.c - whether a request can be answered in time, told before it waits.
 * What is ahead of a job is read from sums that the rank orders keep, one descent an order. The
 * predicted work is multiplied by what the latest batches took for each ns that was predicted: that
 * is padding, and whatever else a model of single passes cannot know. */
#include "batching/queues_internal.h"

#include <assert.h>

bool queues_idle(const struct queues *q) {
    if (q->n_jobs > 0) {
        return false;
    }
    for (int i = 0; i < q->cfg.n_workers; i++) {
        if (!q->running[i][RUN_OUTER].active) {
            return true;
        }
    }
    return false;
}

static int64_t rest_ns(const struct running *r, int64_t now_ns) {
    const int64_t rest = r->start_ns + r->inside_ns + r->cost_ns - now_ns;
    return r->active && rest > 0 ? rest : 0;
}

int64_t queues_drain_ns(const struct queues *q, int64_t ahead_ns, int64_t now_ns) {
    const int64_t batch_ns = q->cfg.policy.max_batch_ns;
    double work_ns = (double)ahead_ns;
    if (batch_ns > 0) { // what each batch costs beside its jobs
        work_ns += q->cost.coef[0] * (work_ns / (double)batch_ns + 1);
    }
    if (q->predicted > 0) {
        work_ns *= q->took / q->predicted;
    }
    for (int i = 0; i < q->cfg.n_workers; i++) {
        for (int k = 0; k < N_RUNS; k++) {
            work_ns += (double)rest_ns(&q->running[i][k], now_ns);
        }
    }
    return (int64_t)(work_ns / q->cfg.n_workers);
}

static int64_t ahead_ns(const struct queues *q, int64_t rank) {
    const int n = q->cfg.policy.n_keys * policy_n_orders(&q->cfg.policy);
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += job_order_ahead_ns(&q->orders[i], rank);
    }
    return sum;
}

struct admission queues_admit(const struct queues *q, struct job *const *jobs, int n,
                              int64_t now_ns) {
    struct admission a = {.status = STATUS_OK};
    int64_t own_ns = 0, rank = INT64_MIN, deadline_ns = INT64_MAX;
    for (int i = 0; i < n; i++) {
        struct job job = *jobs[i];
        assert(job.n_tokens >= 1);
        if (job.n_tokens > q->cfg.max_seq_len) {
            a.status = STATUS_TOO_LONG;
            return a;
        }
        queues_plan(q, &job, own_ns / q->cfg.n_workers, now_ns);
        own_ns += job.cost_ns;
        rank = job.rank > rank ? job.rank : rank;
        if (job.deadline_ns > 0 && job.deadline_ns < deadline_ns) {
            deadline_ns = job.deadline_ns;
        }
    }
    a.finish_ns = now_ns + queues_drain_ns(q, ahead_ns(q, rank) + own_ns, now_ns);
    if (q->n_jobs + (int64_t)n > q->cfg.max_queued_jobs ||
        q->n_tokens >= q->cfg.max_queued_tokens) {
        a.status = STATUS_OVERLOADED;
        a.retry_after_ns = queues_drain_ns(q, q->cost_ns, now_ns);
    } else if (a.finish_ns > deadline_ns && !queues_idle(q)) {
        a.status = STATUS_TIMEOUT;
        a.retry_after_ns = a.finish_ns - deadline_ns;
    }
    return a;
}
