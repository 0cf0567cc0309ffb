/* hist.c - counts and quantiles against sorted values. */
#include "bench/client/hist.h"

#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bench/client/draw.h"

static struct hist *make(void) {
    return xcalloc(1, sizeof(struct hist));
}
static void test_empty(void **state) {
    struct hist *h = make();
    (void)state;
    assert_int_equal(hist_quantile(h, 0.5), 0);
    assert_true(hist_mean(h) == 0);
    assert_int_equal(hist_count_le(h, INT64_MAX), 0);
    free(h);
}
/* Below 2,048 every value has a bin of its own. */
static void test_small_are_exact(void **state) {
    struct hist *h = make();
    (void)state;
    for (int64_t v = 2047; v >= 0; v--) {
        hist_record(h, v);
    }
    for (int64_t v = 0; v < 2048; v++) {
        assert_int_equal(hist_quantile(h, (double)(v + 1) / 2048), v);
        assert_int_equal(hist_count_le(h, v), v + 1);
    }
    free(h);
}
static void test_edges(void **state) {
    struct hist *h = make();
    (void)state;
    hist_record(h, -5);
    hist_record(h, INT64_MAX);
    assert_int_equal(h->min, 0);
    assert_int_equal(h->max, (INT64_C(1) << HIST_MAX_BITS) - 1);
    assert_int_equal(hist_quantile(h, 0), 0);
    assert_int_equal(hist_quantile(h, 1), h->max);
    free(h);
}
static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}
/* The true quantile or less than 0.1 % above it, over nine powers of ten. */
static void test_accuracy(void **state) {
    enum { N = 20000 };
    static const double quantiles[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
    struct hist *h = make(), *half = make();
    int64_t *values = xcalloc(N, sizeof(*values));
    (void)state;
    for (int i = 0; i < N; i++) {
        values[i] = (int64_t)(draw_at(1, i) >> (24 + draw_at(2, i) % 30));
        hist_record(i % 2 ? h : half, values[i]);
    }
    hist_add(h, half);
    qsort(values, N, sizeof(*values), compare);
    assert_int_equal(h->count, N);
    assert_int_equal(h->min, values[0]);
    assert_int_equal(h->max, values[N - 1]);
    for (size_t i = 0; i < N_ITEMS(quantiles); i++) {
        const int64_t is = hist_quantile(h, quantiles[i]);
        const int64_t wanted = values[(int)(quantiles[i] * N + 0.5) - 1];
        assert_true(is >= wanted && (double)is <= (double)wanted * 1.001 + 1);
    }
    free(values);
    free(half);
    free(h);
}
/* Adding to an empty one and adding an empty one change nothing. */
static void test_add_empty(void **state) {
    struct hist *h = make(), *empty = make();
    (void)state;
    hist_record(empty, 7);
    hist_add(h, empty);
    memset(empty, 0, sizeof(*empty));
    hist_add(h, empty);
    assert_int_equal(h->min, 7);
    assert_int_equal(h->max, 7);
    assert_int_equal(h->count, 1);
    free(h);
    free(empty);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),     cmocka_unit_test(test_small_are_exact),
        cmocka_unit_test(test_edges),     cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_add_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
