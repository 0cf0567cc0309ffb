/* schedule.c - rates parsed, arrivals counted, and their scatter. */
#include "bench/client/schedule.h"

#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/timing.h"

static struct rate_plan plan_of(const char *text) {
    struct rate_plan p;
    struct error err = {""};
    assert_int_equal(rate_plan_parse(&p, text, 10, &err), STATUS_OK);
    return p;
}
static void test_parse(void **state) {
    static const char *const bad[] = {
        "",        "x",         "-5",    "0",     "100:",      "100:0",  "100-",
        "100,200", "nan",       "inf",   "1e9",   "100:10,",   "100:-1", "100 :10",
        "0x10",    "100:10 20", "0-0:5", "1:2:3", "100,100:10"};
    (void)state;
    struct rate_plan p = plan_of("100");
    assert_int_equal(p.n, 1);
    assert_true(rate_plan_seconds(&p) == 10 && rate_plan_requests(&p) == 1000);
    p = plan_of("100:5,100-300:10s,0:1,12.5:2");
    assert_int_equal(p.n, 4);
    assert_true(rate_plan_seconds(&p) == 18 && rate_plan_requests(&p) == 500 + 2000 + 25);
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        struct error err = {""};
        assert_int_equal(rate_plan_parse(&p, bad[i], 10, &err), STATUS_INVALID);
        assert_true(err.text[0]);
    }
}
struct seen {
    int n_warm, n;
    int64_t last_ns;
    double mean_gap, variance; // of the gaps, in seconds
};
static struct seen walk(enum arrival_kind kind, const char *rate, double warmup_s, uint64_t seed) {
    struct schedule s;
    struct due due;
    struct seen seen = {.n = 0};
    const struct rate_plan p = plan_of(rate);
    double sum = 0, squares = 0;
    int64_t before = 0;
    schedule_init(&s, kind, &p, NULL, 1, warmup_s, seed);
    while (schedule_next(&s, &due)) {
        assert_true(due.at_ns >= before);
        assert_int_equal(due.is_warmup, due.at_ns < (int64_t)(warmup_s * 1e9));
        assert_int_equal(due.index, due.is_warmup ? seen.n_warm : seen.n);
        const double gap = (double)(due.at_ns - before) / 1e9;
        sum += gap, squares += gap * gap;
        before = seen.last_ns = due.at_ns;
        seen.n_warm += due.is_warmup;
        seen.n += !due.is_warmup;
    }
    assert_false(schedule_next(&s, &due));
    seen.mean_gap = sum / (seen.n + seen.n_warm);
    seen.variance = squares / (seen.n + seen.n_warm) - seen.mean_gap * seen.mean_gap;
    return seen;
}
/* A constant rate has no luck: the number is exact, also over many gaps that no double can hold. */
static void test_constant(void **state) {
    (void)state;
    struct seen seen = walk(ARRIVE_CONSTANT, "7000", 0, 1);
    assert_int_equal(seen.n, 70000);
    seen = walk(ARRIVE_CONSTANT, "3000", 0.5, 1);
    assert_int_equal(seen.n_warm, 1500);
    assert_int_equal(seen.n, 30000);
    seen = walk(ARRIVE_CONSTANT, "100:2,0:3,50:4", 0, 1);
    assert_int_equal(seen.n, 400);
    assert_true(seen.last_ns >= 8970 * NS_PER_MS && seen.last_ns < 9 * NS_PER_S);
    seen = walk(ARRIVE_CONSTANT, "0-1000:10", 0, 1);
    assert_int_equal(seen.n, 5000);
}
/* In the first half of a ramp from nothing a quarter of the requests come. */
static void test_ramp(void **state) {
    struct schedule s;
    struct due due;
    const struct rate_plan p = plan_of("0-1000:10");
    int n_early = 0;
    (void)state;
    schedule_init(&s, ARRIVE_CONSTANT, &p, NULL, 1, 0, 1);
    while (schedule_next(&s, &due)) {
        n_early += due.at_ns < 5 * NS_PER_S;
    }
    assert_true(abs(n_early - 1250) <= 1);
}
static void test_scatter(void **state) {
    (void)state;
    const struct seen poisson = walk(ARRIVE_POISSON, "5000", 0, 3);
    assert_true(abs(poisson.n - 50000) < 5 * 224); // five standard deviations
    assert_true(fabs(poisson.variance / pow(poisson.mean_gap, 2) - 1) < 0.05);
    const struct seen bursts = walk(ARRIVE_BURSTS, "5000", 0, 3);
    assert_true(abs(bursts.n - 50000) < 5 * 447);
    assert_true(fabs(bursts.variance / pow(bursts.mean_gap, 2) - 4) < 0.4);
}
static void test_seed(void **state) {
    (void)state;
    assert_int_equal(walk(ARRIVE_POISSON, "500", 1, 3).last_ns,
                     walk(ARRIVE_POISSON, "500", 1, 3).last_ns);
    assert_int_not_equal(walk(ARRIVE_POISSON, "500", 1, 3).last_ns,
                         walk(ARRIVE_POISSON, "500", 1, 4).last_ns);
}
static void test_trace(void **state) {
    struct trace trace = {.n = 0};
    struct schedule s;
    struct due due;
    int n_warm = 0;
    (void)state;
    for (int i = 0; i < 4; i++) {
        trace_add(&trace, &(struct arrival){.at_ns = i * NS_PER_S, .n_tokens = 10 + i});
    }
    schedule_init(&s, ARRIVE_CONSTANT, NULL, &trace, 2, 1.5, 1);
    while (schedule_next(&s, &due) && due.is_warmup) {
        assert_null(due.arrival);
        n_warm++;
    }
    assert_int_equal(n_warm, 4); // the trace's mean rate: 4 in 1.5 s
    for (int i = 0; i < 4; i++) {
        assert_int_equal(due.index, i);
        assert_int_equal(due.arrival->n_tokens, 10 + i);
        assert_int_equal(due.at_ns, 1500 * NS_PER_MS + i * NS_PER_S / 2);
        assert_int_equal(schedule_next(&s, &due), i < 3);
    }
    trace_finish(&trace);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse), cmocka_unit_test(test_constant),
        cmocka_unit_test(test_ramp),  cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_seed),  cmocka_unit_test(test_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
