/* policy_random.c - what holds for every decision, whatever is queued; the seeds are fixed. */
#include "batching/policy.h"
#include "tests/unit/batching/lineup.h"

static uint64_t rng = 1;
static int rand_in(int low, int high) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return low + (int)(rng % (uint64_t)(high - low + 1));
}
static void random_config(struct policy_config *cfg) {
    *cfg = (struct policy_config){
        .mode = (enum batch_mode)rand_in(0, N_BATCH_MODES - 1), .n_keys = 1, .key_weights = {1}};
    const bool one = cfg->mode == BATCH_NONE || cfg->mode == BATCH_PADDED;
    cfg->n_buckets = one ? 1 : rand_in(1, POLICY_MAX_BUCKETS);
    for (int i = 0; i < cfg->n_buckets; i++) {
        cfg->buckets[i] = (struct bucket_limits){
            .up_to = i == cfg->n_buckets - 1 ? 512 : (i + 1) * 8,
            .max_batch_tokens = rand_in(1, 600),
            .max_batch_requests = rand_in(1, 40),
            .max_wait_ns = rand_in(0, 3) ? 0 : rand_in(0, 1000),
        };
    }
    assert_int_equal(policy_config_check(cfg, 512, NULL), STATUS_OK);
}
static bool is_chosen(const struct job *job, struct job *const *chosen, int n) {
    for (int i = 0; i < n; i++) {
        if (chosen[i] == job) {
            return true;
        }
    }
    return false;
}
static void check_batch(const struct lineup *q, const struct decision *d, struct job **chosen) {
    const struct policy_config *cfg = &q->cfg;
    const struct bucket_limits *l = &cfg->buckets[d->bucket];
    const bool padded = cfg->mode == BATCH_PADDED || cfg->mode == BATCH_BUCKETED;
    int longest = 0, tokens = 0, n_skipped = 0;
    for (int i = 0; i < d->n_jobs; i++) {
        assert_true(i == 0 || chosen[i - 1]->rank < chosen[i]->rank);
        assert_true(cfg->mode != BATCH_BUCKETED || chosen[i]->bucket == d->bucket);
        longest = chosen[i]->n_tokens > longest ? chosen[i]->n_tokens : longest;
        tokens += chosen[i]->n_tokens;
    }
    assert_int_equal(chosen[0]->bucket, d->bucket);
    assert_int_equal(d->n_rows, padded ? longest * d->n_jobs : tokens);
    assert_true(d->n_rows <= l->max_batch_tokens || d->n_jobs == 1);
    assert_true(d->n_jobs <= l->max_batch_requests);
    assert_true(cfg->mode != BATCH_NONE || d->n_jobs == 1);
    for (int i = 0; i < q->n_jobs;
         i++) { // who still waits, and came before the last that was taken
        const struct job *job = &q->jobs[i];
        if (!job_queue_holds(&q->queues[job->bucket], job) || is_chosen(job, chosen, d->n_jobs)) {
            continue;
        }
        assert_true(job->rank > chosen[0]->rank);
        const bool eligible = cfg->mode != BATCH_BUCKETED || job->bucket == d->bucket;
        n_skipped += eligible && job->rank < chosen[d->n_jobs - 1]->rank;
    }
    assert_true(n_skipped <= (cfg->mode == BATCH_PADDED ? 0 : POLICY_LOOK_AHEAD));
}
static int64_t earliest_due(const struct lineup *q) {
    int64_t due = INT64_MAX;
    for (int i = 0; i < q->n_jobs; i++) {
        const struct job *job = &q->jobs[i];
        const int64_t at = job->queued_ns + q->cfg.buckets[job->bucket].max_wait_ns;
        if (job_queue_holds(&q->queues[job->bucket], job) && at < due) {
            due = at;
        }
    }
    return due;
}
/* One life of a batcher: random arrivals, batches as they are released, until all are served. */
static void live(struct lineup *q, int n_total) {
    int64_t now = 0;
    int n_served = 0;
    while (n_served < n_total) {
        for (int n = rand_in(0, 12); n > 0 && q->n_jobs < n_total; n--) {
            lineup_push(q, rand_in(0, 9) ? rand_in(1, 70) : rand_in(1, 512), now, 0);
        }
        const bool draining = q->n_jobs == n_total && rand_in(0, 1);
        struct job *chosen[MAX_JOBS];
        const struct decision d = lineup_decide(q, now, rand_in(0, 3), draining, chosen);
        if (d.kind == DECIDE_WAIT) {
            assert_false(draining);
            assert_true(d.wake_ns > now);
            assert_true(d.wake_ns == earliest_due(q));
            assert_int_equal(lineup_decide(q, d.wake_ns, 0, false, chosen).kind, DECIDE_RUN);
            now = rand_in(0, 1) ? d.wake_ns : now + (d.wake_ns - now) / 2;
        } else if (d.kind == DECIDE_RUN) {
            assert_true(d.reason == RELEASE_FULL || draining || now >= earliest_due(q));
            check_batch(q, &d, chosen);
            lineup_take(q, chosen, d.n_jobs);
            n_served += d.n_jobs;
        } else {
            assert_int_equal(n_served, q->n_jobs);
        }
        now += rand_in(0, 50);
    }
}
static void holds_on_random_queues(void **state) {
    for (uint64_t seed = 1; seed <= 300; seed++) {
        static struct lineup q;
        memset(&q, 0, sizeof(q));
        rng = seed * UINT64_C(0x9e3779b97f4a7c15);
        random_config(&q.cfg);
        live(&q, 300);
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_on_random_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
