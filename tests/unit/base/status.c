#include "base/status.h"
#include "tests/unit/test.h"
#include <stdlib.h>
#include <string.h>

static void formats_and_prefixes(void **state) {
    struct error err;
    assert_int_equal(error_set(&err, STATUS_IO, "%s: %d", "file", 7), STATUS_IO);
    assert_string_equal(err.text, "file: 7");
    assert_int_equal(error_prefix(&err, STATUS_INVALID, "model %s", "m"), STATUS_INVALID);
    assert_string_equal(err.text, "model m: file: 7");
    assert_int_equal(error_set(NULL, STATUS_IO, "nobody reads this"), STATUS_IO);
}
static void long_text_is_cut_not_overrun(void **state) {
    struct error err;
    char text[2000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    error_set(&err, STATUS_IO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    error_prefix(&err, STATUS_IO, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}
static void every_status_has_a_name(void **state) {
    for (int s = STATUS_OK; s <= STATUS_UNAVAILABLE; s++) {
        assert_string_not_equal(status_name((enum status)s), "unknown");
    }
    assert_string_equal(status_name((enum status)99), "unknown");
}
static void duplicates_strings(void **state) {
    char *s = xstrdup("berth");
    assert_string_equal(s, "berth");
    free(s);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_and_prefixes),
        cmocka_unit_test(long_text_is_cut_not_overrun),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(duplicates_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
