#include "model/head.h"
#include "tests/unit/test.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>

static void softmax_adds_up_to_one(void **state) {
    const float logits[] = {1, 2, 3};
    float s[3];
    head_scores(s, logits, 3, SCORE_SOFTMAX);
    assert_true(fabs(s[0] - 0.0900306) < 1e-6 && fabs(s[2] - 0.6652410) < 1e-6);
    assert_true(fabs(s[0] + s[1] + s[2] - 1) < 1e-6);
}
static void no_finite_logits_overflow(void **state) {
    float s[] = {FLT_MAX, -FLT_MAX, FLT_MAX};
    head_scores(s, s, 3, SCORE_SOFTMAX); // in place
    assert_true(s[0] == 0.5f && s[1] == 0 && s[2] == 0.5f);
    const float all_low[] = {-FLT_MAX, -FLT_MAX};
    head_scores(s, all_low, 2, SCORE_SOFTMAX);
    assert_true(s[0] == 0.5f && s[1] == 0.5f);
    const float far[] = {-FLT_MAX, 0, FLT_MAX};
    head_scores(s, far, 3, SCORE_SIGMOID);
    assert_true(s[0] == 0 && s[1] == 0.5f && s[2] == 1);
}
static void sigmoid_is_per_label_and_none_keeps(void **state) {
    const float logits[] = {1, 1};
    float s[2];
    head_scores(s, logits, 2, SCORE_SIGMOID);
    assert_true(fabs(s[0] - 0.7310586) < 1e-6 && s[0] == s[1]);
    head_scores(s, logits, 2, SCORE_NONE);
    assert_true(s[0] == 1 && s[1] == 1);
}
static void sorts_falling_and_the_lower_index_first(void **state) {
    const float scores[] = {0.2f, 0.5f, 0.2f, 0.5f, 0.9f};
    const int want[] = {4, 1, 3, 0, 2};
    int order[5];
    head_sort(order, scores, 5);
    assert_memory_equal(order, want, sizeof(want));
    head_sort(order, scores, 1);
    assert_int_equal(order[0], 0);
}
static void sorts_any_number(void **state) {
    enum { N = 3000 };
    static float scores[N];
    static int order[N];
    unsigned x = 1;
    for (int i = 0; i < N; i++) {
        x = x * 1664525u + 1013904223u;
        scores[i] = (float)(x >> 24); // with many ties
    }
    head_sort(order, scores, N);
    for (int i = 1; i < N; i++) {
        const int a = order[i - 1], b = order[i];
        assert_true(scores[a] > scores[b] || (scores[a] == scores[b] && a < b));
    }
}
static void finds_what_is_not_finite(void **state) {
    const float good[] = {0, -FLT_MAX}, nan[] = {0, NAN}, inf[] = {-INFINITY, 0};
    assert_true(head_is_finite(good, 2));
    assert_false(head_is_finite(nan, 2));
    assert_false(head_is_finite(inf, 2));
    assert_true(head_is_finite(nan, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_adds_up_to_one),
        cmocka_unit_test(no_finite_logits_overflow),
        cmocka_unit_test(sigmoid_is_per_label_and_none_keeps),
        cmocka_unit_test(sorts_falling_and_the_lower_index_first),
        cmocka_unit_test(sorts_any_number),
        cmocka_unit_test(finds_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
