/* rounds.c - confidence intervals, and records that are added up. */
#include "bench/client/rounds.h"

#include "tests/unit/test.h"

#include <math.h>

#include "base/timing.h"

static void test_interval(void **state) {
    static const double values[] = {10, 12, 14};
    (void)state;
    const struct interval three = interval_of(values, 3); // s = 2, t(2) = 4.303
    assert_true(three.mean == 12);
    assert_true(fabs(three.half_width - 4.303 * 2 / sqrt(3)) < 1e-9);
    assert_true(isinf(interval_of(values, 1).half_width));
    double many[100];
    for (int i = 0; i < 100; i++) {
        many[i] = i % 2;
    }
    assert_true(fabs(interval_of(many, 100).half_width - 1.96 * sqrt(0.25 * 100 / 99 / 100)) <
                1e-9);
}
static struct shot shot_at(int64_t due_ns, int64_t latency_ns) {
    return (struct shot){.due_ns = due_ns,
                         .turned_ns = due_ns + 10,
                         .sent_ns = due_ns + 20,
                         .done_ns = due_ns + latency_ns,
                         .n_words = 5,
                         .is_recorded = true};
}
/* A run of unknown length keeps its whole series: slots are joined, counts stay. */
static void test_slots_join(void **state) {
    struct record *r = record_create(4), *sum = record_create(4);
    struct stages stages;
    struct answer a;
    int64_t n = 0;
    (void)state;
    stages_init(&stages);
    answer_start(&a);
    a.http_status = 200;
    record_begin(r, 0, INT64_MAX, 0);
    for (int second = 0; second < 1000; second++) {
        const struct shot shot = shot_at(second * NS_PER_S, NS_PER_MS);
        record_answer(r, &shot, &a, &stages);
    }
    record_add(sum, r);
    for (int i = 0; i < RECORD_SLOTS; i++) {
        n += sum->slots[i].n_ok;
    }
    assert_int_equal(n, 1000);
    assert_true(sum->slot_ns * RECORD_SLOTS > 999 * NS_PER_S);
    assert_int_equal(sum->n_ok, 1000);
    assert_int_equal(sum->n_samples, 4); // no more than there is room for
    assert_int_equal(sum->buckets[0].up_to, 8);
    record_destroy(r);
    record_destroy(sum);
    stages_finish(&stages);
}
/* A batch of two that both tell it is one batch. */
static void test_batches_count_once(void **state) {
    struct record *r = record_create(1);
    struct stages stages;
    struct answer a;
    (void)state;
    stages_init(&stages);
    answer_start(&a);
    a.http_status = 200;
    a.timing.has_batch = true;
    a.timing.batch = (struct batch_ride){
        .n_requests = 2, .n_tokens = 30, .n_rows = 40, .bucket = 32, .n_batches = 1};
    record_begin(r, 0, INT64_MAX, 0);
    for (int i = 0; i < 2; i++) {
        const struct shot shot = shot_at(0, NS_PER_MS);
        record_answer(r, &shot, &a, &stages);
    }
    assert_true(r->n_batches == 1 && r->batch_rows == 40 && r->batch_tokens == 30);
    assert_true(r->padding_bins[5] == 1); // 0.25
    record_destroy(r);
    stages_finish(&stages);
}
/* Refusals are no latencies; timeouts are, of at least their age. The warm-up is neither. */
static void test_failures(void **state) {
    struct record *r = record_create(10);
    struct stages stages;
    struct answer a;
    struct shot shot = shot_at(0, 5 * NS_PER_MS);
    (void)state;
    stages_init(&stages);
    answer_start(&a);
    record_begin(r, 0, INT64_MAX, 0);
    a.http_status = 429;
    record_answer(r, &shot, &a, &stages);
    record_failure(r, &shot, FAILURE_TIMEOUT, "late");
    record_failure(r, &shot, FAILURE_TIMEOUT, "later");
    shot.is_recorded = false;
    record_failure(r, &shot, FAILURE_CONNECT, "warm-up");
    record_answer(r, &shot, &a, &stages);
    assert_int_equal(r->n_due, 3);
    assert_int_equal(record_failures(r), 3);
    assert_int_equal(r->n_failed[FAILURE_429], 1);
    assert_int_equal(r->latency.count, 2);
    assert_string_equal(r->example[FAILURE_TIMEOUT], "late");
    assert_int_equal(failure_of_status(204), FAILURE_NONE);
    assert_int_equal(failure_of_status(301), FAILURE_3XX);
    assert_int_equal(failure_of_status(404), FAILURE_4XX);
    assert_int_equal(failure_of_status(500), FAILURE_5XX);
    assert_int_equal(failure_of_status(503), FAILURE_503);
    assert_int_equal(failure_of_status(504), FAILURE_504);
    record_destroy(r);
    stages_finish(&stages);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_slots_join),
        cmocka_unit_test(test_batches_count_once),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
