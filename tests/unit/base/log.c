#include "base/log.h"
#include "tests/unit/test.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WRONG "\xEF\xBF\xBD" // U+FFFD
static void lines_are_json_and_escaped(void **state) {
    int ends[2];
    char text[8192];
    assert_int_equal(pipe(ends), 0);
    log_set_level(LOG_INFO);
    assert_int_equal(log_start(ends[1], NULL), STATUS_OK);
    log_event(LOG_DEBUG, "hidden", LOG_INT("n", 1));
    log_event(LOG_INFO, "ready", LOG_INT("port", 8080), LOG_STR("path", "a\"b\\c\n"),
              LOG_NUM("ms", 1.5), LOG_FLAG("on", true),
              LOG_STR("dir", "\xC3\xA9\xFF\xE2\x82|\xED\xA0\x80\xF0\x9F\x98\x80\xC0\xAF"));
    log_stop();
    close(ends[1]);
    const ssize_t n = read(ends[0], text, sizeof(text) - 1);
    close(ends[0]);
    assert_true(n > 0);
    text[n] = 0;
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(
        text,
        "\"level\":\"info\",\"event\":\"ready\",\"port\":8080,"
        "\"path\":\"a\\\"b\\\\c\\u000a\",\"ms\":1.5,\"on\":true,\"dir\":\"\xC3\xA9" WRONG WRONG
            WRONG "|" WRONG WRONG WRONG "\xF0\x9F\x98\x80" WRONG WRONG "\"}\n"));
    assert_memory_equal(text, "{\"time\":\"20", 11);
}
static void an_unread_log_drops_and_counts(void **state) {
    int ends[2];
    char big[1024];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_start(ends[1], NULL), STATUS_OK);
    const uint64_t before = log_dropped();
    for (int i = 0; i < 3000; i++) { // 3 MB into a 1 MiB ring and a 64 KiB pipe
        log_event(LOG_INFO, "flood", LOG_STR("text", big));
    }
    assert_true(log_dropped() > before);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    close(ends[0]); // the writer now fails at once, and log_stop() can end
    log_stop();
    close(ends[1]);
}
static void levels_have_names(void **state) {
    enum log_level level;
    assert_true(log_level_parse(&level, "warn"));
    assert_int_equal(level, LOG_WARN);
    assert_false(log_level_parse(&level, "loud"));
    assert_string_equal(log_level_name(LOG_DEBUG), "debug");
}
int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_json_and_escaped),
        cmocka_unit_test(an_unread_log_drops_and_counts),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
