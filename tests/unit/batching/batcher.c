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
        cmocka_unit_test(closed_means_no_more),
        cmocka_unit_test(waits_as_long_as_told),
        cmocka_unit_test(limits_hold_the_largest_batch),
        cmocka_unit_test(bad_limits_are_refused),
        cmocka_unit_test(two_idle_workers_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
