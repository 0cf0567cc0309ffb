/* criteria.c - the grammar of --fail-if and --find-rate, and what it looks at. */
#include "bench/client/criteria.h"

#include "tests/unit/test.h"

#include <math.h>
#include <string.h>

static void test_good(void **state) {
    static const struct {
        const char *text;
        enum metric metric;
        double quantile;
        enum comparison comparison;
        double value;
    } cases[] = {
        {"p99>20ms", METRIC_QUANTILE, 0.99, ABOVE, 20},
        {" p99.9 >= 1.5 s ", METRIC_QUANTILE, 0.999, ABOVE_OR_EQUAL, 1500},
        {"p50<100us", METRIC_QUANTILE, 0.5, BELOW, 0.1},
        {"p100<=1ms", METRIC_QUANTILE, 1, BELOW_OR_EQUAL, 1},
        {"mean>1s", METRIC_MEAN, 0, ABOVE, 1000},
        {"max>2ms", METRIC_MAX, 0, ABOVE, 2},
        {"min<2ms", METRIC_MIN, 0, BELOW, 2},
        {"throughput<100", METRIC_THROUGHPUT, 0, BELOW, 100},
        {"throughput<100/s", METRIC_THROUGHPUT, 0, BELOW, 100},
        {"errors>0", METRIC_ERRORS, 0, ABOVE, 0},
        {"errors>1%", METRIC_ERROR_RATE, 0, ABOVE, 0.01},
        {"error_rate>0.01", METRIC_ERROR_RATE, 0, ABOVE, 0.01},
        {"padding>30%", METRIC_PADDING, 0, ABOVE, 0.3},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct criterion c;
        struct error err;
        assert_int_equal(criterion_parse(&c, cases[i].text, &err), STATUS_OK);
        assert_int_equal(c.metric, cases[i].metric);
        assert_true(fabs(c.quantile - cases[i].quantile) < 1e-12);
        assert_int_equal(c.comparison, cases[i].comparison);
        assert_true(fabs(c.value - cases[i].value) < 1e-9);
        assert_string_equal(c.text, cases[i].text);
    }
}
static void test_bad(void **state) {
    static const char *const texts[] = {
        "",
        "p99",
        "p99>",
        "p99>20",
        "p99=20ms",
        "p99>>20ms",
        "p99>-1ms",
        "p99>20 min",
        "p101>1ms",
        "p>1ms",
        "q99>1ms",
        "p99>20msx",
        "p99>1e3ms",
        "p99>nanms",
        "errors>",
        "padding>2",
        "error_rate>5",
        "errors>200%",
        "throughput>1ms",
        "latency>1ms",
        "p99>0000000000000000000000000000000000000000000000000000000000000000000001ms",
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(texts); i++) {
        struct criterion c;
        struct error err = {""};
        assert_int_equal(criterion_parse(&c, texts[i], &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "expected"));
    }
}
static void test_goal(void **state) {
    static const char *const bad[] = {"p99>50ms", "throughput=5", "p99=0ms", "p99=50", "errors=1%"};
    struct criterion c;
    struct error err;
    (void)state;
    assert_int_equal(goal_parse(&c, "p99=50ms", &err), STATUS_OK);
    assert_int_equal(c.comparison, ABOVE);
    assert_true(c.value == 50);
    assert_int_equal(goal_parse(&c, "mean <= 1s", &err), STATUS_OK);
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        assert_int_equal(goal_parse(&c, bad[i], &err), STATUS_INVALID);
    }
}
static bool holds(const char *text, const struct round *r) {
    struct criterion c;
    assert_int_equal(criterion_parse(&c, text, NULL), STATUS_OK);
    return criterion_holds(&c, r);
}
static void test_holds(void **state) {
    struct round r = {.sum = record_create(10), .throughput = 90};
    (void)state;
    assert_true(holds("p99>1s", &r)); // no answer is no good answer
    assert_true(holds("padding>90%", &r));
    for (int i = 1; i <= 100; i++) {
        hist_record(&r.sum->latency, i * 1000);
    }
    r.sum->n_due = 100;
    r.sum->n_failed[FAILURE_429] = 1;
    r.sum->n_failed[FAILURE_TIMEOUT] = 1;
    assert_true(holds("p50>0.049ms", &r));
    assert_false(holds("p50>0.051ms", &r));
    assert_true(holds("max>=100us", &r));
    assert_false(holds("max>100us", &r));
    assert_true(holds("min<=1us", &r));
    assert_false(holds("min<1us", &r));
    assert_true(holds("throughput<100", &r));
    assert_false(holds("throughput<90", &r));
    assert_true(holds("errors>1", &r));
    assert_false(holds("errors>2", &r));
    assert_true(holds("errors>=2%", &r));
    assert_false(holds("errors>2%", &r));
    round_finish(&r);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_goal),
        cmocka_unit_test(test_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
