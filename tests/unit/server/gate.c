/* The gate: which heads are requests, and which content types are JSON. */
#include "server/http_gate.h"

#include <string.h>

#include "tests/unit/test.h"

struct line {
    const char *name, *value;
};
static const char *fault_of(const char *version, const struct line *lines) {
    struct gate g = {.n_hosts = 0};
    for (; lines->name; lines++) {
        gate_header(&g, lines->name, strlen(lines->name), lines->value, strlen(lines->value));
    }
    return gate_framing_fault(&g, version);
}
#define LINES(...) ((const struct line[]){__VA_ARGS__, {NULL, NULL}})
#define HOST                                                                                       \
    { "Host", "a" }

static void test_well_formed(void **state) {
    assert_null(fault_of("HTTP/1.1", LINES(HOST)));
    assert_null(fault_of("HTTP/1.1", LINES(HOST, {"Content-Length", "0"})));
    assert_null(fault_of("HTTP/1.1", LINES({"host", ""}, {"content-length", "17"})));
    assert_null(fault_of("HTTP/1.1", LINES(HOST, {"transfer-encoding", "Chunked"})));
    assert_null(fault_of("HTTP/1.1", LINES(HOST, {"Content-Type", ""}, {"X-_.~", "\xff"})));
    assert_null(fault_of("HTTP/1.0", LINES({"Accept", "*/*"})));
}
static void test_smuggling(void **state) {
    static const struct line heads[][4] = {
        {HOST, {"Content-Length", "3"}, {"Transfer-Encoding", "chunked"}},
        {HOST, {"Content-Length", "3"}, {"Content-Length", "3"}},
        {HOST, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
        {HOST, {"Transfer-Encoding", "identity"}, {"Transfer-Encoding", "chunked"}},
        {HOST, {"Transfer-Encoding ", "chunked"}},
        {HOST, {"Transfer-Encoding", "gzip, chunked"}},
        {HOST, {"Transfer-Encoding", "xchunked"}},
        {HOST, {"Transfer-Encoding", ""}},
        {HOST, {"Transfer-Encodingchunked", ""}},
        {HOST, {"Content-Length3", ""}},
        {HOST, {"Content-Length", ""}},
        {HOST, {"Content-Length", "-1"}},
        {HOST, {"Content-Length", "+3"}},
        {HOST, {"Content-Length", "0x3"}},
        {HOST, {"Content-Length", "3, 3"}},
        {HOST, {"Content-Length", "1234567890123456789"}},
        {HOST, {" X", "leading space"}},
        {HOST, {"", "no name"}},
        {HOST, {"X\xc3\xa9", "not ASCII"}},
        {HOST, HOST},
        {{"Accept", "*/*"}},
        {HOST, {"Content-Type", "application/json"}, {"Content-Type", "text/plain"}},
    };
    for (size_t i = 0; i < N_ITEMS(heads); i++) {
        if (!fault_of("HTTP/1.1", heads[i])) {
            fail_msg("head %zu is taken for a request", i);
        }
    }
    assert_non_null(fault_of("HTTP/1.0", LINES(HOST, {"Transfer-Encoding", "chunked"})));
    assert_non_null(fault_of("HTTP/1.0", LINES(HOST, HOST)));
    assert_non_null(fault_of("HTTP/2.0", LINES(HOST)));
    assert_non_null(fault_of("", LINES(HOST)));
}
static void test_nul_in_a_value(void **state) {
    struct gate g = {.n_hosts = 1};
    gate_header(&g, "X", 1, "a\0b", 3);
    assert_non_null(gate_framing_fault(&g, "HTTP/1.1"));
}
static void test_the_first_fault_is_told(void **state) {
    assert_non_null(
        strstr(fault_of("HTTP/1.1", LINES(HOST, HOST, {"Content-Length", "x"})), "Host"));
}
static void test_length_and_coding_are_read(void **state) {
    struct gate g = {.n_hosts = 0};
    gate_header(&g, "CONTENT-LENGTH", 14, "123456789012345678", 18);
    assert_int_equal(g.length, 123456789012345678);
    assert_false(g.is_chunked);
    gate_header(&g, "Transfer-Encoding", 17, "chunked", 7);
    assert_true(g.is_chunked);
}
static void test_content_types(void **state) {
    static const char *const good[] = {
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json ; charset=utf-8 ; profile=x",
        "application/json;",
        "application/json; profile=x",
    };
    static const char *const bad[] = {
        "",
        "text/plain",
        "application/jsonx",
        "application/json x",
        "application/json; charset=latin1",
        "application/json; charset=utf-85",
        "application/json; profile=x; charset=utf-16",
        "application/json; charset=\"utf-8",
        "application/x-www-form-urlencoded",
    };
    for (size_t i = 0; i < N_ITEMS(good); i++) {
        if (!gate_is_json(good[i])) {
            fail_msg("refused: %s", good[i]);
        }
    }
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        if (gate_is_json(bad[i])) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    assert_false(gate_is_json(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_smuggling),
        cmocka_unit_test(test_nul_in_a_value),
        cmocka_unit_test(test_the_first_fault_is_told),
        cmocka_unit_test(test_length_and_coding_are_read),
        cmocka_unit_test(test_content_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
