/* simulator_dp.c - the scheduler of TurboTransformers, to compare with.
 * Fang, Yu, Zhao and Zhou 2021 (PPoPP, arXiv:2010.05680), algorithm 3: when the device is idle, the
 * requests that wait are sorted by length and cut into runs, each a padded batch, so that the sum
 * of the batches' times is least: best[i] = min over j of best[j] + cost(i - j sequences of the
 * length of the i-th). The plan is run to its end, shortest batch first, which is the kindest order
 * to short texts; what comes meanwhile waits for the next plan. A job that leaves makes its batch
 * smaller. */
#include "batching/simulator_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct dp_scheduler {
    int max_jobs, max_batch;
    double coef[COST_TERMS];
    struct job **waiting; // [max_jobs], in order of arrival
    int n_waiting;
    struct job **planned; // [max_jobs], rising in length; NULL: it has left
    int *ends;            // [max_jobs], where each batch of the plan ends
    int n_planned, n_batches, next_batch, at;
    double *best; // [max_jobs + 1]
    int *cuts;    // [max_jobs + 1]
    int n_left;   // jobs in both
};

struct dp_scheduler *dp_create(const struct queues_config *cfg, const double coef[COST_TERMS]) {
    struct dp_scheduler *dp = xcalloc(1, sizeof(*dp));
    const size_t n = (size_t)cfg->max_queued_jobs;
    dp->max_jobs = cfg->max_queued_jobs;
    dp->max_batch = cfg->policy.buckets[0].max_batch_requests;
    memcpy(dp->coef, coef, sizeof(dp->coef));
    dp->waiting = xcalloc(n, sizeof(*dp->waiting));
    dp->planned = xcalloc(n, sizeof(*dp->planned));
    dp->ends = xcalloc(n, sizeof(*dp->ends));
    dp->best = xcalloc(n + 1, sizeof(*dp->best));
    dp->cuts = xcalloc(n + 1, sizeof(*dp->cuts));
    return dp;
}

void dp_destroy(struct dp_scheduler *dp) {
    if (!dp) {
        return;
    }
    free(dp->waiting);
    free(dp->planned);
    free(dp->ends);
    free(dp->best);
    free(dp->cuts);
    free(dp);
}

bool dp_admit(const struct dp_scheduler *dp) {
    return dp->n_left < dp->max_jobs;
}

void dp_push(struct dp_scheduler *dp, struct job *job) {
    assert(dp->n_left < dp->max_jobs);
    dp->waiting[dp->n_waiting++] = job;
    dp->n_left++;
}

static void drop_waiting(struct dp_scheduler *dp, int i) {
    memmove(&dp->waiting[i], &dp->waiting[i + 1],
            (size_t)(dp->n_waiting - i - 1) * sizeof(*dp->waiting));
    dp->n_waiting--;
    dp->n_left--;
}

bool dp_remove(struct dp_scheduler *dp, struct job *job) {
    for (int i = 0; i < dp->n_waiting; i++) {
        if (dp->waiting[i] == job) {
            drop_waiting(dp, i);
            return true;
        }
    }
    for (int i = dp->at; i < dp->n_planned; i++) {
        if (dp->planned[i] == job) {
            dp->planned[i] = NULL;
            dp->n_left--;
            return true;
        }
    }
    return false;
}

int dp_expire(struct dp_scheduler *dp, int64_t now_ns, struct job **expired, int max) {
    int n = 0;
    for (int i = dp->n_waiting - 1; i >= 0 && n < max; i--) {
        if (dp->waiting[i]->deadline_ns && dp->waiting[i]->deadline_ns <= now_ns) {
            expired[n++] = dp->waiting[i];
            drop_waiting(dp, i);
        }
    }
    for (int i = dp->at; i < dp->n_planned && n < max; i++) {
        struct job *job = dp->planned[i];
        if (job && job->deadline_ns && job->deadline_ns <= now_ns) {
            expired[n++] = job;
            dp->planned[i] = NULL;
            dp->n_left--;
        }
    }
    return n;
}

static int by_length(const void *a, const void *b) {
    const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
    if (x->n_tokens != y->n_tokens) {
        return x->n_tokens < y->n_tokens ? -1 : 1;
    }
    return (x->queued_ns > y->queued_ns) - (x->queued_ns < y->queued_ns);
}

static void find_cuts(struct dp_scheduler *dp) {
    for (int i = 1; i <= dp->n_planned; i++) {
        const double len = dp->planned[i - 1]->n_tokens;
        const double each = dp->coef[1] * len + dp->coef[2] * len * len;
        for (int n = 1; n <= i && n <= dp->max_batch; n++) {
            const double cost = dp->best[i - n] + dp->coef[0] + n * each;
            if (n == 1 || cost < dp->best[i]) {
                dp->best[i] = cost;
                dp->cuts[i] = i - n;
            }
        }
    }
}

static void plan(struct dp_scheduler *dp) {
    memcpy(dp->planned, dp->waiting, (size_t)dp->n_waiting * sizeof(*dp->planned));
    dp->n_planned = dp->n_waiting;
    dp->n_waiting = dp->n_batches = dp->next_batch = dp->at = 0;
    qsort(dp->planned, (size_t)dp->n_planned, sizeof(*dp->planned), by_length);
    find_cuts(dp);
    for (int i = dp->n_planned; i > 0; i = dp->cuts[i]) {
        dp->ends[dp->n_batches++] = i;
    }
    for (int i = 0; i < dp->n_batches / 2; i++) { // found from the longest down
        const int end = dp->ends[i];
        dp->ends[i] = dp->ends[dp->n_batches - 1 - i];
        dp->ends[dp->n_batches - 1 - i] = end;
    }
}

int dp_choose(struct dp_scheduler *dp, struct job **chosen, int max_chosen) {
    while (dp->n_left > 0) {
        if (dp->next_batch == dp->n_batches) {
            plan(dp);
        }
        int n = 0;
        for (const int end = dp->ends[dp->next_batch++]; dp->at < end; dp->at++) {
            if (dp->planned[dp->at]) {
                assert(n < max_chosen);
                chosen[n++] = dp->planned[dp->at];
            }
        }
        dp->n_left -= n;
        if (n > 0) {
            return n;
        }
    }
    return 0;
}
