/* tuner.c - the search on small loads: what it must find, what it must say, that it repeats itself.
 * The five mixes that bench/tuner compares at length are here in small. */
#include "batching/tuner.h"
#include "tests/unit/test.h"

#include <string.h>

#include "base/timing.h"

enum { N_CLASSES = 2, MAX_TOKENS = 512 };
static const int classes[N_CLASSES] = {32, MAX_TOKENS};

/* The default configuration on a device of two small cores: 0.4 ms a pass, 0.11 ms a row. */
static struct sim_config config_of(enum batch_mode mode) {
    static const int bounds[] = {16, 32, 64, 128, 256, MAX_TOKENS};
    struct sim_config c = {.kind = SIM_QUEUES,
                           .queues = {.policy = {.mode = mode, .n_keys = 1, .key_weights = {1}},
                                      .max_seq_len = MAX_TOKENS,
                                      .max_queued_jobs = 2048,
                                      .max_queued_tokens = 262144,
                                      .n_workers = 1},
                           .coef = {400e3, 110e3, 45},
                           .noise = 0.05,
                           .timeout_ns = 30 * NS_PER_S,
                           .seed = 1};
    struct policy_config *p = &c.queues.policy;
    if (mode == BATCH_PADDED || mode == BATCH_NONE) {
        p->buckets[p->n_buckets++] = (struct bucket_limits){MAX_TOKENS, 16384, 32, 5 * NS_PER_MS};
        return c;
    }
    for (size_t i = 0; i < N_ITEMS(bounds); i++) {
        p->buckets[p->n_buckets++] = (struct bucket_limits){bounds[i], 256, 64, 0};
    }
    return c;
}
static void named(struct lengths *out, const char *name) {
    struct error err = {.text = ""};
    memset(out, 0, sizeof(*out));
    assert_int_equal(lengths_named(out, name, 3, MAX_TOKENS, &err), STATUS_OK);
}
/* n arrivals of a mix at a share of what `c` can do. */
static void load_of(struct trace *out, const struct sim_config *c, const char *name, double share,
                    int n) {
    struct lengths lengths;
    double capacity = 0;
    named(&lengths, name);
    assert_int_equal(tuner_capacity(&capacity, c, &lengths, n, NULL), STATUS_OK);
    assert_true(capacity > 0);
    trace_generate(out, ARRIVE_POISSON, share * capacity, n, &lengths, 5);
}
static void run(struct tune_report *out, const struct sim_config *c, const struct trace *t,
                int64_t p99_ns) {
    struct error err = {.text = ""};
    const struct tune_goal goal = {.p99_ns = p99_ns};
    assert_int_equal(tuner_run(out, c, t, &goal, classes, N_CLASSES, &err), STATUS_OK);
    assert_in_range(out->n_rows, 2, TUNE_MAX_ROWS);
    assert_in_range(out->best, 0, out->n_rows - 1);
    assert_false(out->cut_short);
}

static void test_beats_the_default_on_each_mix(void **state) {
    static const char *const mixes[] = {"chat", "reviews", "queries", "documents", "bimodal"};
    const struct sim_config c = config_of(BATCH_BUCKETED);
    (void)state;
    for (size_t i = 0; i < N_ITEMS(mixes); i++) {
        struct trace t = {.n = 0};
        struct tune_report r = {.rows = NULL};
        load_of(&t, &c, mixes[i], 0.8, 1500);
        run(&r, &c, &t, 0);
        const struct tune_row *before = &r.rows[0], *best = &r.rows[r.best];
        assert_memory_equal(&before->policy, &c.queues.policy, sizeof(before->policy));
        const bool less_wait = best->at_load.all.p99_ns < before->at_load.all.p99_ns;
        const bool more_work = best->capacity > before->capacity;
        assert_true(r.best > 0 && (less_wait || more_work));
        assert_int_equal(policy_config_check(&best->policy, MAX_TOKENS, NULL), STATUS_OK);
        tune_report_finish(&r);
        trace_finish(&t);
    }
}
static void test_packed_keeps_its_bounds(void **state) {
    const struct sim_config c = config_of(BATCH_PACKED);
    struct trace t = {.n = 0};
    struct tune_report r = {.rows = NULL};
    (void)state;
    load_of(&t, &c, "bimodal", 0.8, 1500);
    run(&r, &c, &t, 0);
    for (int i = 0; i < r.n_rows; i++) {
        assert_int_equal(r.rows[i].policy.n_buckets, c.queues.policy.n_buckets);
        for (int b = 0; b < c.queues.policy.n_buckets; b++) {
            assert_int_equal(r.rows[i].policy.buckets[b].up_to, c.queues.policy.buckets[b].up_to);
        }
    }
    tune_report_finish(&r);
    trace_finish(&t);
}
static void test_padded_needs_no_wait_at_light_load(void **state) {
    const struct sim_config c = config_of(BATCH_PADDED);
    struct trace t = {.n = 0};
    struct tune_report r = {.rows = NULL};
    (void)state;
    load_of(&t, &c, "chat", 0.05, 1500);
    run(&r, &c, &t, 1 * NS_PER_S);
    assert_true(r.rows[0].holds && r.rows[r.best].holds);
    assert_true(r.rows[r.best].capacity >= r.rows[0].capacity);
    tune_report_finish(&r);
    run(&r, &c, &t, 1); // a p99 of 1 ns: nothing holds it, the nearest waits for nobody
    assert_false(r.rows[r.best].holds);
    assert_int_equal(r.rows[r.best].policy.buckets[0].max_wait_ns, 0);
    for (int i = 0; i < r.n_rows; i++) {
        assert_false(r.rows[i].holds);
    }
    tune_report_finish(&r);
    trace_finish(&t);
}
/* Between what is easy and what nothing reaches there is a goal that only some rows hold. */
static void test_holds_what_can_be_held(void **state) {
    const struct sim_config c = config_of(BATCH_BUCKETED);
    struct trace t = {.n = 0};
    struct tune_report r = {.rows = NULL};
    (void)state;
    load_of(&t, &c, "chat", 0.8, 1500);
    run(&r, &c, &t, 1);
    int64_t least = INT64_MAX;
    for (int i = 0; i < r.n_rows; i++) {
        const int64_t p99 = r.rows[i].at_load.all.p99_ns;
        least = p99 < least ? p99 : least;
    }
    const int64_t before = r.rows[0].at_load.all.p99_ns;
    assert_true(least < before);
    tune_report_finish(&r);
    run(&r, &c, &t, (least + before) / 2);
    assert_false(r.rows[0].holds);
    assert_true(r.rows[r.best].holds);
    assert_true(r.rows[r.best].at_load.all.p99_ns <= (least + before) / 2);
    tune_report_finish(&r);
    trace_finish(&t);
}
static void test_repeats_itself(void **state) {
    const struct sim_config c = config_of(BATCH_BUCKETED);
    struct trace t = {.n = 0};
    struct tune_report a = {.rows = NULL}, b = {.rows = NULL};
    (void)state;
    load_of(&t, &c, "queries", 0.8, 600);
    run(&a, &c, &t, 0);
    run(&b, &c, &t, 0);
    assert_int_equal(a.n_rows, b.n_rows);
    assert_int_equal(a.best, b.best);
    for (int i = 0; i < a.n_rows; i++) {
        assert_true(a.rows[i].capacity == b.rows[i].capacity);
        assert_int_equal(a.rows[i].at_load.all.p99_ns, b.rows[i].at_load.all.p99_ns);
    }
    tune_report_finish(&a);
    tune_report_finish(&b);
    trace_finish(&t);
}
static void test_small_traces(void **state) {
    const struct sim_config c = config_of(BATCH_BUCKETED);
    const struct arrival one = {.n_tokens = 40}, long_one = {.n_tokens = MAX_TOKENS + 1};
    const struct tune_goal goal = {.p99_ns = 0};
    struct trace t = {.n = 0};
    struct tune_report r = {.rows = NULL};
    struct error err = {.text = ""};
    (void)state;
    assert_int_equal(tuner_run(&r, &c, &t, &goal, classes, N_CLASSES, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "no arrivals"));
    trace_add(&t, &one);
    run(&r, &c, &t, 0);
    assert_int_equal(r.n_arrivals, 1);
    assert_true(r.load == 0);
    assert_int_equal(r.rows[r.best].at_load.n_done, 1);
    tune_report_finish(&r);
    trace_add(&t, &long_one);
    assert_int_equal(tuner_run(&r, &c, &t, &goal, classes, N_CLASSES, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "arrival 2 has 513 tokens"));
    t.n = 1;
    const struct sim_config none = config_of(BATCH_NONE);
    assert_int_equal(tuner_run(&r, &none, &t, &goal, classes, N_CLASSES, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "none"));
    trace_finish(&t);
}
static void test_busiest_stretch(void **state) {
    const struct sim_config c = config_of(BATCH_PACKED);
    struct trace t = {.n = 0};
    struct tune_report r = {.rows = NULL};
    const struct tune_goal goal = {.until_ns = 1}; // long ago: the configuration in force alone
    (void)state;
    for (int i = 0; i < TUNE_MAX_ARRIVALS + 3000; i++) {
        const bool busy = i >= 3000;
        const int64_t at_ns = busy ? 3000 * NS_PER_S + (i - 3000) * NS_PER_MS : i * NS_PER_S;
        trace_add(&t, &(struct arrival){.at_ns = at_ns, .n_tokens = 5});
    }
    assert_int_equal(tuner_run(&r, &c, &t, &goal, classes, N_CLASSES, NULL), STATUS_OK);
    assert_int_equal(r.n_rows, 1);
    assert_int_equal(r.best, 0);
    assert_true(r.cut_short);
    assert_int_equal(r.n_arrivals, TUNE_MAX_ARRIVALS);
    assert_true(r.load > 999 && r.load < 1001);
    tune_report_finish(&r);
    trace_finish(&t);
}
static void test_front(void **state) {
    static const double rows[][2] = {{50, 100}, {40, 80},     {60, 90},
                                     {30, 50},  {40.2, 80.1}, {20, 60}};
    struct tune_row made[N_ITEMS(rows)];
    struct tune_report r = {.rows = made, .n_rows = (int)N_ITEMS(rows)};
    int front[8];
    (void)state;
    memset(made, 0, sizeof(made));
    for (size_t i = 0; i < N_ITEMS(rows); i++) {
        made[i].at_load.all.p99_ns = (int64_t)(rows[i][0] * NS_PER_MS);
        made[i].at_load.n_arrived = 1;
        made[i].capacity = rows[i][1];
    }
    assert_int_equal(tune_report_front(&r, front, 8), 3);
    assert_int_equal(front[0], 5); // 20 ms
    assert_int_equal(front[1], 1); // 40 ms; row 4 is about the same, row 3 is beaten by 5
    assert_int_equal(front[2], 0); // row 2 is beaten by it
    assert_int_equal(tune_report_front(&r, front, 2), 2);
    assert_int_equal(front[0], 5);
    assert_int_equal(front[1], 0);
    assert_int_equal(tune_report_front(&r, front, 1), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beats_the_default_on_each_mix),
        cmocka_unit_test(test_packed_keeps_its_bounds),
        cmocka_unit_test(test_padded_needs_no_wait_at_light_load),
        cmocka_unit_test(test_holds_what_can_be_held),
        cmocka_unit_test(test_repeats_itself),
        cmocka_unit_test(test_small_traces),
        cmocka_unit_test(test_busiest_stretch),
        cmocka_unit_test(test_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
