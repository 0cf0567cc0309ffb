/* answer.c - responses whole, in pieces of every size, and wrong ones. */
#include "bench/client/answer.h"

#include "tests/unit/test.h"

#include <stdio.h>
#include <string.h>

static struct stages stages;
static const struct answer_rules rules = {&stages, 1000, false};

/* In pieces of `step` bytes, each at an address of its own; how many were taken. */
static enum status feed(struct answer *a, const char *text, size_t step, size_t *taken,
                        struct error *err) {
    const size_t len = strlen(text);
    answer_start(a);
    *taken = 0;
    while (*taken < len && a->state != ANSWER_DONE) {
        const size_t n = len - *taken < step ? len - *taken : step;
        size_t used = 0;
        const enum status s = answer_feed(a, &rules, text + *taken, n, &used, err);
        *taken += used;
        if (s) {
            return s;
        }
        assert_true(used == n || a->state == ANSWER_DONE);
    }
    return STATUS_OK;
}
static void test_good(void **state) {
    static const struct {
        const char *text;
        int http_status, body_bytes;
        bool closes;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, 5, false},
        {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, 0, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, 0, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", 200, 2, false},
        {"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, close\r\nContent-Length: 1\r\n\r\na", 200, 1,
         true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, 1, true},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", 200, 1, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n"
         "0\r\nTrailer: x\r\n\r\n",
         200, 13, false},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many\r\nContent-Length: 3\r\n\r\nno!", 429,
         3, false},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            struct answer a;
            struct error err = {""};
            size_t taken;
            assert_int_equal(feed(&a, cases[i].text, step, &taken, &err), STATUS_OK);
            assert_int_equal(a.state, ANSWER_DONE);
            assert_int_equal(taken, strlen(cases[i].text));
            assert_int_equal(a.http_status, cases[i].http_status);
            assert_int_equal(a.body_bytes, cases[i].body_bytes);
            assert_int_equal(a.closes, cases[i].closes);
        }
    }
}
static void test_bytes_behind_are_left(void **state) {
    struct answer a;
    struct error err;
    size_t taken;
    (void)state;
    assert_int_equal(
        feed(&a, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naXYZ", 100, &taken, &err), STATUS_OK);
    assert_int_equal(a.state, ANSWER_DONE);
    assert_int_equal(taken, strlen("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"));
}
static void test_until_the_end(void **state) {
    struct answer a;
    struct error err;
    size_t taken;
    (void)state;
    assert_int_equal(feed(&a, "HTTP/1.1 500 Oh\r\n\r\nwhat\nis", 3, &taken, &err), STATUS_OK);
    assert_int_equal(a.state, ANSWER_BODY_TO_END);
    assert_true(answer_end(&a));
    assert_true(a.closes);
    assert_string_equal(a.snippet, "what is");
    assert_int_equal(feed(&a, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 3, &taken, &err),
                     STATUS_OK);
    assert_false(answer_end(&a)); // cut
    assert_true(answer_has_begun(&a));
}
static void test_bad(void **state) {
    static const struct {
        const char *text;
        enum status status;
    } cases[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", STATUS_INVALID},
        {"HTTP/2.0 200 OK\r\n", STATUS_INVALID},
        {"HTTP/1.1 2x0 OK\r\n", STATUS_INVALID},
        {"HTTP/1.1 2000 OK\r\n", STATUS_INVALID},
        {"HTTP/1.1 101 Switching\r\n", STATUS_INVALID},
        {"HTTP/1.1 099 Low\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\nContent-Length: 1\n\na", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", STATUS_TOO_LONG},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
         STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n", STATUS_TOO_LONG},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
         STATUS_TOO_LONG},
        {"HTTP/1.1 200 OK\r\n folded: x\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nName : x\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\n: x\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nno colon\r\n", STATUS_INVALID},
        {"HTTP/1.1 200 OK\r\nName: a\rb\r\n", STATUS_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        for (size_t step = 1; step <= strlen(cases[i].text); step++) {
            struct answer a;
            struct error err = {""};
            size_t taken;
            assert_int_equal(feed(&a, cases[i].text, step, &taken, &err), cases[i].status);
            assert_true(err.text[0]);
        }
    }
}
static void test_limits_of_the_head(void **state) {
    static char text[ANSWER_MAX_HEAD + 4096];
    struct answer a;
    struct error err;
    size_t taken;
    (void)state;
    const int n = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nLong: ");
    memset(text + n, 'x', ANSWER_MAX_LINE);
    memcpy(text + n + ANSWER_MAX_LINE, "\r\n", 3);
    assert_int_equal(feed(&a, text, 1000, &taken, &err), STATUS_TOO_LONG);
    assert_int_equal(feed(&a, text, sizeof(text), &taken, &err), STATUS_TOO_LONG);
    size_t at = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n");
    while (at < ANSWER_MAX_HEAD + 100) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, "Name: %0500d\r\n", 7);
    }
    assert_int_equal(feed(&a, text, 1000, &taken, &err), STATUS_TOO_LONG);
}
static void test_timing(void **state) {
    struct answer a;
    struct error err;
    size_t taken;
    (void)state;
    assert_int_equal(
        feed(&a,
             "HTTP/1.1 200 OK\r\nServer-Timing: queue;dur=1.5, total;dur=2\r\n"
             "Berth-Batch: requests=2, jobs=2, tokens=30, rows=40, longest=20, bucket=32, "
             "padding=0.250, mode=bucketed\r\nx-queue-time: 7\r\nContent-Length: 0\r\n\r\n",
             7, &taken, &err),
        STATUS_OK);
    assert_false(a.timing.is_malformed);
    assert_true(a.timing.total_ms == 2);
    assert_true(a.timing.ms[stages_find(&stages, "queue", 5)] == 1.5F);
    assert_int_equal(a.timing.batch.bucket, 32);
}
static int set_up(void **state) {
    (void)state;
    stages_init(&stages);
    return 0;
}
static int tear_down(void **state) {
    (void)state;
    stages_finish(&stages);
    return 0;
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bytes_behind_are_left),
        cmocka_unit_test(test_until_the_end),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_limits_of_the_head),
        cmocka_unit_test(test_timing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
