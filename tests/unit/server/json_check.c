/* What json_check() takes and refuses. A case is a literal with its length, so that NUL bytes and
 * broken UTF-8 can stand in it; AT is the byte offset that the error must name. */
#include "server/json.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <string.h>

struct accepted {
    const char *bytes;
    size_t len;
};
struct refused {
    const char *bytes;
    size_t len, at;
};
#define OK(literal)                                                                                \
    { literal, sizeof(literal) - 1 }
#define NO(at, literal)                                                                            \
    { literal, sizeof(literal) - 1, at }

static const struct accepted accepted[] = {
    /* values at the top */
    OK("null"),
    OK("true"),
    OK("false"),
    OK("0"),
    OK("-0"),
    OK("\"\""),
    OK("[]"),
    OK("{}"),
    OK(" null"),
    OK("null\n"),
    OK("\t\r\n {} \t\r\n"),
    OK("42"),
    OK("\"text\""),
    /* structure */
    OK("[1]"),
    OK("[1,2]"),
    OK("[ 1 , 2 ]"),
    OK("[[]]"),
    OK("[[],[]]"),
    OK("[{}]"),
    OK("{\"a\":[]}"),
    OK("{\"a\":1,\"b\":2}"),
    OK("{\"\":0}"),
    OK("{ \"a\" : 1 }"),
    OK("[true,false,null]"),
    OK("{\"a\":{\"a\":{\"a\":1}}}"),
    OK("[{\"a\":1},{\"a\":1}]"),
    OK("{\"a\":1,\"b\":{\"a\":1}}"),
    OK("{\"b\":{\"a\":1},\"a\":1}"),
    OK("{\"a\":1,\"A\":2}"),
    OK("[[],{},\"\",0,null]"),
    OK("{\"inputs\":[[\"a\"],[\"b\",\"c\"]],\"truncate\":null}"),
    OK("{\"ab\":1,\"a\":2,\"abc\":3,\"b\":4,\"\":5}"),
    /* 32 levels */
    OK("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    OK("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{\"a\":1}]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    /* numbers */
    OK("123"),
    OK("-1"),
    OK("10"),
    OK("1.5"),
    OK("-1.5"),
    OK("0.5"),
    OK("0e0"),
    OK("0e+1"),
    OK("0E-1"),
    OK("1e5"),
    OK("1E5"),
    OK("1e+5"),
    OK("1e-5"),
    OK("1.5e10"),
    OK("0.0"),
    OK("-0.0"),
    OK("1e308"),
    OK("1.7976931348623157e308"),
    OK("-1.7976931348623157e308"),
    OK("17976931348623157e292"),
    OK("1e-400"),
    OK("0e999999"),
    OK("0.0e999999"),
    OK("1e-99999999999"),
    OK("0.00000000000000000000000000000000000000000000000000000000000000000000000000001e380"),
    OK("123456789012345678901234567890"),
    OK("20e1"),
    OK("1.000000000000000000000000000000000001"),
    OK("179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017"
       "977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273"
       "854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704"
       "342711559699508093042880177904174497791"), // one below the first that rounds to infinity
    OK("[-0.00000000000000000000000000000000000000000000000000000000000000000000000000000000001]"),
    /* strings and escapes */
    OK("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
    OK("\"\\u0041\""),
    OK("\"\\u00e9\\u00E9\""),
    OK("\"\\u0001\""),
    OK("\"\\u001f\""),
    OK("\"\\ud83d\\ude00\""),
    OK("\"\\uD83D\\uDE00\""),
    OK("\"\\uDBFF\\uDFFF\""),
    OK("\"\\ud800\\udc00\""),
    OK("\"\\uFFFF\""),
    OK("\"\\uFFFE\""),
    OK("\"\\uD7FF\\uE000\""),
    OK("\"\x7f\""),
    OK("\"/\""),
    OK("\"\\\\u0000\""),
    OK("\"[{,:}]\""),
    OK("\"//\""),
    OK("\" \\t \""),
    OK("\"\\\\\""),
    /* UTF-8 */
    OK("\"\xC2\x80\""),
    OK("\"\xDF\xBF\""),
    OK("\"\xE0\xA0\x80\""),
    OK("\"\xED\x9F\xBF\""),
    OK("\"\xEE\x80\x80\""),
    OK("\"\xEF\xBF\xBF\""),
    OK("\"\xEF\xBB\xBF\""),
    OK("\"\xF0\x90\x80\x80\""),
    OK("\"\xF4\x8F\xBF\xBF\""),
    OK("\"\xE2\x80\xA8\""),
    OK("\"na\xC3\xAFve \xE6\x97\xA5\""),
    OK("{\"\xC3\xA9\":1,\"e\xCC\x81\":2}"),
    OK("\"\xF0\x9F\x98\x80\xF0\x9F\x98\x80\""),
};
static const struct refused refused[] = {
    /* nothing, or too little */
    NO(0, ""),
    NO(1, " "),
    NO(1, "["),
    NO(1, "{"),
    NO(2, "[1"),
    NO(3, "[1,"),
    NO(4, "{\"a\""),
    NO(5, "{\"a\":"),
    NO(6, "{\"a\":1"),
    NO(7, "{\"a\":1,"),
    NO(0, "\""),
    NO(0, "\"a"),
    NO(0, "\"\\\"") /* the quote is escaped */,
    NO(3, "[[]"),
    NO(1, "[\"a"),
    NO(0, "-"),
    NO(0, "n"),
    NO(0, "nul"),
    NO(0, "tru"),
    NO(0, "fals"),
    NO(5, "[null"),
    /* too much */
    NO(2, "1 2"),
    NO(2, "[]]"),
    NO(2, "{}}"),
    NO(4, "null,"),
    NO(5, "true x"),
    NO(2, "[][]"),
    NO(4, "nullx"),
    NO(2, "\"\"\"\""),
    NO(2, "[]\0"),
    NO(4, "null\0"),
    NO(2, "{}#"),
    NO(3, "{}\n/"),
    NO(1, "0\xEF\xBB\xBF"),
    /* structure */
    NO(1, "[,1]"),
    NO(3, "[1,]"),
    NO(3, "[1,,2]"),
    NO(2, "[1}"),
    NO(1, "{]"),
    NO(6, "{\"a\":1]"),
    NO(1, "{1:2}"),
    NO(1, "{a:1}"),
    NO(1, "{'a':1}"),
    NO(7, "{\"a\":1,}"),
    NO(1, "{,}"),
    NO(4, "{\"a\"}"),
    NO(4, "{\"a\",1}"),
    NO(5, "{\"a\"::1}"),
    NO(5, "{\"a\":}"),
    NO(3, "[1 2]"),
    NO(7, "{\"a\":1 \"b\":2}"),
    NO(2, "[1:2]"),
    NO(1, "[:]"),
    NO(6, "[\"a\",\n"),
    NO(0, "]"),
    NO(0, "}"),
    NO(0, ","),
    NO(0, ":"),
    NO(7, "{\"a\":1,null:2}"),
    NO(0, "*"),
    NO(1, "[*]"),
    NO(0, "(1)"),
    NO(5, "{\"a\":/*c*/1}"),
    NO(0, "//x"),
    NO(1, "[\f]"),
    NO(1, "[\v]"),
    NO(1, "[\xC2\xA0]"),
    NO(1, "[\xE2\x81\xA0]"),
    NO(1, "{[]:1}"),
    NO(1, "{null:1}"),
    /* words */
    NO(0, "True"),
    NO(0, "NULL"),
    NO(0, "None"),
    NO(0, "NaN"),
    NO(0, "nan"),
    NO(0, "Infinity"),
    NO(0, "-Infinity"),
    NO(0, "undefined"),
    NO(1, "[truth]"),
    NO(1, "[nothing]"),
    NO(0, "'a'"),
    /* numbers */
    NO(0, "01"),
    NO(0, "-01"),
    NO(0, "00"),
    NO(0, "1."),
    NO(0, "-"),
    NO(0, "+1"),
    NO(0, ".5"),
    NO(0, "-.5"),
    NO(0, "1.e5"),
    NO(0, "1e"),
    NO(0, "1e+"),
    NO(0, "1E-"),
    NO(0, "--1"),
    NO(1, "0x10"),
    NO(3, "1.5.5"),
    NO(3, "1e5e5"),
    NO(3, "1e5.5"),
    NO(1, "1_000"),
    NO(1, "[-a]"),
    NO(1, "1f"),
    NO(0, "0.e1"),
    NO(1, "[1.]"),
    NO(1, "[-]"),
    NO(0, "\xEF\xBC\x91"),
    NO(2, "1 000"),
    NO(0, "-x"),
    NO(0, "1e309"),
    NO(0, "-1e309"),
    NO(0, "1e999"),
    NO(0, "1.7976931348623159e308"),
    NO(0, "17976931348623159e292"),
    NO(0, "1e99999999999999999999"),
    NO(1, "[0.1e310]"),
    NO(0, "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649"
          "017977587207096330286416692887910946555547851940402630657488671505820681908902000708383"
          "676273854845817711531764475730270069855571366959622842914819860834936475292719074168444"
          "365510704342711559699508093042880177904174497792"),
    /* strings and escapes */
    NO(1, "\"\\a\""),
    NO(1, "\"\\x41\""),
    NO(1, "\"\\'\""),
    NO(1, "\"\\\n\""),
    NO(1, "\"\\0\""),
    NO(1, "\"\\u\""),
    NO(1, "\"\\u12\""),
    NO(1, "\"\\u123\""),
    NO(1, "\"\\u12G4\""),
    NO(1, "\"\\U0041\""),
    NO(1, "\"\\u-123\""),
    NO(1, "\"\\u 123\""),
    NO(1, "\"\\u0000\""),
    NO(3, "\"ab\\u0000cd\""),
    NO(1, "\"\\"),
    NO(1, "\"\\u00"),
    NO(1, "\"\0\""),
    NO(2, "\"a\0b\""),
    NO(1, "\"\x01\""),
    NO(1, "\"\x1f\""),
    NO(2, "\"a\nb\""),
    NO(1, "\"\t\""),
    NO(1, "\"\r\""),
    NO(1, "\"\\\0\""),
    NO(1, "\"\\\xC3\xA9\""),
    /* surrogates */
    NO(1, "\"\\ud800\""),
    NO(1, "\"\\udc00\""),
    NO(1, "\"\\ud800\\ud800\""),
    NO(1, "\"\\ud800x\""),
    NO(1, "\"\\udc00\\ud800\""),
    NO(1, "\"\\ud800\\u0041\""),
    NO(1, "\"\\ud800\\n\""),
    NO(1, "\"\\ud83d"),
    NO(1, "\"\\ud83d\\\""),
    NO(1, "\"\\ud83d\\u"),
    NO(7, "\"\\uE000\\uDFFF\""),
    NO(1, "\"\\uDBFF\\uE000\""),
    /* UTF-8 */
    NO(1, "\"\x80\""),
    NO(1, "\"\xBF\""),
    NO(1, "\"\xC0\x80\""),
    NO(1, "\"\xC1\xBF\""),
    NO(1, "\"\xC3\""),
    NO(1, "\"\xE0\x80\x80\""),
    NO(1, "\"\xE0\x9F\xBF\""),
    NO(1, "\"\xED\xA0\x80\""),
    NO(1, "\"\xED\xBF\xBF\""),
    NO(1, "\"\xE2\x82\""),
    NO(1, "\"\xF0\x80\x80\x80\""),
    NO(1, "\"\xF0\x8F\xBF\xBF\""),
    NO(1, "\"\xF4\x90\x80\x80\""),
    NO(1, "\"\xF5\x80\x80\x80\""),
    NO(1, "\"\xF8\x88\x80\x80\x80\""),
    NO(1, "\"\xFF\""),
    NO(1, "\"\xFE\""),
    NO(1, "\"\xE9t\xE9\""),
    NO(3, "\"ab\xF0\x9F\x98\""),
    NO(1, "\"\xF0\x9F\x98"),
    NO(1, "\"\xC3"),
    NO(3, "{\"a\xFF\":1}"),
    NO(1, "[\xC3\xA9]"),
    NO(0, "\xFF"),
    /* other encodings, byte order marks */
    NO(0, "\xEF\xBB\xBF{}"),
    NO(0, "\xEF\xBB\xBF"),
    NO(0, "\xFE\xFF\0["),
    NO(0, "\xFF\xFE[\0"),
    NO(1, "[\0]\0"),
    NO(0, "\0[\0]"),
    /* keys twice */
    NO(7, "{\"a\":1,\"a\":1}"),
    NO(7, "{\"a\":1,\"\\u0061\":2}"),
    NO(12, "{\"\\u0061\":1,\"a\":2}"),
    NO(7, "{\"a\":1,\"a\":2,\"a\":3}"),
    NO(15, "[{\"b\":{},\"a\":0,\"b\":1}]"),
    NO(6, "{\"\":1,\"\":2}"),
    NO(12, "{\"a\":{\"b\":1,\"b\":2}}"),
    NO(13, "{\"a\":{\"a\":1},\"a\":2}"),
    NO(7, "{\"/\":1,\"\\/\":2}"),
    NO(8, "{\"\xC3\xA9\":1,\"\\u00e9\":2}"),
    NO(10, "{\"\xF0\x9F\x98\x80\":1,\"\\ud83d\\ude00\":2}"),
    NO(8, "{\"\\n\":1,\"\\u000A\":2}"),
    NO(13, "{\"x\":1,\"y\":1,\"x\":1}"),
    /* 33 levels */
    NO(32, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    NO(32, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
};

enum { ARENA_BYTES = 64 << 20 };
static int make_arena(void **state) {
    static struct arena a;
    *state = &a;
    json_init();
    return arena_init(&a, ARENA_BYTES, NULL);
}
static int drop_arena(void **state) {
    arena_finish(*state);
    return 0;
}
/* A copy of exact size, so that a sanitizer sees one byte too many read. */
static const char *copy_of(struct arena *a, const char *bytes, size_t len) {
    char *copy = arena_alloc(a, len, 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return copy;
}

static void accepts_what_is_json(void **state) {
    struct arena *a = *state;
    for (size_t i = 0; i < N_ITEMS(accepted); i++) {
        const struct accepted *t = &accepted[i];
        struct error err;
        arena_reset(a);
        if (json_check(copy_of(a, t->bytes, t->len), t->len, a, &err)) {
            fail_msg("refused %.*s: %s", (int)t->len, t->bytes, err.text);
        }
    }
}
static void refuses_what_is_not_and_says_where(void **state) {
    struct arena *a = *state;
    for (size_t i = 0; i < N_ITEMS(refused); i++) {
        const struct refused *t = &refused[i];
        struct error err;
        char want[64];
        arena_reset(a);
        if (json_check(copy_of(a, t->bytes, t->len), t->len, a, &err) != STATUS_INVALID) {
            fail_msg("accepted %.*s (case %zu)", (int)t->len, t->bytes, i);
        }
        snprintf(want, sizeof(want), "invalid JSON at byte %zu: ", t->at);
        if (strncmp(err.text, want, strlen(want)) != 0) {
            fail_msg("%.*s: wanted offset %zu: %s", (int)t->len, t->bytes, t->at, err.text);
        }
    }
}
static void a_prefix_is_never_a_document(void **state) {
    static const char whole[] = "{\"a\":[1.5e3,\"\\ud83d\\ude00\xC3\xA9\",true,{\"b\":null}]}";
    struct arena *a = *state;
    assert_int_equal(json_check(whole, sizeof(whole) - 1, a, NULL), STATUS_OK);
    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        arena_reset(a);
        assert_int_equal(json_check(copy_of(a, whole, len), len, a, NULL), STATUS_INVALID);
    }
}
/* Every code point (and what lies beyond) in two, three and four bytes. */
static size_t sequence_by_definition(unsigned v, size_t n) {
    const bool is_surrogate = v >= 0xD800 && v <= 0xDFFF;
    const size_t shortest = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    return n == shortest && !is_surrogate && v <= 0x10FFFF ? n : 0;
}
static void knows_utf8(void **state) {
    unsigned n_wrong = 0;
    for (unsigned v = 0; v < 0x220000; v++) {
        const char last = (char)(0x80 | (v & 63)), middle = (char)(0x80 | (v >> 6 & 63));
        const char four[4] = {(char)(0xF0 | v >> 18), (char)(0x80 | (v >> 12 & 63)), middle, last};
        const char three[3] = {(char)(0xE0 | (v >> 12 & 15)), middle, last};
        const char two[2] = {(char)(0xC0 | (v >> 6 & 31)), last};
        n_wrong += json_utf8_sequence(four, 4) != sequence_by_definition(v, 4);
        n_wrong += json_utf8_sequence(three, 3) != sequence_by_definition(v & 0xFFFF, 3);
        n_wrong += json_utf8_sequence(two, 2) != sequence_by_definition(v & 0x7FF, 2);
        n_wrong += json_utf8_sequence(four, 3) != 0 || json_utf8_sequence(three, 2) != 0;
    }
    assert_int_equal(n_wrong, 0);
}
static void deep_nesting_ends_at_the_limit(void **state) {
    struct arena *a = *state;
    const size_t n = 2000;
    char *text = arena_alloc(a, 2 * n, 1);
    struct error err;
    memset(text, '[', n);
    memset(text + n, ']', n);
    assert_int_equal(json_check(text, 2 * n, a, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "at byte 32:"));
}
/* 200,000 keys that share a long beginning, the last one twice: found, and soon. */
static void many_keys_are_compared_in_good_time(void **state) {
    struct arena *a = *state;
    const int n = 200000;
    char *text = arena_alloc(a, (size_t)n * 40, 1), *p = text;
    struct error err;
    *p++ = '{';
    for (int i = 0; i <= n; i++) {
        p += snprintf(p, 40, "%s\"common-beginning-%07d\":0", i ? "," : "",
                      i == n ? 5 : (i * 7919) % n);
    }
    *p++ = '}';
    const size_t before = a->used;
    assert_int_equal(json_check(text, (size_t)(p - text), a, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "already has"));
    assert_int_equal(a->used, before); // the scratch space was given back
}
static void a_full_scratch_arena_is_told(void **state) {
    struct arena small;
    assert_int_equal(arena_init(&small, 4096, NULL), STATUS_OK);
    char text[16384], *p = text;
    for (int i = 0; i < 1000; i++) {
        p += snprintf(p, 16, "%s\"%d\":0", i ? "," : "{", i);
    }
    *p++ = '}';
    assert_int_equal(json_check(text, (size_t)(p - text), &small, NULL), STATUS_NO_MEMORY);
    arena_finish(&small);
}

/* What passes the check, cJSON reads to the same values. */
static void the_tree_holds_the_values(void **state) {
    static const char text[] =
        "{\"s\":\"a\\u00e9\\ud83d\\ude00\\n\",\"n\":-1.25e2,\"l\":[true,null],"
        "\"S\":\"other\"} \n";
    struct arena *a = *state;
    cJSON *tree = NULL;
    assert_int_equal(json_parse(&tree, text, sizeof(text) - 1, a, NULL), STATUS_OK);
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "s")->valuestring,
                        "a\xC3\xA9\xF0\x9F\x98\x80\n");
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tree, "S")->valuestring, "other");
    assert_true(cJSON_GetObjectItemCaseSensitive(tree, "n")->valuedouble == -125.0);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(tree, "l")), 2);
    assert_true((unsigned char *)tree >= a->data && (unsigned char *)tree < a->data + a->used);
}
static void every_accepted_case_parses(void **state) {
    struct arena *a = *state;
    for (size_t i = 0; i < N_ITEMS(accepted); i++) {
        cJSON *tree = NULL;
        struct error err = {""};
        arena_reset(a);
        const char *copy = copy_of(a, accepted[i].bytes, accepted[i].len);
        const enum status s = json_parse(&tree, copy, accepted[i].len, a, &err);
        if (s) { // the only reason there may be
            assert_non_null(strstr(err.text, "a number has more than 63 characters"));
        } else {
            assert_non_null(tree);
        }
    }
}
static void a_full_arena_is_not_bad_json(void **state) {
    struct arena small;
    static char text[8192];
    cJSON *tree = NULL;
    assert_int_equal(arena_init(&small, 4096, NULL), STATUS_OK);
    memset(text, '1', sizeof(text));
    for (size_t i = 0; i < sizeof(text); i += 2) {
        text[i] = ',';
    }
    text[0] = '[';
    text[sizeof(text) - 1] = ']';
    text[sizeof(text) - 2] = '1';
    text[sizeof(text) - 3] = '1';
    assert_int_equal(json_parse(&tree, text, sizeof(text), &small, NULL), STATUS_NO_MEMORY);
    arena_finish(&small);
}
static void outside_a_request_the_heap_is_used(void **state) {
    cJSON *tree = cJSON_Parse("[1,2,3]");
    assert_non_null(tree);
    cJSON_Delete(tree); // a leak or a wild free is the sanitizer's to report
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accepts_what_is_json, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(refuses_what_is_not_and_says_where, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(a_prefix_is_never_a_document, make_arena, drop_arena),
        cmocka_unit_test(knows_utf8),
        cmocka_unit_test_setup_teardown(deep_nesting_ends_at_the_limit, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(many_keys_are_compared_in_good_time, make_arena,
                                        drop_arena),
        cmocka_unit_test(a_full_scratch_arena_is_told),
        cmocka_unit_test_setup_teardown(the_tree_holds_the_values, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(every_accepted_case_parses, make_arena, drop_arena),
        cmocka_unit_test(a_full_arena_is_not_bad_json),
        cmocka_unit_test_setup_teardown(outside_a_request_the_heap_is_used, make_arena, drop_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
