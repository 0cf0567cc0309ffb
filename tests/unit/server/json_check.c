/* What json_check() takes and refuses, case by case (json_cases.h) and by property. */
#include "server/json.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <string.h>

#include "tests/unit/server/json_cases.h"

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
