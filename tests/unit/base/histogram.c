#include "base/histogram.h"
#include "tests/unit/test.h"
#include <stdlib.h>

static void quantiles_are_within_a_bin(void **state) {
    struct histogram *h = calloc(1, sizeof(*h));
    assert_int_equal(histogram_quantile(h, 0.5), 0);
    for (int v = 1; v <= 100000; v++) {
        histogram_record(h, v);
    }
    for (double q = 0.01; q <= 1.0; q += 0.01) {
        const double want = q * 100000, got = (double)histogram_quantile(h, q);
        assert_true(got >= want - 1 && got <= want * (1 + 1.0 / HISTOGRAM_SUB) + 1);
    }
    assert_int_equal(atomic_load(&h->count), 100000);
    assert_int_equal(atomic_load(&h->sum), 5000050000);
    free(h);
}
static void takes_every_value(void **state) {
    struct histogram *h = calloc(1, sizeof(*h));
    const int64_t values[] = {-5, 0, 1, 31, 32, 33, INT64_C(1) << 40, INT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        histogram_record(h, values[i]);
    }
    assert_int_equal(atomic_load(&h->count), 8);
    assert_int_equal(histogram_quantile(h, 0.0), 0);
    assert_true(histogram_quantile(h, 1.0) > INT64_C(1) << 40);
    free(h);
}
static void counts_below_a_bound(void **state) {
    struct histogram *h = calloc(1, sizeof(*h));
    for (int v = 0; v < 1000; v++) {
        histogram_record(h, v);
    }
    assert_int_equal(histogram_count_le(h, 31), 32);
    assert_int_equal(histogram_count_le(h, 1 << 20), 1000);
    const uint64_t half = histogram_count_le(h, 500);
    assert_true(half > 480 && half <= 501);
    free(h);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_bin),
        cmocka_unit_test(takes_every_value),
        cmocka_unit_test(counts_below_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
