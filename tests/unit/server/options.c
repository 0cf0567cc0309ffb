/* options.c - words of a command line to a config, in any order. */
#include "server/options.h"

#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORDS = 16 };
struct words {
    char text[MAX_WORDS][200];
    char *argv[MAX_WORDS];
    int argc;
};
/* Splits at single spaces. */
static enum status parse_own(struct words *w, struct options *o, const struct own_options *own,
                             const char *line, struct error *err) {
    w->argc = 0;
    while (*line) {
        const size_t n = strcspn(line, " ");
        snprintf(w->text[w->argc], sizeof(w->text[0]), "%.*s", (int)n, line);
        w->argv[w->argc] = w->text[w->argc];
        w->argc++;
        line += n + (line[n] == ' ');
    }
    return options_parse(o, w->argc, w->argv, own, err);
}
static enum status parse(struct words *w, struct options *o, const char *line, struct error *err) {
    return parse_own(w, o, NULL, line, err);
}

static void test_words_and_options(void **state) {
    struct words w;
    struct options o;
    struct error err = {.text = ""};
    (void)state;
    assert_int_equal(
        parse(&w, &o, "--port 9000 DIR --pin one --mode=none --max-wait-ms=1.5 two", &err),
        STATUS_OK);
    assert_int_equal(o.cfg.server.port, 9000);
    assert_string_equal(o.cfg.model.dir, "DIR");
    assert_true(o.cfg.compute.pin); // a switch takes no word
    assert_int_equal(o.cfg.batching.mode, BATCH_NONE);
    assert_true(o.cfg.batching.max_wait_ms == 1.5);
    assert_int_equal(o.n_texts, 2);
    assert_string_equal(o.texts[0], "one");
    assert_string_equal(o.texts[1], "two");
    assert_false(o.check_config || o.print_config);
    assert_int_equal(parse(&w, &o, "DIR --check-config --print-config -- --port", &err), STATUS_OK);
    assert_true(o.check_config && o.print_config);
    assert_int_equal(o.n_texts, 1);
    assert_string_equal(o.texts[0], "--port");
    assert_int_equal(parse(&w, &o, "DIR -", &err), STATUS_OK);
    assert_string_equal(o.texts[0], "-");
}
static void test_options_of_a_command(void **state) {
    static const struct own_option rows[] = {{"trace", "FILE", ""}, {"dry", NULL, ""}};
    static const struct own_options own = {rows, 2};
    struct words w;
    struct options o;
    struct error err = {.text = ""};
    (void)state;
    assert_int_equal(parse_own(&w, &o, &own, "--trace a.csv DIR --dry --port 1", &err), STATUS_OK);
    assert_string_equal(o.own[0], "a.csv");
    assert_string_equal(o.own[1], "");
    assert_string_equal(o.cfg.model.dir, "DIR");
    assert_int_equal(o.cfg.server.port, 1);
    assert_int_equal(parse_own(&w, &o, &own, "--trace=b=c", &err), STATUS_OK);
    assert_string_equal(o.own[0], "b=c");
    assert_null(o.own[1]);
    assert_int_equal(parse_own(&w, &o, &own, "--trace", &err), STATUS_INVALID);
    assert_string_equal(err.text, "--trace needs a value: FILE");
    assert_int_equal(parse_own(&w, &o, &own, "--dry=1", &err), STATUS_INVALID);
    assert_string_equal(err.text, "--dry takes no value");
    assert_int_equal(parse_own(&w, &o, &own, "--tarce x", &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "--trace"));
    assert_int_equal(parse(&w, &o, "--trace x", &err), STATUS_INVALID); // another command's
}
static void test_file_goes_first(void **state) {
    char path[] = "/tmp/berth-options-XXXXXX", line[200];
    struct words w;
    struct options o;
    struct error err = {.text = ""};
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(dprintf(fd, "{\"server\": {\"port\": 1, \"http_threads\": 5}}"), 42);
    close(fd);
    snprintf(line, sizeof(line), "--port 2 --config %s", path); // the order does not matter
    assert_int_equal(parse(&w, &o, line, &err), STATUS_OK);
    assert_int_equal(o.cfg.server.port, 2);
    assert_int_equal(o.cfg.server.http_threads, 5);

    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\n\"server\": {\"prt\": 1}}", f);
    fclose(f);
    assert_int_equal(parse(&w, &o, line, &err), STATUS_INVALID);
    assert_true(o.config_is_wrong);
    assert_non_null(strstr(err.text, ":2: unknown key"));
    unlink(path);
    assert_int_equal(parse(&w, &o, line, &err), STATUS_IO);
    assert_true(o.config_is_wrong);
}
static void test_refused(void **state) {
    static const char *const cases[][2] = {
        {"--prot 1", "--server.port"},
        {"--chek-config", "--check-config"},
        {"--confg x", "--config"},
        {"--port", "needs a value"},
        {"--config", "needs a file"},
        {"--check-config=1", "takes no value"},
        {"--port 99999", "0 to 65535"},
        {"-p 1", "begin with --"},
        {"--pin=maybe", "true or false"},
        {"--buckets [{\"up_to\":9},{\"up_to\":4}]", "batching.buckets"},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct words w;
        struct options o;
        struct error err = {.text = ""};
        assert_int_equal(parse(&w, &o, cases[i][0], &err), STATUS_INVALID);
        assert_false(o.config_is_wrong);
        if (!strstr(err.text, cases[i][1])) {
            fail_msg("%s: \"%s\" is not in \"%s\"", cases[i][0], cases[i][1], err.text);
        }
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_and_options),
        cmocka_unit_test(test_options_of_a_command),
        cmocka_unit_test(test_file_goes_first),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
