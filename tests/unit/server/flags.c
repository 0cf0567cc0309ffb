/* flags.c - typed options: what is read, what is refused, and in which words. */
#include "server/flags.h"

#include "tests/unit/test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct target {
    bool fast;
    int n;
    int64_t big;
    double share, seconds;
    const char *name, *list[2];
    int n_list;
};
#define AT(member) offsetof(struct target, member)
static const struct flag flags[] = {
    {"fast", NULL, FLAG_SWITCH, AT(fast), 0, 0, "", 0},
    {"n", "N", FLAG_INT, AT(n), 1, 10, "", 0},
    {"big", "N", FLAG_INT64, AT(big), 0, 1e12, "", 0},
    {"share", "X", FLAG_NUMBER, AT(share), 0, 1, "", 0},
    {"time", "TIME", FLAG_SECONDS, AT(seconds), 0, 100, "", 0},
    {"name", "WORD", FLAG_TEXT, AT(name), 0, 0, "", 0},
    {"item", "WORD", FLAG_TEXTS, AT(list), 0, 2, "", AT(n_list)},
};
/* Splits at single spaces; the words that are no options are left in argv. */
static enum status parse(struct target *t, const char *line, char **argv, int *n_words,
                         struct error *err) {
    static char copy[256];
    int argc = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *at = copy; *at;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at) {
            *at++ = '\0';
        }
    }
    *t = (struct target){.n = 5};
    return flags_parse(t, flags, (int)N_ITEMS(flags), argc, argv, n_words, err);
}
static void test_good(void **state) {
    struct target t;
    char *argv[32];
    int n_words;
    struct error err;
    (void)state;
    assert_int_equal(parse(&t,
                           "first --fast --n 7 --big=1000000000000 --share 0.5 --time 250ms second "
                           "--name --n --item a --item=b=c -- --n",
                           argv, &n_words, &err),
                     STATUS_OK);
    assert_true(t.fast && t.n == 7 && t.big == 1000000000000 && t.share == 0.5);
    assert_true(t.seconds == 0.25);
    assert_string_equal(t.name, "--n");
    assert_int_equal(t.n_list, 2);
    assert_string_equal(t.list[1], "b=c");
    assert_int_equal(n_words, 3);
    assert_string_equal(argv[0], "first");
    assert_string_equal(argv[1], "second");
    assert_string_equal(argv[2], "--n");
    assert_int_equal(parse(&t, "--time 1.5m", argv, &n_words, &err), STATUS_OK);
    assert_true(t.seconds == 90);
    assert_int_equal(parse(&t, "--time 3s -", argv, &n_words, &err), STATUS_OK);
    assert_int_equal(n_words, 1);
}
static void test_bad(void **state) {
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"--n", "--n needs a value: N"},
        {"--n 0", "an integer, 1 to 10"},
        {"--n 1.5", "an integer"},
        {"--n 11", "1 to 10"},
        {"--n 1x", "an integer"},
        {"--n=", "an integer"},
        {"--n nan", "an integer"},
        {"--share inf", "a number"},
        {"--share 0x1", "a number"},
        {"--time 5h", "a time in seconds, 0 to 100"},
        {"--time -1", "a time"},
        {"--fast=1", "--fast takes no value"},
        {"--nam x", "the nearest known one is --name"},
        {"-n 5", "options begin with --"},
        {"--item a --item b --item c", "--item: at most 2 of them"},
    };
    struct target t;
    char *argv[32];
    int n_words;
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct error err = {""};
        assert_int_equal(parse(&t, cases[i].line, argv, &n_words, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
