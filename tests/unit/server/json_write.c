#include "server/json.h"
#include "tests/unit/test.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static int make_arena(void **state) {
    return arena_init(&arena, 1 << 20, NULL);
}
static int drop_arena(void **state) {
    arena_finish(&arena);
    return 0;
}
static const char *finished(struct json_writer *w) {
    json_write_bytes(w, "", 1);
    assert_false(w->failed);
    return w->data;
}
static const char *string_of(const char *bytes, size_t len) {
    struct json_writer w;
    json_writer_init(&w, &arena);
    json_write_string(&w, bytes, len);
    return finished(&w);
}
#define STRING_OF(literal) string_of(literal, sizeof(literal) - 1)

static void strings_are_escaped(void **state) {
    assert_string_equal(STRING_OF(""), "\"\"");
    assert_string_equal(STRING_OF("a\"b\\c/"), "\"a\\\"b\\\\c/\"");
    assert_string_equal(STRING_OF("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    assert_string_equal(STRING_OF("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\"");
    assert_string_equal(STRING_OF("a\0b"), "\"a\\u0000b\"");
    assert_string_equal(STRING_OF("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
}
static void bytes_that_are_not_utf8_are_replaced(void **state) {
    assert_string_equal(STRING_OF("a\xFF"), "\"a\xEF\xBF\xBD\"");
    assert_string_equal(STRING_OF("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    assert_string_equal(STRING_OF("\xED\xA0\x80z"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}
/* Random bytes in, and out comes a string that the check takes. */
static void what_is_written_is_json(void **state) {
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (char)(seed >> 24);
        }
        struct json_writer w;
        struct error err;
        json_writer_init(&w, &arena);
        json_write_string(&w, bytes, (size_t)(seed >> 16) % sizeof(bytes));
        const size_t len = w.len;
        char copy[512];
        assert_true(len < sizeof(copy));
        memcpy(copy, w.data, len);
        arena_reset(&arena);
        /* U+0000 is written as an escape, which the check refuses on its own ground. */
        if (json_check(copy, len, &arena, &err)) {
            assert_non_null(strstr(err.text, "\\u0000"));
        }
    }
}
static void integers(void **state) {
    const int64_t values[] = {0, 7, -7, 1234567890123, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < N_ITEMS(values); i++) {
        char want[32];
        struct json_writer w;
        json_writer_init(&w, &arena);
        json_write_int(&w, values[i]);
        snprintf(want, sizeof(want), "%lld", (long long)values[i]);
        assert_string_equal(finished(&w), want);
    }
}
static const char *float_text(float v) {
    struct json_writer w;
    arena_reset(&arena);
    json_writer_init(&w, &arena);
    json_write_float(&w, v);
    return finished(&w);
}
static void floats_read_well(void **state) {
    const struct {
        float value;
        const char *text;
    } cases[] = {
        {0.0f, "0.0"},
        {-0.0f, "-0.0"},
        {1.0f, "1.0"},
        {-2.5f, "-2.5"},
        {0.1f, "0.1"},
        {0.3f, "0.3"},
        {0.99987745f, "0.99987745"},
        {1e-4f, "0.0001"},
        {1e-5f, "0.00001"},
        {1.5e-6f, "1.5e-6"},
        {123456.0f, "123456.0"},
        {16777216.0f, "16777216.0"},
        {1e10f, "1.0e10"},
        {3.4028235e38f, "3.4028235e38"},
        {1e-45f, "1.0e-45"},
        {1.1754944e-38f, "1.1754944e-38"},
        {9.5f, "9.5"},
        {1e9f, "1000000000.0"},
        {NAN, "null"},
        {INFINITY, "null"},
        {-INFINITY, "null"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        assert_string_equal(float_text(cases[i].value), cases[i].text);
    }
}
static int digits_in(const char *text) {
    int n = 0, zeros = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9') {
            zeros = *text == '0' ? zeros + 1 : 0;
            n += n > 0 || *text != '0';
        }
    }
    return n - (zeros < n ? zeros : n - 1);
}
/* The text reads back as the same float, straight and by way of a double, and no %.Ng with fewer
 * digits does (two floats in a million may take one more, for the sake of the double). */
static void check_float(float v, int *n_longer) {
    const char *text = float_text(v);
    char shorter[320];
    char *end = NULL;
    const float straight = strtof(text, &end);
    if (memcmp(&straight, &v, sizeof(v)) || *end || (float)strtod(text, NULL) != v) {
        fail_msg("%a became %s", (double)v, text);
    }
    const int n = digits_in(text);
    assert_in_range(n, 1, 9);
    /* From 2^24 on, halfway points are whole numbers of the same length: nothing to gain. */
    if (n > 1 && (v < 16777216.0f || v > 1e10f)) {
        snprintf(shorter, sizeof(shorter), "%.*g", n - 1, (double)v);
        *n_longer += strtof(shorter, NULL) == v;
    }
}
static void floats_are_exact_and_short(void **state) {
    int n_longer = 0;
    for (uint64_t bits = 1; bits < 0x7F800000; bits += 21467) { // some 100,000, every exponent
        const uint32_t b = (uint32_t)bits;
        float v;
        memcpy(&v, &b, sizeof(v));
        check_float(v, &n_longer);
    }
    for (uint32_t e = 0; e < 255; e++) { // borders of every power of two
        for (uint32_t d = 0; d < 5; d++) {
            const uint32_t b = (e << 23) + d - 2;
            float v;
            memcpy(&v, &b, sizeof(v));
            if (isfinite(v) && v > 0) {
                check_float(v, &n_longer);
            }
        }
    }
    assert_in_range(n_longer, 0, 2);
}
static void a_full_arena_fails_once_and_for_all(void **state) {
    struct arena small;
    struct json_writer w;
    assert_int_equal(arena_init(&small, 4096, NULL), STATUS_OK);
    json_writer_init(&w, &small);
    for (int i = 0; i < 2000; i++) {
        json_write_raw(&w, "abc");
    }
    assert_true(w.failed);
    assert_true(w.len <= 4096);
    const size_t len = w.len;
    json_write_string(&w, "x", 1);
    json_write_int(&w, 1);
    assert_int_equal(w.len, len);
    arena_finish(&small);
}
static void the_buffer_grows_in_place(void **state) {
    struct json_writer w;
    json_writer_init(&w, &arena);
    const char *data = w.data;
    for (int i = 0; i < 100000; i++) {
        json_write_raw(&w, "7");
    }
    assert_false(w.failed);
    assert_ptr_equal(w.data, data);
    assert_int_equal(w.len, 100000);
    assert_int_equal(w.data[99999], '7');
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(strings_are_escaped, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(bytes_that_are_not_utf8_are_replaced, make_arena,
                                        drop_arena),
        cmocka_unit_test_setup_teardown(what_is_written_is_json, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(integers, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(floats_read_well, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(floats_are_exact_and_short, make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(a_full_arena_fails_once_and_for_all, make_arena,
                                        drop_arena),
        cmocka_unit_test_setup_teardown(the_buffer_grows_in_place, make_arena, drop_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
