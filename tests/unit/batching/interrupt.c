/* interrupt.c - what runs at the layer borders of a long batch. */
#include "batching/queues.h"
#include "tests/unit/batching/world.h"

enum { N_LAYERS = 12 };
static struct world w;

static void start_long(enum batch_mode mode, bool interrupt) {
    struct queues_config cfg = world_config(mode);
    struct job *chosen[WORLD_CHOSEN];
    cfg.policy.interrupt = interrupt;
    world_open(&w, &cfg);
    world_push(&w, 512); // 91 ms
    queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN);
}
static struct decision at_border(int left, struct job **chosen) {
    return queues_interrupt(w.queues, 0, left, N_LAYERS, w.now_ns, chosen, WORLD_CHOSEN);
}
static void urgent_short_jobs_run_in_between(void **state) {
    const enum batch_mode modes[] = {BATCH_NONE, BATCH_BUCKETED, BATCH_PACKED};
    for (size_t m = 0; m < N_ITEMS(modes); m++) {
        struct job *chosen[WORLD_CHOSEN];
        start_long(modes[m], true);
        assert_int_equal(at_border(11, chosen).kind, DECIDE_IDLE); // nothing waits
        world_push(&w, 512);
        assert_int_equal(at_border(11, chosen).kind, DECIDE_IDLE); // it can wait
        struct job *job = world_push(&w, 8);
        struct decision d = at_border(11, chosen);
        assert_int_equal(d.kind, DECIDE_RUN);
        assert_int_equal(d.reason, RELEASE_URGENT);
        assert_int_equal(d.n_jobs, 1);
        assert_ptr_equal(chosen[0], job);
        assert_int_equal(job->chosen_ns, w.now_ns);
        world_push(&w, 8);
        assert_int_equal(at_border(11, chosen).kind, DECIDE_IDLE); // never one inside another
        queues_ran(w.queues, 0, (struct cost_shape){8, 64}, 600000, w.now_ns);
        assert_int_equal(at_border(10, chosen).kind, DECIDE_RUN);
        queues_ran(w.queues, 0, (struct cost_shape){8, 64}, 600000, w.now_ns);
        queues_ran(w.queues, 0, (struct cost_shape){512, 512 * 512}, 91 * NS_PER_MS, w.now_ns);
        assert_int_equal(at_border(10, chosen).kind, DECIDE_IDLE); // nothing runs
        world_close(&w);
    }
}
static void not_when_it_is_off_or_padded(void **state) {
    struct job *chosen[WORLD_CHOSEN];
    start_long(BATCH_PACKED, false);
    world_push(&w, 8);
    assert_int_equal(at_border(11, chosen).kind, DECIDE_IDLE);
    world_close(&w);
    start_long(BATCH_PADDED, true);
    world_push(&w, 8);
    assert_int_equal(at_border(11, chosen).kind, DECIDE_IDLE);
    world_close(&w);
}
static void only_what_is_worth_it(void **state) {
    struct job *chosen[WORLD_CHOSEN];
    start_long(BATCH_PACKED, true);
    world_push(&w, 100);                                      // 7.7 ms
    assert_int_equal(at_border(3, chosen).kind, DECIDE_IDLE); // of 23 left: not short
    assert_int_equal(at_border(12, chosen).kind, DECIDE_RUN); // of 91: it is
    queues_ran(w.queues, 0, (struct cost_shape){1, 1}, -1, w.now_ns);
    struct job *low = world_job(&w, 8);
    low->priority = PRIORITY_LOW; // it would have come after the batch anyway
    queues_push(w.queues, low, w.now_ns);
    assert_int_equal(at_border(12, chosen).kind, DECIDE_IDLE);
    struct job *late = world_job(&w, 8);
    late->deadline_ns = w.now_ns;
    queues_push(w.queues, late, w.now_ns); // will be given up, not computed
    assert_int_equal(at_border(12, chosen).kind, DECIDE_IDLE);
    world_close(&w);

    struct queues_config cfg = world_config(BATCH_PACKED);
    cfg.policy.interrupt = true;
    world_open(&w, &cfg);
    for (int i = 0; i < 30; i++) {
        world_push(&w, 8);
    }
    queues_choose(w.queues, 0, 0, w.now_ns, false, chosen, WORLD_CHOSEN); // 30 jobs, 13 ms
    world_push(&w, 8); // gains 13 ms, costs thirty others 0.6
    assert_int_equal(at_border(12, chosen).kind, DECIDE_IDLE);
    world_close(&w);
}
/* Short jobs without end: the long batch takes at most two thirds as long again. */
static void the_long_batch_still_ends(void **state) {
    struct job *chosen[WORLD_CHOSEN];
    start_long(BATCH_PACKED, true);
    int64_t inside_ns = 0;
    for (int left = N_LAYERS - 1; left >= 0; left--) {
        for (int i = 0; i < 60; i++) {
            world_push(&w, 16);
        }
        for (;;) { // a border may be asked again and again
            const struct decision d = at_border(left, chosen);
            if (d.kind != DECIDE_RUN) {
                break;
            }
            assert_true(d.cost_ns <= 25 * NS_PER_MS);
            inside_ns += d.cost_ns;
            w.now_ns += d.cost_ns;
            queues_ran(w.queues, 0, (struct cost_shape){d.n_rows, 16 * d.n_rows}, d.cost_ns,
                       w.now_ns);
        }
        w.now_ns += 91 * NS_PER_MS / N_LAYERS;
    }
    assert_true(inside_ns > 40 * NS_PER_MS && inside_ns <= 61 * NS_PER_MS);
    world_close(&w);
}
/* The model is told the long pass's own time, and nothing of what ran inside is taken off it. */
static void interruptions_are_not_the_models_error(void **state) {
    struct job *chosen[WORLD_CHOSEN];
    start_long(BATCH_PACKED, true);
    const struct cost_shape whole = {512, 512 * 512};
    const int64_t before_ns = cost_predict_ns(queues_cost(w.queues), whole);
    world_push(&w, 8);
    const struct decision d = at_border(6, chosen);
    assert_int_equal(d.kind, DECIDE_RUN);
    w.now_ns += 40 * NS_PER_MS; // a page fault of the worst kind, say
    queues_ran(w.queues, 0, (struct cost_shape){8, 64}, -1, w.now_ns);
    queues_ran(w.queues, 0, whole, before_ns, w.now_ns);
    const int64_t after_ns = cost_predict_ns(queues_cost(w.queues), whole);
    assert_true(after_ns > before_ns * 99 / 100 && after_ns < before_ns * 101 / 100);
    assert_true(cost_error(queues_cost(w.queues)) < 0.01);
    world_close(&w);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_short_jobs_run_in_between),
        cmocka_unit_test(not_when_it_is_off_or_padded),
        cmocka_unit_test(only_what_is_worth_it),
        cmocka_unit_test(the_long_batch_still_ends),
        cmocka_unit_test(interruptions_are_not_the_models_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
