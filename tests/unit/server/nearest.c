/* nearest.c - edit distances, against known ones. */
#include "server/nearest.h"

#include "tests/unit/test.h"

#include "base/status.h"

static void test_distance(void **state) {
    static const struct {
        const char *a, *b;
        int distance;
    } cases[] = {
        {"", "", 0},         {"", "abc", 3},     {"abc", "", 3},       {"port", "port", 0},
        {"prot", "port", 1}, {"pot", "port", 1}, {"porrt", "port", 1}, {"kitten", "sitting", 3},
        {"ca", "abc", 3},    {"a-b", "a_b", 0},  {"abcd", "badc", 2},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        assert_int_equal(edit_distance(cases[i].a, cases[i].b), cases[i].distance);
        assert_int_equal(edit_distance(cases[i].b, cases[i].a), cases[i].distance);
    }
}
/* Beyond the limit nothing counts, and nothing is touched. */
static void test_long_words(void **state) {
    char a[300], b[300];
    (void)state;
    for (int i = 0; i < 299; i++) {
        a[i] = 'a', b[i] = i < EDIT_MAX_LENGTH ? 'a' : 'b';
    }
    a[299] = b[299] = 0;
    assert_int_equal(edit_distance(a, b), 0);
    assert_int_equal(edit_distance(a, ""), EDIT_MAX_LENGTH);
}
static void test_nearest(void **state) {
    static const char *const words[] = {"serve", "classify", "tokenize"};
    (void)state;
    assert_string_equal(nearest_of(words, 3, "server"), "serve");
    assert_string_equal(nearest_of(words, 3, "tokenise"), "tokenize");
    assert_string_equal(nearest_of(words, 3, "clasify"), "classify");
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
