/* lengths_file.c - histograms of lengths as people and the server write them. */
#include "server/lengths_file.h"
#include "server/json.h"
#include "tests/unit/test.h"

#include <string.h>

static struct lengths_file f;

static enum status parse(const char *text, struct error *err) {
    return lengths_file_parse(&f, text, strlen(text), "f", err);
}
static void test_taken(void **state) {
    struct error err = {.text = ""};
    (void)state;
    assert_int_equal(parse("12\n7\r\n\n12\n8192", &err), STATUS_OK);
    assert_int_equal(f.lengths.count[12], 2);
    assert_int_equal(f.lengths.count[7], 1);
    assert_int_equal(f.lengths.count[8192], 1);
    assert_true(f.per_second == 0);
    assert_int_equal(parse("tokens,count\n12,5\n3,0\n", &err), STATUS_OK);
    assert_int_equal(f.lengths.count[12], 5);
    assert_int_equal(
        parse("{\"inputs_per_s\": 2.5, \"x\": [], \"lengths\": {\"9\": 4, \"1\": 1}}", &err),
        STATUS_OK);
    assert_int_equal(f.lengths.count[9], 4);
    assert_int_equal(f.lengths.count[1], 1);
    assert_true(f.per_second == 2.5);
}
static void test_refused(void **state) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "f: no lengths in it"},
        {"\n\n", "f: no lengths in it"},
        {"3,0\n", "f: no lengths in it"},
        {"3\n0\n", "f:2: a length must be 1 to 8192 tokens"},
        {"8193", "f:1: a length"},
        {"3\n-4", "f:2: TOKENS or TOKENS,COUNT"},
        {"3,", "f:1: TOKENS"},
        {"3,4,5", "f:1: TOKENS"},
        {"3 4", "f:1: TOKENS"},
        {"1e2", "f:1: TOKENS"},
        {"1234567890123456", "f:1: TOKENS"},
        {"3,999999999999\n4,999999999999", "f:2: counts must be"},
        {"count,tokens\n3,4", "f:1: TOKENS"},
        {"{", "f: invalid JSON"},
        {"{}", "f: no object \"lengths\""},
        {"{\"lengths\": [1]}", "f: no object \"lengths\""},
        {"{\"lengths\": {}}", "f: no lengths in it"},
        {"{\"lengths\": {\"0\": 1}}", "f: lengths[\"0\"]: a length"},
        {"{\"lengths\": {\"x\": 1}}", "f: lengths[\"x\"]: a length"},
        {"{\"lengths\": {\"3\": -1}}", "f: lengths[\"3\"]: counts must be"},
        {"{\"lengths\": {\"3\": 0.5}}", "f: lengths[\"3\"]: counts"},
        {"{\"lengths\": {\"3\": \"1\"}}", "f: lengths[\"3\"]: counts"},
        {"{\"lengths\": {\"3\": 1e99}}", "f: lengths[\"3\"]: counts"},
        {"{\"lengths\": {\"3\": 1, \"3\": 1}}", "f: "}, // twice
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(rows); i++) {
        struct error err = {.text = ""};
        assert_int_equal(parse(rows[i].text, &err), STATUS_INVALID);
        if (strncmp(err.text, rows[i].why, strlen(rows[i].why))) {
            fail_msg("%s: \"%s\" is not \"%s\"", rows[i].text, err.text, rows[i].why);
        }
    }
}
static void test_no_file(void **state) {
    struct error err = {.text = ""};
    (void)state;
    assert_int_equal(lengths_file_read(&f, "/no/such/file", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/no/such/file"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_file),
    };
    json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
