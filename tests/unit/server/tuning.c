/* tuning.c - the cache file: what was set comes back, and whatever else lies there does no harm. */
#include "server/tuning.h"
#include "base/log.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];

static int setup(void **state) {
    snprintf(folder, sizeof(folder), "/tmp/test_tuning_XXXXXX");
    if (!mkdtemp(folder)) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/tuning.json", folder);
    return 0;
}
static int teardown(void **state) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}
static void write_text(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}
static void read_text(char *out, size_t size) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    out[fread(out, 1, size - 1, f)] = '\0';
    fclose(f);
}
static void set_one(const char *key, double value) {
    struct tuning *t = tuning_open(path);
    tuning_set(t, key, &value, 1);
    tuning_close(t);
}
static bool has(const char *key, double value) {
    struct tuning *t = tuning_open(path);
    double found = 0;
    const bool is_there = tuning_get(t, key, &found, 1) && found == value;
    tuning_close(t);
    return is_there;
}

static void what_was_set_comes_back(void **state) {
    const double values[] = {0.1, 1e300, -3, 5e-324}, zero = 0;
    double out[4] = {0};
    struct tuning *t = tuning_open(path);
    assert_false(tuning_get(t, "a", out, 4));
    tuning_set(t, "a", values, 4);
    tuning_set(t, "b \"quoted\" \\", &zero, 1);
    assert_true(tuning_get(t, "a", out, 4));
    tuning_close(t);
    t = tuning_open(path);
    assert_true(tuning_get(t, "a", out, 4));
    assert_memory_equal(out, values, sizeof(values));
    assert_false(tuning_get(t, "a", out, 3)); // another number of values
    assert_true(tuning_get(t, "b \"quoted\" \\", out, 1));
    tuning_close(t);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0); // nobody else's
    tuning_close(NULL);
}
static void a_later_value_replaces(void **state) {
    set_one("a", 1);
    set_one("a", 2);
    assert_true(has("a", 2));
}
static void unchanged_is_not_written(void **state) {
    write_text("{\"berth_tuning\": 1, \"entries\": {}}   ");
    tuning_close(tuning_open(path));
    char text[256];
    read_text(text, sizeof(text));
    assert_string_equal(text, "{\"berth_tuning\": 1, \"entries\": {}}   ");
}
static void what_is_not_finite_is_not_kept(void **state) {
    set_one("nan", NAN);
    set_one("inf", INFINITY);
    assert_int_equal(access(path, F_OK), -1);
}
static void others_entries_stay(void **state) {
    const double one = 1, two = 2;
    struct tuning *a = tuning_open(path), *b = tuning_open(path);
    tuning_set(a, "a", &one, 1);
    tuning_set(b, "b", &two, 1);
    tuning_close(a);
    tuning_close(b);
    assert_true(has("a", 1) && has("b", 2));
}
/* What others do to an entry after a save of ours is not undone by the next one. */
static void a_save_in_between(void **state) {
    const double one = 1, two = 2;
    struct tuning *t = tuning_open(path);
    tuning_set(t, "a", &one, 1);
    assert_true(tuning_has(t, "a") && !tuning_has(t, "b"));
    tuning_save(t);
    assert_true(has("a", 1));
    set_one("a", 3);
    tuning_set(t, "b", &two, 1);
    tuning_close(t);
    assert_true(has("a", 3) && has("b", 2));
}
static void the_oldest_fall_out(void **state) {
    char key[16];
    struct tuning *t = tuning_open(path);
    for (int i = 0; i < TUNING_MAX_ENTRIES + 10; i++) {
        const double v = i;
        snprintf(key, sizeof(key), "k%d", i);
        tuning_set(t, key, &v, 1);
    }
    tuning_close(t);
    assert_false(has("k9", 9));
    assert_true(has("k10", 10));
    snprintf(key, sizeof(key), "k%d", TUNING_MAX_ENTRIES + 9);
    assert_true(has(key, TUNING_MAX_ENTRIES + 9));
    set_one("another", 5);
    assert_true(!has("k10", 10) && has("k11", 11) && has("another", 5));
}

/* Broken in any way: none of it counts, and the next save replaces it. */
static void a_broken_file_is_as_good_as_none(void **state) {
    static const char *const texts[] = {
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1]",
        "{\"berth_tuning\": 2, \"entries\": {\"a\": [1]}}",
        "{\"berth_tuning\": \"1\", \"entries\": {\"a\": [1]}}",
        "{\"berth_tuning\": 1, \"entries\": [1]}",
        "{\"berth_tuning\": 1}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1]}, \"more\": 1}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"b\": 1}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"b\": [\"1\"]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"b\": [[1]]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"b\": [1e999]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"a\": [1]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"\": [1]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1], \"\\n\": [1]}}",
        "{\"berth_tuning\": 1, \"entries\": {\"a\": [1]}} trailing",
        "\"berth_tuning\"",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[ berth_tuning",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_text(texts[i]);
        assert_false(has("a", 1));
        set_one("c", 3);
        assert_true(has("c", 3) && !has("a", 1));
    }
    write_text(""); // a power cut's
    set_one("c", 3);
    assert_true(has("c", 3));
}
static void a_foreign_file_is_left_alone(void **state) {
    char text[64];
    write_text("{\"somebody\": \"else\"}");
    set_one("a", 1);
    read_text(text, sizeof(text));
    assert_string_equal(text, "{\"somebody\": \"else\"}");
}
static void a_large_file_is_left_alone(void **state) {
    struct stat st;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), TUNING_MAX_FILE_BYTES + 1), 0);
    fclose(f);
    set_one("a", 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, TUNING_MAX_FILE_BYTES + 1);
}
static void places_that_cannot_be_written(void **state) {
    static const char *const bad[] = {"/", "/dev/null", "/nowhere/at/all/tuning.json", ""};
    char long_path[2048];
    memset(long_path, 'x', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    setenv("XDG_CACHE_HOME", "/proc/no such place", 1); // where "" would be
    for (int i = 0; i < 5; i++) {
        const double one = 1;
        double out = 0;
        struct tuning *t = tuning_open(i < 4 ? bad[i] : long_path);
        tuning_set(t, "a", &one, 1);
        assert_true(tuning_get(t, "a", &out, 1)); // for as long as it is open
        tuning_close(t);
    }
    unsetenv("XDG_CACHE_HOME");
}
static void off_is_no_file(void **state) {
    const double one = 1;
    char here[256];
    assert_non_null(getcwd(here, sizeof(here)));
    assert_int_equal(chdir(folder), 0);
    struct tuning *t = tuning_open("off");
    tuning_set(t, "a", &one, 1);
    tuning_close(t);
    assert_int_equal(access("off", F_OK), -1);
    assert_int_equal(chdir(here), 0);
}
static void the_default_is_in_the_users_cache(void **state) {
    char file[160], cache[160];
    snprintf(cache, sizeof(cache), "%s/xdg", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    const double one = 1;
    struct tuning *t = tuning_open("");
    tuning_set(t, "a", &one, 1);
    tuning_close(t);
    snprintf(file, sizeof(file), "%s/xdg/berth/tuning.json", folder);
    assert_int_equal(access(file, F_OK), 0);
    setenv("XDG_CACHE_HOME", "relative", 1); // is ignored, as if unset
    setenv("HOME", folder, 1);
    t = tuning_open("");
    tuning_set(t, "a", &one, 1);
    tuning_close(t);
    snprintf(file, sizeof(file), "%s/.cache/berth/tuning.json", folder);
    assert_int_equal(access(file, F_OK), 0);
    unsetenv("XDG_CACHE_HOME");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_was_set_comes_back),
        IN_FOLDER(a_later_value_replaces),
        IN_FOLDER(unchanged_is_not_written),
        IN_FOLDER(what_is_not_finite_is_not_kept),
        IN_FOLDER(others_entries_stay),
        IN_FOLDER(a_save_in_between),
        IN_FOLDER(the_oldest_fall_out),
        IN_FOLDER(a_broken_file_is_as_good_as_none),
        IN_FOLDER(a_foreign_file_is_left_alone),
        IN_FOLDER(a_large_file_is_left_alone),
        IN_FOLDER(places_that_cannot_be_written),
        IN_FOLDER(off_is_no_file),
        IN_FOLDER(the_default_is_in_the_users_cache),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
