/* queues.c - what holds for the queues whatever comes in: random loads in every mode, with keys,
 * classes, deadlines, cancels and new configurations in the middle. */
#include "batching/queues.h"
#include "tests/unit/batching/world.h"

static struct world w;

static void random_policy(struct policy_config *p, struct rng *rng) {
    *p = world_config((enum batch_mode)rng_in(rng, 0, N_BATCH_MODES - 1)).policy;
    p->n_keys = (int)rng_in(rng, 1, 5);
    for (int i = 0; i < p->n_keys; i++) {
        p->key_weights[i] = (int)rng_in(rng, 1, 4);
    }
    p->rank_cost_factor = (double)rng_in(rng, 0, 8);
    p->max_batch_ns = rng_in(rng, 0, 1) * rng_in(rng, 1, 40) * NS_PER_MS;
    for (int i = 0; i < p->n_buckets; i++) {
        p->buckets[i].max_batch_tokens = (int)rng_in(rng, 16, 600);
        p->buckets[i].max_batch_requests = (int)rng_in(rng, 1, 64);
    }
}
static void push_random(struct rng *rng, int n) {
    struct job *request[16];
    for (int i = 0; i < n; i++) {
        struct job *job = request[i] =
            world_job(&w, (int)rng_in(rng, 1, rng_in(rng, 0, 3) ? 40 : 512));
        job->key = (int)rng_in(rng, 0, 5); // one more than there can be
        job->priority = (enum priority)rng_in(rng, 0, N_PRIORITIES - 1);
        job->deadline_ns = rng_in(rng, 0, 2) ? w.now_ns + rng_in(rng, 1, 800) * NS_PER_MS : 0;
        job->wants_deadline = job->deadline_ns && rng_in(rng, 0, 1);
    }
    if (queues_admit(w.queues, request, n, w.now_ns).status) {
        w.n_jobs -= n; // refused: as if it had not come
        return;
    }
    queues_push_request(w.queues, request, n, w.now_ns);
}
static void check_caps(const struct policy_config *p, const struct decision *d,
                       struct job *const *chosen) {
    const struct bucket_limits *l = &p->buckets[d->bucket];
    struct cost_shape shape = {0, 0};
    const bool padded = p->mode == BATCH_PADDED || p->mode == BATCH_BUCKETED;
    int longest = 0;
    for (int i = 0; i < d->n_jobs; i++) {
        longest = chosen[i]->n_tokens > longest ? chosen[i]->n_tokens : longest;
    }
    for (int i = 0; i < d->n_jobs; i++) {
        const int64_t len = padded ? longest : chosen[i]->n_tokens;
        shape.rows += len;
        shape.sum_len2 += len * len;
        assert_true(chosen[i]->start_ns >= w.now_ns - d->cost_ns); // nobody who is late anyway
    }
    assert_int_equal(d->n_rows, shape.rows);
    assert_int_equal(d->cost_ns, cost_predict_ns(queues_cost(w.queues), shape));
    assert_true(d->n_jobs <= l->max_batch_requests);
    assert_true(d->n_jobs == 1 || shape.rows <= l->max_batch_tokens);
    assert_true(d->n_jobs == 1 || p->max_batch_ns == 0 || p->mode == BATCH_PADDED ||
                d->cost_ns <= p->max_batch_ns);
}
static void check_stats(int n_waiting) {
    struct queues_stats s;
    int64_t n_tokens = 0;
    int n_jobs = 0, n_key_jobs = 0;
    queues_get_stats(w.queues, w.now_ns, &s);
    for (int i = 0; i < POLICY_MAX_BUCKETS; i++) {
        n_jobs += s.n_queued[i];
        n_tokens += s.n_queued_tokens[i];
        assert_true((s.n_queued[i] == 0) == (s.oldest_ns[i] == 0) && s.oldest_ns[i] <= w.now_ns);
    }
    for (int i = 0; i < POLICY_MAX_KEYS; i++) {
        n_key_jobs += s.n_key_jobs[i];
    }
    assert_int_equal(n_jobs, n_waiting);
    assert_int_equal(n_key_jobs, n_waiting);
    assert_int_equal(s.n_jobs, n_waiting);
    assert_int_equal(queues_n_jobs(w.queues), n_waiting);
    assert_int_equal(s.n_tokens, n_tokens);
    assert_true((s.drain_ns > 0) == (n_waiting > 0));
}
/* Arrivals faster than the device for a while, then none until the queues are empty. */
struct fates {
    int done, expired, cancelled;
};
static void live(struct rng *rng, struct fates *fates) {
    struct policy_config policy = w.cfg.policy;
    int n_expired = 0, n_cancelled = 0;
    for (int step = 0; step < 1200; step++) {
        if (step < 400) {
            push_random(rng, (int)rng_in(rng, 1, rng_in(rng, 0, 30) ? 3 : 16));
        }
        if (step % 97 == 96) {
            random_policy(&policy, rng);
            assert_int_equal(queues_configure(w.queues, &policy, NULL), STATUS_OK);
        }
        struct job *chosen[WORLD_CHOSEN], *victim = &w.jobs[rng_in(rng, 0, w.n_jobs - 1)];
        if (w.n_jobs > 0 && rng_in(rng, 0, 9) == 0 && queues_remove(w.queues, victim)) {
            assert_false(queues_remove(w.queues, victim));
            w.ends_ns[victim - w.jobs] = w.now_ns;
            n_cancelled++;
        }
        const int n = queues_expire(w.queues, w.now_ns, chosen, WORLD_CHOSEN);
        for (int i = 0; i < n; i++) {
            assert_true(chosen[i]->start_ns < w.now_ns);
            assert_int_equal(w.ends_ns[chosen[i] - w.jobs], 0);
            w.ends_ns[chosen[i] - w.jobs] = w.now_ns;
        }
        n_expired += n;
        const struct decision d =
            n == WORLD_CHOSEN ? (struct decision){.kind = DECIDE_IDLE} : world_run(&w, chosen);
        if (d.kind == DECIDE_RUN) {
            check_caps(&policy, &d, chosen);
        }
        check_stats(w.n_jobs - w.n_done - n_expired - n_cancelled);
        w.now_ns += rng_in(rng, 0, 1) * NS_PER_MS / 4;
    }
    assert_int_equal(queues_n_jobs(w.queues), 0);
    for (int i = 0; i < w.n_jobs; i++) {
        assert_true(w.ends_ns[i] > 0);
    }
    fates->done += w.n_done;
    fates->expired += n_expired;
    fates->cancelled += n_cancelled;
}
static void every_job_ends_once_within_the_caps(void **state) {
    struct fates fates = {.done = 0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng rng = rng_of(seed);
        struct queues_config cfg = world_config(BATCH_PACKED);
        random_policy(&cfg.policy, &rng);
        world_open(&w, &cfg);
        live(&rng, &fates);
        world_close(&w);
    }
    print_message("  %d done, %d expired, %d cancelled\n", fates.done, fates.expired,
                  fates.cancelled);
    assert_true(fates.done > 10000 && fates.expired > 300 && fates.cancelled > 100);
}

/* Equal lengths, one key, nobody in a hurry: first come, first served. */
static void equal_jobs_are_first_in_first_out(void **state) {
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        const struct queues_config cfg = world_config(mode);
        struct rng rng = rng_of(mode + 1);
        int next = 0;
        world_open(&w, &cfg);
        for (int step = 0; step < 300; step++) {
            for (int64_t n = rng_in(&rng, 0, 4); n > 0; n--) {
                world_push(&w, 20);
            }
            struct job *chosen[WORLD_CHOSEN];
            const struct decision d = world_run(&w, chosen);
            for (int i = 0; d.kind == DECIDE_RUN && i < d.n_jobs; i++) {
                assert_ptr_equal(chosen[i], &w.jobs[next++]);
            }
        }
        assert_true(next > 200);
        world_close(&w);
    }
}
/* Short texts for ever, at twice what the device can do: a long one still runs once those that came
 * before its rank are through. */
static void nothing_starves(void **state) {
    const enum batch_mode modes[] = {BATCH_NONE, BATCH_BUCKETED, BATCH_PACKED};
    for (size_t m = 0; m < N_ITEMS(modes); m++) {
        const struct queues_config cfg = world_config(modes[m]);
        world_open(&w, &cfg);
        world_push(&w, 8);
        const struct job *job = world_push(&w, 512);
        const int64_t came_ns = w.now_ns, patience_ns = 5 * job->cost_ns;
        int64_t before_rank_ns = 0;
        while (!world_ends(&w, job)) {
            struct job *chosen[WORLD_CHOSEN];
            const int64_t began_ns = w.now_ns;
            world_run(&w, chosen);
            for (int64_t at = began_ns; at < w.now_ns && w.n_jobs < WORLD_JOBS; at += 300000) {
                struct job *other = world_job(&w, 8); // 0.6 ms of work each 0.3 ms
                queues_push(w.queues, other, at);
                before_rank_ns += other->rank < job->rank ? 600000 : 0;
            }
        }
        assert_true(world_ends(&w, job) - came_ns <=
                    patience_ns + before_rank_ns + 2 * 91 * NS_PER_MS);
        world_close(&w);
    }
}
static void short_jobs_pass_long_ones(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    const struct job *running = world_push(&w, 512);
    world_run(&w, chosen);
    assert_ptr_equal(chosen[0], running);
    const struct job *waits = world_push(&w, 512);
    w.now_ns += 80 * NS_PER_MS;
    const struct job *passes = world_push(&w, 8); // later, by less than 5 * 90 ms
    world_run(&w, chosen);
    assert_ptr_equal(chosen[0], passes);
    world_run(&w, chosen);
    assert_ptr_equal(chosen[0], waits);
    world_close(&w);
    cfg.policy.rank_cost_factor = 0;
    world_open(&w, &cfg);
    waits = world_push(&w, 512);
    world_push(&w, 8);
    world_run(&w, chosen);
    assert_ptr_equal(chosen[0], waits);
    world_close(&w);
}
/* Three long texts that have waited for long, and shorts that keep coming: before each long one the
 * shorts that are there go once, so none waits for more than one of them. */
static void a_long_job_lets_short_ones_go_first_once(void **state) {
    const enum batch_mode modes[] = {BATCH_NONE, BATCH_BUCKETED, BATCH_PACKED};
    for (size_t m = 0; m < N_ITEMS(modes); m++) {
        struct queues_config cfg = world_config(modes[m]);
        struct job *chosen[WORLD_CHOSEN];
        world_open(&w, &cfg);
        for (int i = 0; i < 3; i++) {
            world_push(&w, 512);
        }
        w.now_ns += 2 * NS_PER_S; // their ranks are past
        for (int i = 0; i < 3; i++) {
            const struct job *early = world_push(&w, 8);
            assert_int_equal(world_run(&w, chosen).reason, RELEASE_URGENT);
            assert_ptr_equal(chosen[0], early);
            struct job *late = world_push(&w, 8); // it is the long one's turn now
            world_run(&w, chosen);
            assert_ptr_equal(chosen[0], &w.jobs[i]);
            assert_true(queues_remove(w.queues, late));
        }
        world_close(&w);
        cfg.policy.rank_cost_factor = 0; // by arrival is by arrival
        world_open(&w, &cfg);
        world_push(&w, 512);
        world_push(&w, 8);
        world_run(&w, chosen);
        assert_ptr_equal(chosen[0], &w.jobs[0]);
        world_close(&w);
    }
}
static void classes_and_deadlines_move_the_rank(void **state) {
    const struct queues_config cfg = world_config(BATCH_NONE);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    struct job *job[5];
    for (int i = 0; i < 5; i++) {
        job[i] = world_job(&w, i == 4 ? 200 : 8);
    }
    job[0]->priority = PRIORITY_LOW;
    job[2]->priority = PRIORITY_HIGH;
    job[3]->deadline_ns = w.now_ns + 2 * NS_PER_S; // the server's: not part of the rank
    job[4]->deadline_ns = w.now_ns + 30 * NS_PER_MS;
    job[4]->wants_deadline = true; // has to start within 10 ms, by cost it would be 100
    for (int i = 0; i < 5; i++) {
        queues_push(w.queues, job[i], w.now_ns);
    }
    const int order[] = {2, 1, 3, 4, 0};
    for (int i = 0; i < 5; i++) {
        world_run(&w, chosen);
        assert_ptr_equal(chosen[0], job[order[i]]);
    }
    world_close(&w);
}
static void padded_knows_arrival_alone(void **state) {
    const struct queues_config cfg = world_config(BATCH_PADDED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    world_push(&w, 60);
    w.now_ns += 1;
    struct job *high = world_job(&w, 8);
    high->priority = PRIORITY_HIGH;
    queues_push(w.queues, high, w.now_ns);
    w.now_ns += 1;
    world_push(&w, 60);
    const struct decision d = world_run(&w, chosen);
    assert_int_equal(d.n_jobs,
                     3); // 180 rows, 12 ms: more than a budget of 25 would not hold either
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(chosen[i], &w.jobs[i]);
    }
    world_close(&w);
}

static void a_batch_ends_where_its_time_does(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    cfg.policy.buckets[0].max_batch_tokens = 4096;
    world_open(&w, &cfg);
    for (int i = 0; i < 64; i++) {
        world_push(&w, 16); // 0.864 ms each
    }
    const struct decision d = world_run(&w, chosen);
    assert_int_equal(d.n_jobs, 28); // 0.2 + 28 * 0.864 <= 25 ms
    assert_int_equal(d.reason, RELEASE_FULL);
    world_close(&w);
}
/* What waits keeps its place when the policy changes under it, and a bad policy changes nothing. */
static void a_new_policy_loses_and_reorders_nothing(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    world_open(&w, &cfg);
    struct rng rng = rng_of(3);
    for (int i = 0; i < 200; i++) {
        world_push(&w, (int)rng_in(&rng, 1, 500));
        w.now_ns += 1000;
    }
    struct policy_config bad = cfg.policy;
    struct error err = {.text = ""};
    bad.buckets[2].up_to = 64;
    assert_int_equal(queues_configure(w.queues, &bad, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "rising"));
    check_stats(200);
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        const struct policy_config other = world_config(mode).policy;
        assert_int_equal(queues_configure(w.queues, &other, NULL), STATUS_OK);
        check_stats(200);
    }
    const struct policy_config single = world_config(BATCH_NONE).policy;
    assert_int_equal(queues_configure(w.queues, &single, NULL), STATUS_OK);
    const struct job *last = NULL;
    for (int i = 0; i < 200; i++) {
        struct job *chosen[WORLD_CHOSEN];
        assert_int_equal(world_run(&w, chosen).kind, DECIDE_RUN);
        assert_true(!last || job_before(last, chosen[0]));
        last = chosen[0];
    }
    world_close(&w);
}
static void late_jobs_are_given_up(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    const int64_t in_ms[] = {50, 0, 20, 5, 20};
    for (int i = 0; i < 5; i++) {
        struct job *job = world_job(&w, 100); // 7.7 ms alone
        job->deadline_ns = in_ms[i] ? w.now_ns + in_ms[i] * NS_PER_MS : 0;
        queues_push(w.queues, job, w.now_ns);
    }
    assert_int_equal(queues_expire(w.queues, w.now_ns, chosen, 8), 1); // 5 ms cannot be kept
    assert_ptr_equal(chosen[0], &w.jobs[3]);
    assert_int_equal(queues_expire(w.queues, w.now_ns + 12 * NS_PER_MS, chosen, 8), 0);
    assert_int_equal(queues_expire(w.queues, w.now_ns + 13 * NS_PER_MS, chosen, 1), 1);
    assert_int_equal(queues_expire(w.queues, w.now_ns + 13 * NS_PER_MS, chosen, 8), 1);
    assert_int_equal(queues_expire(w.queues, INT64_MAX - 1, chosen, 8), 1);
    assert_ptr_equal(chosen[0], &w.jobs[0]);
    assert_int_equal(queues_n_jobs(w.queues), 1); // who has no deadline
    assert_true(queues_remove(w.queues, &w.jobs[1]));
    world_close(&w);
}
/* The model says 7.7 ms and may be wrong: an idle device tries, and only the clock gives it up. */
static void an_idle_device_tries(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    struct job *job = world_job(&w, 100);
    job->deadline_ns = w.now_ns + 5 * NS_PER_MS;
    assert_int_equal(queues_admit(w.queues, &job, 1, w.now_ns).status, STATUS_OK);
    queues_push(w.queues, job, w.now_ns);
    assert_int_equal(queues_expire(w.queues, w.now_ns + 5 * NS_PER_MS, chosen, 8), 0);
    assert_int_equal(queues_expire(w.queues, w.now_ns + 5 * NS_PER_MS + 1, chosen, 8), 1);
    world_close(&w);
}
/* Waiting for company ends early enough for the deadline of anybody who waits. */
static void a_deadline_ends_a_wait(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    for (int i = 0; i < 3; i++) {
        cfg.policy.buckets[i].max_wait_ns = NS_PER_S;
    }
    world_open(&w, &cfg);
    world_push(&w, 8);
    struct decision d = world_run(&w, chosen);
    assert_int_equal(d.kind, DECIDE_WAIT);
    assert_int_equal(d.wake_ns, w.now_ns + NS_PER_S);
    struct job *job = world_job(&w, 60);
    job->deadline_ns = w.now_ns + 50 * NS_PER_MS;
    queues_push(w.queues, job, w.now_ns);
    d = world_run(&w, chosen);
    assert_int_equal(d.kind, DECIDE_WAIT);
    assert_true(d.wake_ns > w.now_ns + 35 * NS_PER_MS && d.wake_ns < w.now_ns + 45 * NS_PER_MS);
    w.now_ns = d.wake_ns;
    assert_int_equal(queues_expire(w.queues, w.now_ns, chosen, 8), 0);
    d = world_run(&w, chosen);
    assert_int_equal(d.kind, DECIDE_RUN);
    assert_int_equal(d.reason, RELEASE_WAITED);
    assert_int_equal(d.n_jobs, 2);
    assert_true(w.now_ns <= job->deadline_ns);
    world_close(&w);
}
/* Computing a job whose deadline passes during its batch is work for nobody. 100 tokens take 7.7 ms
 * alone, 60 take 4.1 beside them, 8 take 0.4. */
static void nobody_rides_who_would_be_late_at_the_end(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    static const struct {
        int len[3], deadline_ms[3]; // 0: none
        int n_rides;                // of the first batch
        bool rides[3];
    } cases[] = {
        {{100, 60, 8}, {0, 0, 0}, 3, {true, true, true}},
        {{100, 60, 8}, {0, 20, 0}, 3, {true, true, true}},
        {{100, 60, 8}, {0, 10, 0}, 2, {true, false, true}},  // it would end after 12
        {{100, 60, 8}, {10, 0, 0}, 2, {true, false, true}},  // and it would make another late
        {{100, 60, 8}, {10, 0, 30}, 2, {true, false, true}}, // the earliest counts
        {{100, 60, 8}, {8, 0, 0}, 1, {true, false, false}},  // less than the model errs by is left
        {{100, 60, 8}, {3, 0, 0}, 3, {true, true, true}},    // late alone: nobody hurries for it
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        world_open(&w, &cfg);
        for (int k = 0; k < 3; k++) {
            struct job *job = world_job(&w, cases[i].len[k]);
            const int in_ms = cases[i].deadline_ms[k];
            job->deadline_ns = in_ms ? w.now_ns + in_ms * NS_PER_MS : 0;
            queues_push(w.queues, job, w.now_ns - (3 - k) * NS_PER_S); // the order is that of k
        }
        const struct decision d = world_run(&w, chosen);
        assert_int_equal(d.n_jobs, cases[i].n_rides);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(world_ends(&w, &w.jobs[k]) != 0, cases[i].rides[k]);
        }
        while (queues_n_jobs(w.queues) > 0) {
            assert_int_equal(world_run(&w, chosen).kind, DECIDE_RUN);
        }
        world_close(&w);
    }
}
/* Under more load than can be kept up with, who is computed is computed in time; but for those that
 * found an idle device, which tries them. */
static void what_is_computed_is_in_time(void **state) {
    static const enum batch_mode modes[] = {BATCH_NONE, BATCH_BUCKETED, BATCH_PACKED};
    struct job *chosen[WORLD_CHOSEN];
    for (size_t i = 0; i < N_ITEMS(modes); i++) {
        const struct queues_config cfg = world_config(modes[i]);
        struct rng rng = {7 + i};
        int64_t next_ns = NS_PER_S;
        int n_computed = 0, n_late = 0;
        world_open(&w, &cfg);
        while (w.n_jobs < WORLD_JOBS - 1 || queues_n_jobs(w.queues) > 0) {
            while (w.n_jobs < WORLD_JOBS - 1 && next_ns <= w.now_ns) {
                struct job *job = world_job(&w, rng_in(&rng, 0, 9) ? rng_in(&rng, 3, 60) : 400);
                job->deadline_ns = next_ns + 150 * NS_PER_MS;
                queues_push(w.queues, job, next_ns);
                next_ns += rng_in(&rng, 0, 8) * NS_PER_MS;
            }
            while (queues_expire(w.queues, w.now_ns, chosen, WORLD_CHOSEN) > 0) {
            }
            const struct decision d = world_run(&w, chosen);
            for (int k = 0; k < d.n_jobs; k++) {
                n_computed++;
                n_late += w.now_ns > chosen[k]->deadline_ns &&
                          chosen[k]->start_ns < chosen[k]->deadline_ns;
            }
            w.now_ns = d.kind == DECIDE_RUN || next_ns < w.now_ns ? w.now_ns : next_ns;
        }
        assert_true(n_computed > WORLD_JOBS / 4 && n_computed < WORLD_JOBS - 1);
        assert_int_equal(n_late, 0);
        world_close(&w);
    }
}
static void measured_passes_teach_the_model(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    for (int i = 0; i < 300; i++) {
        const int len = 8 + i % 40 * 5;
        world_push(&w, len);
        assert_int_equal(queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, 8).kind,
                         DECIDE_RUN);
        const struct cost_shape shape = {len, (int64_t)len * len};
        const int64_t ns = 400000 + 100000 * len + 500 * (int64_t)len * len; // twice what it thinks
        queues_ran(w.queues, 0, shape, ns, w.now_ns += ns);
    }
    const int64_t predicted =
        cost_predict_ns(queues_cost(w.queues), (struct cost_shape){100, 10000});
    assert_true(predicted > 14 * NS_PER_MS && predicted < 17 * NS_PER_MS);
    world_close(&w);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_ends_once_within_the_caps),
        cmocka_unit_test(equal_jobs_are_first_in_first_out),
        cmocka_unit_test(nothing_starves),
        cmocka_unit_test(short_jobs_pass_long_ones),
        cmocka_unit_test(a_long_job_lets_short_ones_go_first_once),
        cmocka_unit_test(classes_and_deadlines_move_the_rank),
        cmocka_unit_test(padded_knows_arrival_alone),
        cmocka_unit_test(a_batch_ends_where_its_time_does),
        cmocka_unit_test(a_new_policy_loses_and_reorders_nothing),
        cmocka_unit_test(late_jobs_are_given_up),
        cmocka_unit_test(an_idle_device_tries),
        cmocka_unit_test(a_deadline_ends_a_wait),
        cmocka_unit_test(nobody_rides_who_would_be_late_at_the_end),
        cmocka_unit_test(what_is_computed_is_in_time),
        cmocka_unit_test(measured_passes_teach_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
