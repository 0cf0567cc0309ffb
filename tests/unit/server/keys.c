/* keys.c - the file of keys, who is found, rates, and what a reload keeps. */
#include "server/keys.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/timing.h"

static struct keys *read_text(const char *text) {
    struct keys *k = NULL;
    struct error err = {.text = ""};
    if (keys_read(&k, text, strlen(text), "k.jsonc", &err)) {
        fail_msg("%s", err.text);
    }
    return k;
}
#define SECRET "s3cret-of-some-length"
/* Refused with all of the words, and without a byte of the secret. */
static void refuse(const char *text, const char *const *words, size_t n) {
    struct keys *k = NULL;
    struct error err = {.text = ""};
    assert_int_equal(keys_read(&k, text, strlen(text), "k.jsonc", &err), STATUS_INVALID);
    assert_null(k);
    assert_null(strstr(err.text, "s3cret"));
    for (size_t i = 0; i < n; i++) {
        if (!strstr(err.text, words[i])) {
            fail_msg("\"%s\" is not in \"%s\"", words[i], err.text);
        }
    }
}
#define REFUSE(text, ...)                                                                          \
    refuse((text), (const char *const[]){__VA_ARGS__},                                             \
           N_ITEMS(((const char *const[]){__VA_ARGS__})))
static bool finds(struct keys *k, const char *secret, struct key *out) {
    return keys_find(k, secret, strlen(secret), out);
}

static void a_file_of_all_fields(void **state) {
    struct keys *k =
        read_text("// who may ask\n{\"keys\": [\n"
                  "{\"name\": \"web\", \"key\": \"" SECRET "\", \"weight\": 2,\n"
                  "\"requests_per_second\": 100, \"burst\": 20, \"priority\": \"high\"},"
                  "{\"name\": \"ops.1\", \"key\": \"x\", \"admin\": true},"
                  "{\"name\": \"b\", \"key\": \"yy\", \"requests_per_second\": 0.5}]}");
    struct key key;
    assert_int_equal(keys_count(k), 3);
    assert_true(finds(k, SECRET, &key));
    assert_string_equal(key.name, "web");
    assert_int_equal(key.index, 0);
    assert_int_equal(key.weight, 2);
    assert_int_equal(key.priority, PRIORITY_HIGH);
    assert_true(key.requests_per_second == 100 && key.burst == 20);
    assert_false(key.is_admin || key.is_short);
    assert_true(finds(k, "x", &key));
    assert_true(key.is_admin && key.is_short && key.index == 1 && key.weight == 1);
    assert_int_equal(key.priority, PRIORITY_NORMAL);
    keys_at(k, 2, &key);
    assert_true(key.burst == 1);
    assert_false(finds(k, "", &key) || finds(k, "X", &key) || finds(k, SECRET "x", &key));
    assert_false(keys_find(k, SECRET, strlen(SECRET) - 1, &key));
    keys_close(k);
}
static void what_is_refused(void **state) {
    REFUSE("{}", "k.jsonc:1", "\"keys\"");
    REFUSE("[]", "k.jsonc:1");
    REFUSE("{\"keys\": []}", "a list of keys");
    REFUSE("{\"keys\": [], \"more\": 1}", "nothing else");
    REFUSE(
        "{\"keys\":\n[{\"name\": \"a\", \"key\": \"s3cret\"},\n{\"name\": \"a\", \"key\": \"t\"}]}",
        "k.jsonc:3", "keys[1]", "\"a\" stands twice");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"s3cret\"},\n{\"name\": \"b\", \"key\": "
           "\"s3cret\"}"
           "]}",
           "k.jsonc:2", "\"a\" and \"b\" have the same key");
    REFUSE("{\"keys\": [{\"name\": \"a\"}]}", "keys[0]", "name and key");
    REFUSE("{\"keys\": [{\"key\": \"s3cret\"}]}", "name and key");
    REFUSE("{\"keys\": [5]}", "name and key");
    REFUSE("{\"keys\": [{\"name\": \"a b\", \"key\": \"s3cret\"}]}", "name: 1 to 32");
    REFUSE("{\"keys\": [{\"name\": \"\", \"key\": \"s3cret\"}]}", "name: 1 to 32");
    REFUSE("{\"keys\": [{\"name\": \"123456789012345678901234567890123\", \"key\": \"s3cret\"}]}",
           "name: 1 to 32");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"s3cret \"}]}", "key: a string");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"\"}]}", "key: a string");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"s3cret\\u00e9\"}]}", "key: a string");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": 5}]}", "key: a string");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\",\n\"weight\": 0}]}", "k.jsonc:2",
           "weight: an integer, 1 to 1000");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"weight\": 1.5}]}", "weight");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"requests_per_second\": -1}]}",
           "requests_per_second: a number, 0 to");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"burst\": 5}]}", "burst without");
    REFUSE(
        "{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"requests_per_second\": 1, \"burst\": 0}]}",
        "burst: a number, 1 to");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"priority\": \"urgent\"}]}",
           "priority:");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"admin\": 1}]}", "admin: true or false");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"s3cret\": \"b\"}]}", "not known", "known: name");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"key\": \"s3cret\"}]}",
           "key stands twice");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"s3cret\" \"b\"}]}", "k.jsonc:1:", "not JSON");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"s3cret\"},]}", "k.jsonc:1:", "not JSON");
    REFUSE("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", \"weight\": 01}]}", "k.jsonc");
}
static void no_more_keys_than_places(void **state) {
    char text[8192] = "{\"keys\": [", one[64];
    for (int i = 0; i <= POLICY_MAX_KEYS; i++) {
        snprintf(one, sizeof(one), "%s\n{\"name\": \"n%d\", \"key\": \"s%d\"}", i ? "," : "", i, i);
        strncat(text, one, sizeof(text) - strlen(text) - 1);
        if (i == POLICY_MAX_KEYS - 1) {
            char full[8200];
            snprintf(full, sizeof(full), "%s]}", text);
            struct keys *k = read_text(full);
            assert_int_equal(keys_count(k), POLICY_MAX_KEYS);
            keys_close(k);
        }
    }
    strncat(text, "]}", 3);
    REFUSE(text, "more than 64 keys", "k.jsonc:66");
}
static void write_file(char *path, const char *text, mode_t mode) {
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}
static void a_file_that_others_may_read_is_refused(void **state) {
    static const struct {
        mode_t mode;
        bool ok;
    } modes[] = {{0600, true},  {0400, true},  {0640, true},  {0440, true},
                 {0644, false}, {0604, false}, {0602, false}, {0660, false}};
    for (size_t i = 0; i < N_ITEMS(modes); i++) {
        char path[] = "/tmp/berth-keys-XXXXXX";
        struct keys *k = NULL;
        struct error err = {.text = ""};
        write_file(path, "{\"keys\": [{\"name\": \"a\", \"key\": \"b\"}]}", modes[i].mode);
        const enum status s = keys_open(&k, path, &err);
        unlink(path);
        assert_int_equal(s, modes[i].ok ? STATUS_OK : STATUS_INVALID);
        assert_true(modes[i].ok || (strstr(err.text, "chmod 600") && strstr(err.text, path)));
        keys_close(k);
    }
    struct keys *k = NULL;
    struct error err = {.text = ""};
    assert_int_equal(keys_open(&k, "/nonexistent/keys", &err), STATUS_IO);
    assert_int_equal(keys_open(&k, "/tmp", &err), STATUS_INVALID);
}
static void a_rate_is_kept(void **state) {
    struct keys *k = read_text("{\"keys\": [{\"name\": \"a\", \"key\": \"b\", "
                               "\"requests_per_second\": 10, \"burst\": 3},"
                               "{\"name\": \"free\", \"key\": \"c\"}]}");
    const int64_t t = 5 * NS_PER_S, gap = 100 * NS_PER_MS;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keys_take(k, 0, t), 0);
    }
    assert_int_equal(keys_take(k, 0, t), gap);
    assert_in_range(keys_take(k, 0, t + gap / 2), gap / 2 - 1, gap / 2 + 1);
    assert_int_equal(keys_take(k, 0, t + gap + 1), 0);
    assert_true(keys_take(k, 0, t + gap + 1) > 0);
    for (int i = 0; i < 3; i++) { // no more than the burst gathers, however long it was quiet
        assert_int_equal(keys_take(k, 0, t + 3600 * NS_PER_S), 0);
    }
    assert_true(keys_take(k, 0, t + 3600 * NS_PER_S) > 0);
    int n = 0;
    for (int ms = 0; ms < 10000; ms++) { // over ten seconds: the rate
        n += keys_take(k, 0, t + 7200 * NS_PER_S + ms * NS_PER_MS) == 0;
    }
    assert_in_range(n, 101, 103);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(keys_take(k, 1, t), 0);
    }
    keys_close(k);
}
static void reload(struct keys *k, const char *text) {
    struct keys *next = read_text(text);
    keys_take_places(next, k);
    keys_replace(k, next);
}
static void a_reload_keeps_places_and_rates(void **state) {
    struct keys *k = read_text("{\"keys\": [{\"name\": \"a\", \"key\": \"1\"},"
                               "{\"name\": \"b\", \"key\": \"2\", \"requests_per_second\": 1}]}");
    struct key key;
    assert_int_equal(keys_take(k, 1, NS_PER_S), 0);
    reload(k, "{\"keys\": [{\"name\": \"c\", \"key\": \"3\"}, {\"name\": \"b\", \"key\": \"22\", "
              "\"requests_per_second\": 1, \"weight\": 7}]}");
    assert_int_equal(keys_count(k), 3);
    assert_false(finds(k, "1", &key) || finds(k, "2", &key));
    assert_true(finds(k, "22", &key));
    assert_true(key.index == 1 && key.weight == 7);
    assert_true(keys_take(k, 1, NS_PER_S) > 0); // a new secret brings no new burst
    assert_true(finds(k, "3", &key));
    assert_int_equal(key.index, 2);
    keys_at(k, 0, &key);
    assert_string_equal(key.name, "a"); // its counters stay told
    reload(k, "{\"keys\": [{\"name\": \"a\", \"key\": \"4\"}]}");
    assert_true(finds(k, "4", &key));
    assert_int_equal(key.index, 0);
    assert_false(finds(k, "3", &key) || finds(k, "22", &key));
    keys_close(k);
}
static void places_are_used_again_when_there_are_no_others(void **state) {
    struct keys *k = read_text("{\"keys\": [{\"name\": \"stays\", \"key\": \"k\"}]}");
    struct key key;
    for (int i = 0; i < 3 * POLICY_MAX_KEYS; i++) {
        char text[160], secret[16];
        snprintf(secret, sizeof(secret), "s%d", i);
        snprintf(text, sizeof(text),
                 "{\"keys\": [{\"name\": \"n%d\", \"key\": \"%s\"}, {\"name\": \"stays\", \"key\": "
                 "\"k\"}]}",
                 i, secret);
        reload(k, text);
        assert_true(finds(k, "k", &key));
        assert_int_equal(key.index, 0);
        assert_true(finds(k, secret, &key));
        assert_in_range(key.index, 1, POLICY_MAX_KEYS - 1);
    }
    assert_int_equal(keys_count(k), POLICY_MAX_KEYS);
    keys_close(k);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_all_fields),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(no_more_keys_than_places),
        cmocka_unit_test(a_file_that_others_may_read_is_refused),
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(a_reload_keeps_places_and_rates),
        cmocka_unit_test(places_are_used_again_when_there_are_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
