/* admission.c - who is let in: caps, predicted finish against deadline, and never a refusal while a
 * device has nothing to do. */
#include "batching/queues.h"
#include "tests/unit/batching/world.h"

static struct world w;

static struct admission admit(int n_tokens, int64_t within_ns, int key) {
    struct job job = {.n_tokens = n_tokens, .key = key}, *one = &job;
    job.deadline_ns = within_ns ? w.now_ns + within_ns : 0;
    return queues_admit(w.queues, &one, 1, w.now_ns);
}

static void an_idle_device_takes_whatever_comes(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    world_open(&w, &cfg);
    assert_int_equal(admit(512, 1, 0).status, STATUS_OK); // 91 ms in 1 ns
    assert_int_equal(admit(513, 0, 0).status, STATUS_TOO_LONG);
    world_push(&w, 512);
    assert_int_equal(admit(512, 1, 0).status, STATUS_TIMEOUT); // somebody waits now
    struct job *chosen[WORLD_CHOSEN];
    queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN);
    assert_int_equal(admit(8, NS_PER_MS, 0).status, STATUS_TIMEOUT); // and now the device is busy
    assert_int_equal(admit(8, 100 * NS_PER_MS, 0).status, STATUS_OK);
    w.now_ns += 90 * NS_PER_MS;
    assert_int_equal(admit(8, 4 * NS_PER_MS, 0).status, STATUS_OK); // almost done
    queues_ran(w.queues, 0, (struct cost_shape){1, 1}, -1, w.now_ns);
    assert_int_equal(admit(512, 1, 0).status, STATUS_OK);
    world_close(&w);
}
static void a_second_device_that_is_free_counts(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    cfg.n_workers = 2;
    world_open(&w, &cfg);
    world_push(&w, 512);
    queues_choose(w.queues, 1, 1, w.now_ns, false, chosen, WORLD_CHOSEN);
    assert_int_equal(admit(512, 1, 0).status, STATUS_OK);
    queues_ran(w.queues, 1, (struct cost_shape){1, 1}, -1, w.now_ns);
    world_close(&w);
}
/* Work that two share takes one of them twice as long, and he is busy with the first batch. */
static void a_device_that_left_does_not_count(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    cfg.n_workers = 2;
    world_open(&w, &cfg);
    for (int i = 0; i < 200; i++) {
        world_push(&w, 64);
    }
    const int64_t both_ns = admit(64, 0, 0).finish_ns - w.now_ns;
    queues_worker_left(w.queues);
    const int64_t one_ns = admit(64, 0, 0).finish_ns - w.now_ns;
    assert_true(one_ns > both_ns * 19 / 10 && one_ns < both_ns * 21 / 10);
    world_close(&w);

    world_open(&w, &cfg);
    queues_worker_left(w.queues);
    world_push(&w, 512);
    queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN);
    assert_int_equal(admit(512, 1, 0).status, STATUS_TIMEOUT);
    queues_ran(w.queues, 0, (struct cost_shape){1, 1}, -1, w.now_ns);
    assert_int_equal(admit(512, 1, 0).status, STATUS_OK);
    world_close(&w);
}
/* The more waits, the later the finish; and what was promised is kept, as nobody else comes. */
static void the_finish_rises_and_is_right(void **state) {
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        const struct queues_config cfg = world_config(mode);
        struct rng rng = rng_of(mode + 1);
        struct job *chosen[WORLD_CHOSEN];
        int64_t last_ns = 0;
        world_open(&w, &cfg);
        world_push(&w, 40);
        world_run(&w, chosen);
        for (int i = 0; i < 400; i++) {
            const int64_t finish_ns = admit(64, 0, 0).finish_ns;
            assert_true(finish_ns >= last_ns);
            last_ns = finish_ns;
            world_push(&w, (int)rng_in(&rng, 40, 64));
        }
        const struct admission promise = admit(64, 0, 0);
        const struct job *job = world_push(&w, 64);
        const int64_t began_ns = w.now_ns;
        while (!world_ends(&w, job)) {
            world_run(&w, chosen);
        }
        const double ratio = (double)(promise.finish_ns - began_ns) / (double)(w.now_ns - began_ns);
        print_message("  %s: promised %.2f of what it took\n", batch_mode_names[mode], ratio);
        assert_true(ratio > 0.75 && ratio < 1.3); // padding was not measured yet
        world_close(&w);
    }
}
static void who_would_be_late_is_told_when_to_come_back(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    world_open(&w, &cfg);
    for (int i = 0; i < 100; i++) {
        world_push(&w, 64); // 4.2 ms each
    }
    const struct admission late = admit(64, 100 * NS_PER_MS, 0);
    assert_int_equal(late.status, STATUS_TIMEOUT);
    assert_true(late.retry_after_ns > 300 * NS_PER_MS && late.retry_after_ns < 400 * NS_PER_MS);
    assert_int_equal(late.retry_after_ns, late.finish_ns - w.now_ns - 100 * NS_PER_MS);
    assert_int_equal(admit(64, 500 * NS_PER_MS, 0).status, STATUS_OK);
    assert_int_equal(admit(64, 0, 0).status, STATUS_OK); // no deadline: only caps
    /* After that time, with nobody else there, the same request is let in. */
    int64_t until_ns = w.now_ns + late.retry_after_ns;
    struct job *chosen[WORLD_CHOSEN];
    while (w.now_ns < until_ns) {
        world_run(&w, chosen);
    }
    assert_int_equal(admit(64, 100 * NS_PER_MS, 0).status, STATUS_OK);
    world_close(&w);
}
static void a_request_is_taken_whole_or_not(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    cfg.max_queued_jobs = 20;
    cfg.max_queued_tokens = 1000;
    world_open(&w, &cfg);
    struct job *request[21];
    for (int i = 0; i < 21; i++) {
        request[i] = world_job(&w, 10);
    }
    assert_int_equal(queues_admit(w.queues, request, 21, w.now_ns).status, STATUS_OVERLOADED);
    assert_int_equal(queues_admit(w.queues, request, 20, w.now_ns).status, STATUS_OK);
    for (int i = 0; i < 20; i++) {
        request[i]->deadline_ns = w.now_ns + 9 * NS_PER_MS; // together they take 11
    }
    assert_int_equal(queues_admit(w.queues, request, 20, w.now_ns).status, STATUS_OK); // idle
    world_push(&w, 1);
    assert_int_equal(queues_admit(w.queues, request, 19, w.now_ns).status, STATUS_TIMEOUT);
    assert_int_equal(queues_admit(w.queues, request, 10, w.now_ns).status, STATUS_OK);
    const struct admission full = queues_admit(w.queues, request, 20, w.now_ns);
    assert_int_equal(full.status, STATUS_OVERLOADED);
    assert_true(full.retry_after_ns > 0);
    for (int i = 0; i < 2; i++) {
        world_push(&w, 500);
    }
    assert_int_equal(admit(1, 0, 0).status, STATUS_OVERLOADED); // tokens
    assert_true(admit(1, 0, 0).retry_after_ns > 0);
    world_close(&w);
}
/* One key has filled the queue with a second of work; another's short text is a matter of its
 * share, and only the flood itself is turned away. */
static void a_flood_is_not_the_neighbours_delay(void **state) {
    struct queues_config cfg = world_config(BATCH_PACKED);
    cfg.policy.n_keys = 2;
    cfg.policy.key_weights[1] = 1;
    world_open(&w, &cfg);
    for (int i = 0; i < 250; i++) {
        world_push(&w, 64);
    }
    assert_int_equal(admit(64, 300 * NS_PER_MS, 0).status, STATUS_TIMEOUT);
    assert_int_equal(admit(64, 300 * NS_PER_MS, 1).status, STATUS_OK);
    world_close(&w);
}
/* Padding that the model of single jobs does not see is learned from what batches took. */
static void measured_batches_correct_the_promise(void **state) {
    const struct queues_config cfg = world_config(BATCH_BUCKETED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    const double twice[COST_TERMS] = {world_coef[0] * 2, world_coef[1] * 2, world_coef[2] * 2};
    for (int i = 0; i < 200; i++) {
        world_push(&w, 60);
        queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN);
        queues_ran(w.queues, 0, (struct cost_shape){60, 3600},
                   (int64_t)(twice[0] + twice[1] * 60 + twice[2] * 3600), w.now_ns);
        cost_set(queues_cost(w.queues), world_coef); // as if the model could not learn it
    }
    const int64_t finish_ns = admit(60, 0, 0).finish_ns - w.now_ns;
    assert_true(finish_ns > 8 * NS_PER_MS && finish_ns < 9 * NS_PER_MS); // 4.1 alone
    world_close(&w);
}
/* Three times what the device can do, which is a little slower than predicted: who was let in is
 * still answered, and before the last moment, since an answer has to travel. */
enum { WITHIN_MS = 1000, EVERY_US = 1400, N_ARRIVALS = 3500 };
static int arrive(int *n_arrived, int64_t until_ns) {
    int n_in = 0;
    for (; *n_arrived < N_ARRIVALS; (*n_arrived)++) {
        struct job *job = &w.jobs[*n_arrived];
        const int64_t at_ns = NS_PER_S + (int64_t)*n_arrived * EVERY_US * 1000;
        if (at_ns > until_ns) {
            break;
        }
        *job = (struct job){.n_tokens = 64, .wants_deadline = true};
        job->deadline_ns = at_ns + WITHIN_MS * NS_PER_MS;
        if (!queues_admit(w.queues, &job, 1, at_ns).status) {
            queues_push(w.queues, job, at_ns);
            n_in++;
        }
    }
    return n_in;
}
static void who_is_let_in_has_time_to_spare(void **state) {
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    int n_arrived = 0, n_in = 0, n_good = 0, n_spare = 0;
    world_open(&w, &cfg);
    n_in = arrive(&n_arrived, w.now_ns);
    while (queues_n_jobs(w.queues) > 0) {
        const struct decision d =
            queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN);
        w.now_ns += d.cost_ns + d.cost_ns / 25;
        n_in += arrive(&n_arrived, w.now_ns);
        queues_ran(w.queues, 0, (struct cost_shape){1, 1}, -1, w.now_ns);
        for (int i = 0; i < d.n_jobs; i++) {
            n_good += w.now_ns <= chosen[i]->deadline_ns;
            n_spare += w.now_ns <= chosen[i]->deadline_ns - 5 * NS_PER_MS;
        }
        while (queues_expire(w.queues, w.now_ns, chosen, WORLD_CHOSEN) > 0) {
        }
    }
    print_message("  %d let in, %d in time, %d by 5 ms\n", n_in, n_good, n_spare);
    assert_true(n_in > N_ARRIVALS / 4 && n_in < N_ARRIVALS / 2);
    assert_true(n_good == n_in && n_spare >= n_in * 98 / 100);
    world_close(&w);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_device_takes_whatever_comes),
        cmocka_unit_test(a_second_device_that_is_free_counts),
        cmocka_unit_test(a_device_that_left_does_not_count),
        cmocka_unit_test(the_finish_rises_and_is_right),
        cmocka_unit_test(who_would_be_late_is_told_when_to_come_back),
        cmocka_unit_test(a_request_is_taken_whole_or_not),
        cmocka_unit_test(a_flood_is_not_the_neighbours_delay),
        cmocka_unit_test(measured_batches_correct_the_promise),
        cmocka_unit_test(who_is_let_in_has_time_to_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
