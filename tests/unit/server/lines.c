/* lines.c - lines of a pipe, whatever their ends and sizes; and the cores of a quota. */
#include "server/lines.h"

#include "tests/unit/test.h"

#include "server/cores.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What lines_next() gives, one a line, errors as "!reason". */
static void collect(struct lines *l, char *out, size_t size) {
    *out = 0;
    for (;;) {
        struct text t = {NULL, 0};
        struct error err = {.text = ""};
        bool more = false;
        const enum status s = lines_next(l, &more, &t, &err);
        if (!more) {
            assert_int_equal(s, STATUS_OK);
            return;
        }
        const size_t n = strlen(out);
        if (s) {
            snprintf(out + n, size - n, "!%s\n", err.text);
        } else {
            snprintf(out + n, size - n, "%.*s\n", (int)t.len, t.bytes);
        }
    }
}
static void expect(const char *input, size_t len, size_t max_line_bytes, const char *wanted) {
    int fds[2];
    char got[1000];
    struct lines l;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], input, len), len);
    close(fds[1]);
    lines_init(&l, NULL, 0, fds[0], max_line_bytes);
    collect(&l, got, sizeof(got));
    assert_string_equal(got, wanted);
    lines_finish(&l);
    close(fds[0]);
}
#define EXPECT(input, max, wanted) expect((input), sizeof(input) - 1, (max), (wanted))

static void test_ends(void **state) {
    (void)state;
    EXPECT("", 10, "");
    EXPECT("a", 10, "a\n");
    EXPECT("a\n", 10, "a\n");
    EXPECT("a\r\nbc\r\n", 10, "a\nbc\n");
    EXPECT("a\n\nb", 10, "a\n!the text is empty\nb\n");
    EXPECT("\n", 10, "!the text is empty\n");
}
static void test_limit(void **state) {
    (void)state;
    EXPECT("abcd\nx\n", 4, "abcd\nx\n");
    EXPECT("abcde\nx\n", 4, "!longer than 4 bytes (server.max_body_bytes)\nx\n");
    EXPECT("abcdefghijklmnopq\nx", 4, "!longer than 4 bytes (server.max_body_bytes)\nx\n");
    EXPECT("x\nabcdefghijklmnopq", 4, "x\n!longer than 4 bytes (server.max_body_bytes)\n");
    EXPECT("abcd", 4, "abcd\n");
    EXPECT("a\nb\nc\nd\ne\nf\ng\n", 2, "a\nb\nc\nd\ne\nf\ng\n");
}
static void test_utf8(void **state) {
    (void)state;
    EXPECT("gr\xc3\xbc\xc3\x9f\x65\nb\xff\nc\n", 20,
           "gr\xc3\xbc\xc3\x9f\x65\n!invalid UTF-8 at byte 1\nc\n");
    EXPECT("\xc3", 20, "!invalid UTF-8 at byte 0\n");
}
static void test_words(void **state) {
    char a[] = "one", b[] = "", c[] = "three";
    char *words[] = {a, b, c};
    char got[200];
    struct lines l;
    (void)state;
    lines_init(&l, words, 3, -1, 4);
    assert_false(lines_would_wait(&l));
    collect(&l, got, sizeof(got));
    assert_string_equal(got, "one\n!the text is empty\n"
                             "!longer than 4 bytes (server.max_body_bytes)\n");
    assert_int_equal(l.number, 3);
    lines_finish(&l);
}
static void test_would_wait(void **state) {
    int fds[2];
    struct lines l;
    struct text t;
    bool more;
    (void)state;
    assert_int_equal(pipe(fds), 0);
    lines_init(&l, NULL, 0, fds[0], 100);
    assert_true(lines_would_wait(&l));
    assert_int_equal(write(fds[1], "a\nb\n", 4), 4);
    assert_false(lines_would_wait(&l));
    assert_int_equal(lines_next(&l, &more, &t, NULL), STATUS_OK);
    assert_false(lines_would_wait(&l)); // the second line is in the buffer
    assert_int_equal(lines_next(&l, &more, &t, NULL), STATUS_OK);
    assert_true(lines_would_wait(&l));
    close(fds[1]);
    assert_false(lines_would_wait(&l)); // the end is there to be read
    assert_int_equal(lines_next(&l, &more, &t, NULL), STATUS_OK);
    assert_false(more);
    lines_finish(&l);
    close(fds[0]);
}
static void test_quota(void **state) {
    (void)state;
    assert_int_equal(cores_of_quota("max 100000\n"), 0);
    assert_int_equal(cores_of_quota("200000 100000\n"), 2);
    assert_int_equal(cores_of_quota("150000 100000\n"), 2);
    assert_int_equal(cores_of_quota("50000 100000"), 1);
    assert_int_equal(cores_of_quota(""), 0);
    assert_int_equal(cores_of_quota("1 0"), 0);
    assert_true(cores_available() >= 1);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),       cmocka_unit_test(test_limit),
        cmocka_unit_test(test_utf8),       cmocka_unit_test(test_words),
        cmocka_unit_test(test_would_wait), cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
