#include "batching/batcher.h"
#include "base/timing.h"
#include "tests/unit/test.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

static const int32_t ids[600], types[600];
static const struct batcher_config config = {
    .queues =
        {.policy = {.mode = BATCH_PACKED,
                    .n_keys = 1,
                    .key_weights = {1},
                    .buckets = {{.up_to = 64, .max_batch_tokens = 256, .max_batch_requests = 16},
                                {.up_to = 512, .max_batch_tokens = 256, .max_batch_requests = 8}},
                    .n_buckets = 2},
         .max_seq_len = 512,
         .max_queued_jobs = 10,
         .max_queued_tokens = 100,
         .n_workers = 2},
};

static void ignore_done(struct job *job) {
}
static struct job job_of(int n_tokens) {
    return (struct job){
        .token_ids = ids, .token_type_ids = types, .n_tokens = n_tokens, .done = ignore_done};
}
static enum status submit_one(struct batcher *b, struct job *job, int n_tokens) {
    *job = job_of(n_tokens);
    return batcher_submit(b, (struct job *const[]){job}, 1, NULL);
}
static struct batcher *make(const struct batcher_config *cfg, struct batch *batch) {
    struct batcher *b;
    assert_int_equal(batcher_create(&b, cfg, NULL), STATUS_OK);
    assert_int_equal(batch_init(batch, batcher_batch_limits(b), NULL), STATUS_OK);
    return b;
}
static void end(struct batcher *b, struct batch *batch) {
    batcher_close(b);
    while (batcher_next(b, 0, batch) == STATUS_OK) {
        batch_complete(batch);
    }
    batch_finish(batch);
    batcher_destroy(b);
}
static int64_t queued_tokens(struct batcher *b) {
    struct batcher_stats s;
    batcher_get_stats(b, &s);
    return s.queues.n_tokens;
}

static void jobs_become_a_batch(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct job jobs[3];
    const int lens[] = {10, 70, 5};
    const int64_t before = time_now_ns();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(submit_one(b, &jobs[i], lens[i]), STATUS_OK);
    }
    struct batcher_stats stats;
    batcher_get_stats(b, &stats);
    assert_int_equal(stats.queues.n_queued[0], 2);
    assert_int_equal(stats.queues.n_queued[1], 1);
    assert_int_equal(stats.queues.n_tokens, 85);
    assert_int_equal(stats.n_waiting_workers, 0);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.n_jobs, 3);
    assert_int_equal(batch.tokens.n_rows, 85);
    assert_int_equal(batch.reason, RELEASE_IDLE);
    assert_int_equal(batch.bucket, 0);
    assert_int_equal(batch.ride.batch_id, 1);
    assert_int_equal(batch.ride.bucket_up_to, 64);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(batch.jobs[i], &jobs[i]);
        assert_true(jobs[i].queued_ns >= before && jobs[i].chosen_ns >= jobs[i].queued_ns);
    }
    assert_int_equal(queued_tokens(b), 0);
    batch_complete(&batch);
    assert_int_equal(submit_one(b, &jobs[0], 100), STATUS_OK);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.ride.batch_id, 2);
    assert_int_equal(batch.ride.bucket_up_to, 512);
    end(b, &batch);
}
static void modes_without_buckets_name_none(void **state) {
    struct batcher_config cfg = config;
    cfg.queues.policy.mode = BATCH_PADDED;
    cfg.queues.policy.buckets[0] = cfg.queues.policy.buckets[1];
    cfg.queues.policy.n_buckets = 1;
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct job jobs[2];
    assert_int_equal(submit_one(b, &jobs[0], 4), STATUS_OK);
    assert_int_equal(submit_one(b, &jobs[1], 8), STATUS_OK);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.tokens.n_rows, 16);
    assert_int_equal(batch.ride.bucket_up_to, 0);
    end(b, &batch);
}
static void submit_takes_all_or_none(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct job jobs[12], *all[12];
    for (int i = 0; i < 12; i++) {
        jobs[i] = job_of(2);
        all[i] = &jobs[i];
    }
    assert_int_equal(batcher_submit(b, all, 11, NULL), STATUS_OVERLOADED); // more than ever fit
    assert_int_equal(queued_tokens(b), 0);
    jobs[3].n_tokens = 513;
    assert_int_equal(batcher_submit(b, all, 4, NULL), STATUS_TOO_LONG);
    jobs[3].n_tokens = 2;
    assert_int_equal(queued_tokens(b), 0);
    assert_int_equal(batcher_submit(b, all, 8, NULL), STATUS_OK);
    assert_int_equal(batcher_submit(b, all + 8, 3, NULL), STATUS_OVERLOADED);
    assert_int_equal(queued_tokens(b), 16);
    assert_int_equal(batcher_submit(b, all + 8, 2, NULL), STATUS_OK);
    assert_int_equal(queued_tokens(b), 20);
    end(b, &batch);
}
/* 100 tokens may wait: whoever comes before they do is let in, however long. */
static void tokens_that_wait_are_capped(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct job jobs[4];
    assert_int_equal(submit_one(b, &jobs[0], 99), STATUS_OK);
    assert_int_equal(submit_one(b, &jobs[1], 500), STATUS_OK);
    assert_int_equal(submit_one(b, &jobs[2], 1), STATUS_OVERLOADED);
    assert_true(batcher_cancel(b, &jobs[1]));
    assert_int_equal(submit_one(b, &jobs[2], 1), STATUS_OK);
    assert_int_equal(submit_one(b, &jobs[3], 1), STATUS_OVERLOADED);
    end(b, &batch);
}
static void cancel_takes_out_what_waits(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct job jobs[4];
    struct job never = job_of(3);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(submit_one(b, &jobs[i], 5), STATUS_OK);
    }
    assert_false(batcher_cancel(b, &never));
    assert_true(batcher_cancel(b, &jobs[1]));
    assert_false(batcher_cancel(b, &jobs[1]));
    assert_true(batcher_cancel(b, &jobs[3]));
    assert_int_equal(queued_tokens(b), 10);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.n_jobs, 2);
    assert_ptr_equal(batch.jobs[0], &jobs[0]);
    assert_ptr_equal(batch.jobs[1], &jobs[2]);
    assert_false(batcher_cancel(b, &jobs[0])); // it runs
    batch_complete(&batch);
    assert_int_equal(submit_one(b, &jobs[1], 5), STATUS_OK); // and again
    assert_true(batcher_cancel(b, &jobs[1]));
    end(b, &batch);
}
/* The one who is about to choose asks first who is still there. */
struct leaver {
    struct batcher *b;
    struct job *job;
    int n_looks;
};
static void leave(void *arg) {
    struct leaver *l = arg;
    l->n_looks++;
    assert_int_equal(batcher_cancel(l->b, l->job), l->n_looks == 1); // the lock is not held
}
static void who_has_left_is_not_chosen(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct job jobs[3];
    struct leaver leaver = {.b = b, .job = &jobs[1]};
    batcher_set_look(b, leave, &leaver);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(submit_one(b, &jobs[i], 10), STATUS_OK);
    }
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(leaver.n_looks, 1);
    assert_int_equal(batch.n_jobs, 2);
    assert_ptr_equal(batch.jobs[0], &jobs[0]);
    assert_ptr_equal(batch.jobs[1], &jobs[2]);
    batch_complete(&batch);
    end(b, &batch);
    assert_int_equal(leaver.n_looks, 1); // nobody waited
}
static void closed_means_no_more(void **state) {
    struct batcher_config cfg = config;
    cfg.queues.policy.buckets[0].max_wait_ns = 60 * NS_PER_S;
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct job jobs[2];
    assert_int_equal(submit_one(b, &jobs[0], 5), STATUS_OK);
    batcher_close(b);
    assert_int_equal(submit_one(b, &jobs[1], 5), STATUS_UNAVAILABLE);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.reason, RELEASE_DRAIN);
    batch_complete(&batch);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_UNAVAILABLE);
    end(b, &batch);
}
static void waits_as_long_as_told(void **state) {
    struct batcher_config cfg = config;
    cfg.queues.policy.buckets[0].max_wait_ns = 20 * NS_PER_MS;
    cfg.queues.policy.buckets[0].max_batch_requests = 2;
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct job jobs[3];
    assert_int_equal(submit_one(b, &jobs[0], 5), STATUS_OK);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.reason, RELEASE_WAITED);
    assert_true(jobs[0].chosen_ns - jobs[0].queued_ns >= 20 * NS_PER_MS);
    batch_complete(&batch);
    assert_int_equal(submit_one(b, &jobs[1], 5), STATUS_OK);
    assert_int_equal(submit_one(b, &jobs[2], 5), STATUS_OK);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.reason, RELEASE_FULL);
    batch_complete(&batch);
    end(b, &batch);
}
static void limits_hold_the_largest_batch(void **state) {
    struct batch batch;
    struct batcher_config cfg = config;
    cfg.queues.max_queued_jobs = 1000;
    struct batcher *b = make(&cfg, &batch);
    assert_int_equal(batch.limits.max_jobs, 16);
    assert_int_equal(batch.limits.max_rows, 512); // one job longer than the cap
    end(b, &batch);
    cfg.queues.policy.buckets[1].max_batch_tokens = 1024;
    cfg.queues.policy.buckets[1].max_batch_requests = 5000;
    b = make(&cfg, &batch);
    assert_int_equal(batch.limits.max_jobs, 1000); // no more can wait
    assert_int_equal(batch.limits.max_rows, 1024);
    end(b, &batch);
}
static void bad_limits_are_refused(void **state) {
    struct batcher *b = NULL;
    struct error err = {.text = ""};
    struct batcher_config cfg = config;
    cfg.queues.max_queued_jobs = 0;
    assert_int_equal(batcher_create(&b, &cfg, &err), STATUS_INVALID);
    cfg = config;
    cfg.queues.max_queued_tokens = 0;
    assert_int_equal(batcher_create(&b, &cfg, &err), STATUS_INVALID);
    cfg = config;
    cfg.queues.max_seq_len = 513;
    assert_int_equal(batcher_create(&b, &cfg, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "up_to 513"));
    assert_null(b);
    batcher_destroy(NULL);
}

static int n_told;
static void note_expired(struct job *job) {
    assert_int_equal(job->status, STATUS_TIMEOUT);
    n_told++;
}
/* A hundred whose time has passed, and one that has time: he runs, they are told. */
static void who_is_late_is_told_and_not_computed(void **state) {
    struct batcher_config cfg = config;
    cfg.queues.max_queued_jobs = 200;
    cfg.queues.max_queued_tokens = 1000;
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct job late[100], good, *all[100];
    n_told = 0;
    for (int i = 0; i < 100; i++) {
        late[i] = job_of(2);
        late[i].done = note_expired;
        late[i].deadline_ns = time_now_ns() + NS_PER_MS;
        all[i] = &late[i];
    }
    assert_int_equal(batcher_submit(b, all, 100, NULL), STATUS_OK);
    assert_int_equal(submit_one(b, &good, 5), STATUS_OK);
    nanosleep(&(struct timespec){.tv_nsec = 2 * NS_PER_MS}, NULL);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_int_equal(batch.n_jobs, 1);
    assert_ptr_equal(batch.jobs[0], &good);
    assert_int_equal(n_told, 100);
    struct batcher_stats stats;
    batcher_get_stats(b, &stats);
    assert_int_equal(stats.expired, 100);
    batch_complete(&batch);
    end(b, &batch);
}
static void admission_says_why(void **state) {
    struct batcher_config cfg = config;
    cost_set(&cfg.cost, (const double[]){0, 1e6, 0}); // 1 ms a token
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct admission why;
    struct job first, job = job_of(10), *one = &job;
    assert_int_equal(submit_one(b, &first, 60), STATUS_OK);
    job.deadline_ns = time_now_ns() + 20 * NS_PER_MS;
    assert_int_equal(batcher_submit(b, &one, 1, &why), STATUS_TIMEOUT);
    assert_int_equal(why.status, STATUS_TIMEOUT);
    assert_true(why.retry_after_ns > 0 && why.finish_ns > job.deadline_ns);
    assert_int_equal(queued_tokens(b), 60);
    batcher_close(b);
    assert_int_equal(batcher_submit(b, &one, 1, &why), STATUS_UNAVAILABLE);
    assert_int_equal(why.status, STATUS_UNAVAILABLE);
    end(b, &batch);
}
static void who_left_is_not_counted_on(void **state) {
    struct batcher_config cfg = config;                 // of two workers
    cost_set(&cfg.cost, (const double[]){0, 100e6, 0}); // 100 ms a token
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct admission why;
    struct job first, job = job_of(10), *one = &job;
    assert_int_equal(submit_one(b, &first, 60), STATUS_OK);
    job.deadline_ns = time_now_ns() + 5500 * NS_PER_MS; // 3 s of the others' for two, 6 s for one
    assert_int_equal(batcher_submit(b, &one, 1, &why), STATUS_OK);
    assert_true(batcher_cancel(b, &job));
    batcher_worker_left(b);
    assert_int_equal(batcher_submit(b, &one, 1, &why), STATUS_TIMEOUT);
    assert_int_equal(queued_tokens(b), 60);
    end(b, &batch);
}
static void passes_correct_the_cost(void **state) {
    struct batch batch;
    struct batcher *b = make(&config, &batch);
    struct batcher_stats stats;
    for (int i = 0; i < 3; i++) {
        struct job job;
        assert_int_equal(submit_one(b, &job, 50), STATUS_OK);
        assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
        batcher_ran(b, 0, &batch, i == 2 ? -1 : 5 * NS_PER_MS);
        batch_complete(&batch);
    }
    batcher_get_stats(b, &stats);
    assert_int_equal(stats.cost.n_updates, 2); // the third failed
    const int64_t ns = cost_predict_ns(&stats.cost, (struct cost_shape){50, 2500});
    assert_true(ns > 4 * NS_PER_MS && ns < 6 * NS_PER_MS);
    end(b, &batch);
}
static void another_policy_while_jobs_wait(void **state) {
    struct batcher_config cfg = config;
    cfg.reserve_tokens = 600;
    cfg.reserve_jobs = 20;
    struct batch batch;
    struct batcher *b = make(&cfg, &batch);
    struct error err = {.text = ""};
    struct policy_config policy = cfg.queues.policy, got;
    struct job jobs[4];
    assert_int_equal(batch.limits.max_rows, 600);
    assert_int_equal(batch.limits.max_jobs, 20);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(submit_one(b, &jobs[i], 20), STATUS_OK);
    }
    policy.buckets[0].max_batch_tokens = 601;
    assert_int_equal(batcher_configure(b, &policy, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "601"));
    assert_non_null(strstr(err.text, "restart"));
    policy.buckets[0].max_batch_tokens = 0;
    assert_int_equal(batcher_configure(b, &policy, &err), STATUS_INVALID);
    batcher_get_policy(b, &got);
    assert_int_equal(got.buckets[0].max_batch_tokens, 256);
    policy.buckets[0] = (struct bucket_limits){.up_to = 8, 600, 2, 0};
    policy.buckets[1] = (struct bucket_limits){.up_to = 512, 40, 20, 0};
    assert_int_equal(batcher_configure(b, &policy, &err), STATUS_OK);
    batcher_get_policy(b, &got);
    assert_int_equal(got.buckets[0].up_to, 8);
    assert_int_equal(queued_tokens(b), 80);
    for (int i = 0; i < 4; i += 2) {
        assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
        assert_int_equal(batch.n_jobs, 2);
        assert_ptr_equal(batch.jobs[0], &jobs[i]);
        assert_int_equal(batch.ride.bucket_up_to, 512);
        batch_complete(&batch);
    }
    end(b, &batch);
}
static void a_border_may_bring_something_urgent(void **state) {
    struct batcher_config cfg = config;
    cost_set(&cfg.cost, (const double[]){0, 1e6, 0});
    cfg.queues.policy.interrupt = true;
    cfg.queues.max_queued_tokens = 1000;
    struct batch batch, inner;
    struct batcher *b = make(&cfg, &batch);
    struct job long_job, short_job;
    assert_int_equal(batch_init(&inner, batcher_batch_limits(b), NULL), STATUS_OK);
    assert_int_equal(submit_one(b, &long_job, 500), STATUS_OK);
    assert_int_equal(batcher_next(b, 0, &batch), STATUS_OK);
    assert_false(batcher_interrupt(b, 0, 5, 6, &inner));
    assert_int_equal(submit_one(b, &short_job, 5), STATUS_OK);
    assert_true(batcher_interrupt(b, 0, 5, 6, &inner));
    assert_ptr_equal(inner.jobs[0], &short_job);
    assert_int_equal(inner.reason, RELEASE_URGENT);
    assert_int_equal(inner.tokens.n_rows, 5);
    assert_int_equal(inner.ride.batch_id, 2);
    batcher_ran(b, 0, &inner, 5 * NS_PER_MS);
    batch_complete(&inner);
    assert_false(batcher_interrupt(b, 0, 4, 6, &inner));
    batcher_ran(b, 0, &batch, 500 * NS_PER_MS);
    batch_complete(&batch);
    batch_finish(&inner);
    end(b, &batch);
}

struct taker {
    struct batcher *b;
    struct batch batch;
    int number;
    enum status status;
};
static void *take_one(void *arg) {
    struct taker *t = arg;
    t->status = batcher_next(t->b, t->number, &t->batch);
    return NULL;
}
static void two_idle_workers_share(void **state) {
    struct taker takers[2];
    pthread_t threads[2];
    struct batcher *b = make(&config, &takers[0].batch);
    assert_int_equal(batch_init(&takers[1].batch, batcher_batch_limits(b), NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        takers[i].b = b;
        takers[i].number = i;
        pthread_create(&threads[i], NULL, take_one, &takers[i]);
    }
    struct batcher_stats stats;
    for (batcher_get_stats(b, &stats); stats.n_waiting_workers < 2; batcher_get_stats(b, &stats)) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    struct job jobs[8], *all[8];
    for (int i = 0; i < 8; i++) {
        jobs[i] = job_of(6);
        all[i] = &jobs[i];
    }
    assert_int_equal(batcher_submit(b, all, 8, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(takers[i].status, STATUS_OK);
        assert_int_equal(takers[i].batch.n_jobs, 4);
        batch_complete(&takers[i].batch);
    }
    batch_finish(&takers[1].batch);
    end(b, &takers[0].batch);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_become_a_batch),
        cmocka_unit_test(modes_without_buckets_name_none),
        cmocka_unit_test(submit_takes_all_or_none),
        cmocka_unit_test(tokens_that_wait_are_capped),
        cmocka_unit_test(cancel_takes_out_what_waits),
        cmocka_unit_test(who_has_left_is_not_chosen),
        cmocka_unit_test(closed_means_no_more),
        cmocka_unit_test(waits_as_long_as_told),
        cmocka_unit_test(limits_hold_the_largest_batch),
        cmocka_unit_test(bad_limits_are_refused),
        cmocka_unit_test(who_is_late_is_told_and_not_computed),
        cmocka_unit_test(admission_says_why),
        cmocka_unit_test(who_left_is_not_counted_on),
        cmocka_unit_test(passes_correct_the_cost),
        cmocka_unit_test(another_policy_while_jobs_wait),
        cmocka_unit_test(a_border_may_bring_something_urgent),
        cmocka_unit_test(two_idle_workers_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
