/* timing_headers.c - the grammar of Server-Timing, Berth-Batch and TEI's headers. */
#include "bench/client/timing_headers.h"

#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static struct stages stages;
static struct timing server_timing(const char *value) {
    struct timing t;
    timing_start(&t);
    timing_read_server_timing(&t, &stages, value, strlen(value));
    return t;
}
static double ms_of(const struct timing *t, const char *name) {
    const int i = stages_find(&stages, name, strlen(name));
    return i >= 0 && t->has & (1U << i) ? (double)t->ms[i] : -1;
}
static void test_good(void **state) {
    static const struct {
        const char *value, *name;
        double ms;
    } cases[] = {
        {"queue;dur=1.25", "queue", 1.25},
        {"a, b;dur=2 , queue ; dur = 3.5", "queue", 3.5},
        {"queue;desc=\"a, b; dur=9\";dur=4", "queue", 4},
        {"queue;desc=\"a \\\" b\";dur=\"5\"", "queue", 5},
        {"queue;dur=6;dur=7", "queue", 6},        // of repeats the first counts
        {"queue;dur=6, queue;dur=7", "queue", 6}, // of stages too
        {"queue;DUR=1e2", "queue", 100},
        {"queue;flag;dur=1", "queue", 1},
        {", ,queue;dur=8,", "queue", 8},
        {"", "queue", -1},
        {"queue", "queue", -1},
        {"a-stage-whose-name-is-longer-than-it-may-be;dur=1, queue;dur=2", "queue", 2},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        const struct timing t = server_timing(cases[i].value);
        assert_false(t.is_malformed);
        assert_true(ms_of(&t, cases[i].name) == cases[i].ms);
    }
    const struct timing t = server_timing("queue;dur=1, total;dur=3");
    assert_true(t.total_ms == 3);
    assert_true(ms_of(&t, "total") == -1);
}
/* Nothing of a header that goes wrong in its middle counts. */
static void test_malformed(void **state) {
    static const char *const values[] = {
        "queue;dur=",
        "queue;dur=x",
        "queue;dur=-1",
        "queue;dur=nan",
        "queue;dur=inf",
        "queue;dur=0x10",
        "queue;dur=1;",
        "queue dur=1",
        "queue;dur=1 2",
        ";dur=1",
        "queue;dur=\"1",
        "queue;dur=1e999",
        "queue;dur=1,=",
        "\"queue\";dur=1",
        "queue;dur=1.2.3",
        "queue;dur=1\x80",
        "queue;dur=99999999999999999999999999999999999999999999",
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(values); i++) {
        const struct timing t = server_timing(values[i]);
        assert_true(t.is_malformed);
        assert_int_equal(t.has, 0);
    }
}
static struct timing batch(const char *value) {
    struct timing t;
    timing_start(&t);
    timing_read_batch(&t, value, strlen(value));
    return t;
}
static void test_batch(void **state) {
    static const char *const malformed[] = {
        "",
        "requests",
        "requests=",
        "requests=x",
        "requests=1.5",
        "requests=0, rows=4",
        "requests=1, tokens=5, rows=4",
        "requests=1, padding=2",
        "requests=1 jobs=1",
        "requests=1, jobs=99999999999",
        "requests=1,",
    };
    const struct timing t = batch("requests=8, jobs=12, tokens=312, rows=400, longest=41, "
                                  "bucket=64, padding=0.220, mode=bucketed, batches=2, new=word");
    (void)state;
    assert_true(t.has_batch);
    assert_int_equal(t.batch.n_requests, 8);
    assert_int_equal(t.batch.n_tokens, 312);
    assert_int_equal(t.batch.n_rows, 400);
    assert_int_equal(t.batch.longest, 41);
    assert_int_equal(t.batch.bucket, 64);
    assert_int_equal(t.batch.n_batches, 2);
    assert_true(t.batch.padding == 0.22);
    for (size_t i = 0; i < N_ITEMS(malformed); i++) {
        const struct timing bad = batch(malformed[i]);
        assert_true(bad.is_malformed);
        assert_false(bad.has_batch);
    }
}
static void test_tei(void **state) {
    struct timing t;
    (void)state;
    timing_start(&t);
    timing_read_tei(&t, &stages, "X-Queue-Time", 12, "3", 1);
    timing_read_tei(&t, &stages, "x-inference-time", 16, "5", 1);
    timing_read_tei(&t, &stages, "x-total-time", 12, "9", 1);
    timing_read_tei(&t, &stages, "x-compute-tokens", 16, "many", 4);
    assert_false(t.is_malformed);
    assert_true(ms_of(&t, "queue") == 3);
    assert_true(ms_of(&t, "infer") == 5);
    assert_true(t.total_ms == 9);
    timing_read_tei(&t, &stages, "x-queue-time", 12, "soon", 4);
    assert_true(t.is_malformed);
}
/* More names than there is room for are passed over, not told under another's name. */
static void test_many_names(void **state) {
    struct stages many;
    char name[STAGE_NAME_BYTES];
    (void)state;
    stages_init(&many);
    for (int i = 0; i < STAGES_MAX + 5; i++) {
        const int n = snprintf(name, sizeof(name), "stage%d", i);
        assert_int_equal(stages_find(&many, name, (size_t)n), i < STAGES_MAX ? i : -1);
        assert_int_equal(stages_find(&many, name, (size_t)n), i < STAGES_MAX ? i : -1);
    }
    assert_int_equal(stages_find(&many, "stage1", 6), 1);
    assert_int_equal(stages_find(&many, "stage", 5), -1);
    stages_finish(&many);
}
static int set_up(void **state) {
    (void)state;
    stages_init(&stages);
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    stages_finish(&stages);
    return 0;
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),       cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_batch),      cmocka_unit_test(test_tei),
        cmocka_unit_test(test_many_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
