#include "server/agreement.h"
#include "tests/unit/test.h"
#include <math.h>

static char name_a[] = "a", name_b[] = "b";
static char *labels[] = {name_a, name_b};
static struct model_config model_of(enum score_function score) {
    return (struct model_config){.n_labels = 2, .labels = labels, .score = score};
}

static void same_results_agree(void **state) {
    const struct model_config m = model_of(SCORE_SOFTMAX);
    const float logits[] = {1, -1, 0, 0, -3, 2};
    const struct agreement a = agreement_of(&(struct agreement_input){&m, logits, logits, NULL, 3});
    assert_int_equal(a.n, 3);
    assert_true(a.has_labels && !a.has_accuracy);
    assert_true(a.same_label == 1 && a.max_difference == 0 && a.mean_difference == 0);
    assert_true(fabs(a.worst_cosine - 1) < 1e-12 && fabs(a.mean_cosine - 1) < 1e-12);
}
static void a_flip_is_counted(void **state) {
    const struct model_config m = model_of(SCORE_SOFTMAX);
    const float exact[] = {1, -1, 0.1f, 0}, other[] = {1, -1, 0, 0.1f};
    static const int right[] = {0, 1};
    const struct agreement a = agreement_of(&(struct agreement_input){&m, exact, other, right, 2});
    const double moved = 2 / (1 + exp(-0.1)) - 1; // both scores of the second text
    assert_true(a.same_label == 0.5);
    assert_int_equal(a.worst_text, 1);
    assert_true(fabs(a.max_difference - moved) < 1e-6);
    assert_true(fabs(a.mean_difference - moved / 2) < 1e-6);
    assert_true(fabs(a.worst_cosine) < 1e-12 && fabs(a.mean_cosine - 0.5) < 1e-12);
    assert_true(a.has_accuracy && a.accuracy_exact == 0.5 && a.accuracy_other == 1);
}
static void several_labels_all_count(void **state) {
    const struct model_config m = model_of(SCORE_SIGMOID);
    const float exact[] = {2, 1, 2, -1}, other[] = {2, 0.5f, 2, 1};
    static const int right[] = {0, 0};
    const struct agreement a = agreement_of(&(struct agreement_input){&m, exact, other, right, 2});
    assert_true(a.same_label == 0.5); // the best label is the same in both
    assert_false(a.has_accuracy);     // a text has not one label
}
static void a_regression_has_no_labels(void **state) {
    const struct model_config m = model_of(SCORE_NONE);
    const float exact[] = {1, 2}, other[] = {1, 2.5f};
    const struct agreement a = agreement_of(&(struct agreement_input){&m, exact, other, NULL, 1});
    assert_false(a.has_labels || a.has_accuracy);
    assert_true(a.max_difference == 0.5 && a.mean_difference == 0.25);
}
static void what_is_no_number_is_far_away(void **state) {
    const struct model_config m = model_of(SCORE_NONE);
    const float exact[] = {1, 2}, other[] = {NAN, 2};
    const struct agreement a = agreement_of(&(struct agreement_input){&m, exact, other, NULL, 1});
    assert_true(isinf(a.max_difference) && isinf(a.mean_difference));
    assert_true(a.worst_cosine == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_results_agree),
        cmocka_unit_test(a_flip_is_counted),
        cmocka_unit_test(several_labels_all_count),
        cmocka_unit_test(a_regression_has_no_labels),
        cmocka_unit_test(what_is_no_number_is_far_away),
    };
    return cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
}
