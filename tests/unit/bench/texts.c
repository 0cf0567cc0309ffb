/* texts.c - files of texts, drawn texts, and laws of lengths. */
#include "bench/client/texts.h"

#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/client/utf8.h"

static char path[] = "/tmp/berth-texts-XXXXXX";
static void write_file(const char *content, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}
static void test_file(void **state) {
    static const char content[] = "one text\r\nsay \"\\\x01 now\"\nlast \xc3\xa9";
    struct texts *t = NULL;
    struct error err;
    (void)state;
    write_file(content, sizeof(content) - 1);
    assert_int_equal(texts_read(&t, path, &err), STATUS_OK);
    static const char *const wanted[] = {"one text", "say \\\"\\\\\\u0001 now\\\"",
                                         "last \xc3\xa9"};
    for (int i = 0; i < 7; i++) {
        const struct text_slice s = texts_at(t, i);
        assert_int_equal(s.len, strlen(wanted[i % 3]));
        assert_memory_equal(s.bytes, wanted[i % 3], (size_t)s.len);
    }
    assert_int_equal(texts_at(t, 0).n_words, 2);
    texts_destroy(t);
}
static void test_bad_file(void **state) {
    static const struct {
        const char *content;
        size_t len;
        const char *words;
    } cases[] = {
        {"", 0, "no text in it"},
        {"a\n\nb\n", 5, "line 2: the line is empty"},
        {"a\nb\xff\n", 5, "line 2: not UTF-8"},
        {"a\0b\n", 4, "line 1: not UTF-8, or a NUL"},
    };
    struct texts *t = NULL;
    struct error err;
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        write_file(cases[i].content, cases[i].len);
        assert_int_equal(texts_read(&t, path, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
        assert_non_null(strstr(err.text, path));
    }
    assert_int_equal(texts_read(&t, "/nonexistent/texts", &err), STATUS_IO);
    assert_null(t);
}
static void test_drawn(void **state) {
    struct lengths *l = xcalloc(1, sizeof(*l));
    struct error err;
    int n_long = 0;
    (void)state;
    assert_int_equal(text_lengths_parse(l, "bimodal:10:200:0.25", 512, &err), STATUS_OK);
    struct texts *t = texts_draw(l, 7), *again = texts_draw(l, 7);
    for (int i = 0; i < 10000; i++) {
        const struct text_slice s = texts_at(t, i), same = texts_at(again, i);
        assert_true(s.n_words == 8 || s.n_words == 198);
        assert_int_equal(s.len, same.len);
        assert_memory_equal(s.bytes, same.bytes, (size_t)s.len);
        int n_spaces = 0;
        for (int k = 0; k < s.len; k++) {
            n_spaces += s.bytes[k] == ' ';
        }
        assert_int_equal(n_spaces, s.n_words - 1);
        n_long += s.n_words == 198;
    }
    assert_true(abs(n_long - 2500) < 5 * 44);
    assert_int_equal(texts_of_tokens(t, 3, TRACE_MAX_TOKENS).n_words, TRACE_MAX_TOKENS - 2);
    assert_int_equal(texts_of_tokens(t, 3, 1).n_words, 1);
    texts_destroy(t);
    texts_destroy(again);
    free(l);
}
static void test_lengths(void **state) {
    static const char *const bad[] = {"",
                                      "fixed",
                                      "fixed:x",
                                      "bimodal:1:2",
                                      "bimodal:1:2:3",
                                      "lognormal:5",
                                      "file:/nonexistent",
                                      "bimodal:1:2:-1",
                                      "unknown",
                                      "fixed:5:6"};
    struct lengths *l = xcalloc(1, sizeof(*l));
    struct error err;
    (void)state;
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        err.text[0] = '\0';
        assert_int_not_equal(text_lengths_parse(l, bad[i], 512, &err), STATUS_OK);
        assert_true(err.text[0]);
    }
    assert_int_equal(text_lengths_parse(l, "fixed:600", 512, &err), STATUS_OK);
    assert_true(l->count[512] > 0 && l->count[600] == 0);
    assert_int_equal(text_lengths_parse(l, "bimodal", 512, &err), STATUS_OK);
    free(l);
}
static void test_histogram_file(void **state) {
    static const struct {
        const char *content, *words;
    } bad[] = {{"", "no lengths"},   {"tokens,count\n", "no lengths"}, {"5,1\n6;2\n", "line 2"},
               {"5,-1\n", "line 1"}, {"9000,1\n", "line 1"},           {"5,1,2\n", "line 1"},
               {"0,3\n", "line 1"}};
    struct lengths *l = xcalloc(1, sizeof(*l));
    struct error err;
    char law[64];
    (void)state;
    snprintf(law, sizeof(law), "file:%s", path);
    static const char good[] = "tokens,count\n5,10\n7,30\n\n600,1\n";
    write_file(good, strlen(good));
    assert_int_equal(text_lengths_parse(l, law, 512, &err), STATUS_OK);
    assert_int_equal(l->count[5], 10);
    assert_int_equal(l->count[7], 30);
    assert_int_equal(l->count[512], 1);
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        write_file(bad[i].content, strlen(bad[i].content));
        assert_int_equal(text_lengths_parse(l, law, 512, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, bad[i].words));
    }
    free(l);
}
static void test_utf8(void **state) {
    static const struct {
        const char *bytes;
        bool is_valid;
    } cases[] = {{"", true},
                 {"abc", true},
                 {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", true},
                 {"\xf4\x8f\xbf\xbf", true},
                 {"\xf4\x90\x80\x80", false},
                 {"\xc0\xaf", false},
                 {"\xe0\x80\xaf", false},
                 {"\xed\xa0\x80", false},
                 {"\x80", false},
                 {"\xc3", false},
                 {"\xe2\x82", false},
                 {"\xff", false}};
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        assert_int_equal(utf8_is_valid(cases[i].bytes, strlen(cases[i].bytes)), cases[i].is_valid);
    }
}
static int set_up(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}
static int tear_down(void **state) {
    (void)state;
    return unlink(path);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),           cmocka_unit_test(test_bad_file),
        cmocka_unit_test(test_drawn),          cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_histogram_file), cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
