/* config.c - reading, refusing and printing settings; and the sample file that documents them. */
#include "server/config_table.h"

#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

static char *printed(const struct config *c) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    config_print(out, c);
    fclose(out);
    return text;
}
static char *printed_by(void (*print)(FILE *)) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    print(out);
    fclose(out);
    return text;
}

static void assert_same(const struct config *a, const struct config *b) {
    char *text_a = printed(a), *text_b = printed(b);
    assert_string_equal(text_a, text_b);
    free(text_a);
    free(text_b);
}
static enum status read_text(struct config *c, const char *text, struct error *err) {
    config_defaults(c);
    return config_read_text(c, text, strlen(text), "f.jsonc", err);
}
/* The text is refused, and the reason has every one of the words. */
static void refuse(const char *text, const char *const *words, size_t n) {
    struct config c, before;
    struct error err = {.text = ""};
    config_defaults(&before);
    const enum status s = read_text(&c, text, &err);
    if (s != STATUS_INVALID) {
        fail_msg("taken: %s", text);
    }
    for (size_t i = 0; i < n; i++) {
        if (!strstr(err.text, words[i])) {
            fail_msg("\"%s\" is not in \"%s\"", words[i], err.text);
        }
    }
    assert_same(&c, &before); // nothing of a refused file stays
}
#define REFUSE(text, ...)                                                                          \
    refuse((text), (const char *const[]){__VA_ARGS__},                                             \
           N_ITEMS(((const char *const[]){__VA_ARGS__})))

static void test_defaults(void **state) {
    struct config c;
    (void)state;
    config_defaults(&c);
    assert_string_equal(c.server.host, "127.0.0.1");
    assert_int_equal(c.server.port, 8080);
    assert_int_equal(c.server.max_body_bytes, 2 << 20);
    assert_true(c.server.timing_headers);
    assert_int_equal(c.batching.mode, BATCH_PACKED);
    assert_int_equal(c.batching.max_batch_tokens, 0);
    assert_int_equal(config_batch_tokens(&c, false), 256);
    assert_int_equal(config_batch_tokens(&c, true), 8192);
    c.batching.max_batch_tokens = 1000;
    assert_int_equal(config_batch_tokens(&c, true), 1000);
    c.batching.max_batch_tokens = 0;
    assert_int_equal(c.batching.n_buckets, 6);
    assert_int_equal(c.batching.buckets[2].up_to, 64);
    assert_true(c.batching.padded_max_wait_ms == 5.0);
    assert_int_equal(c.log.level, LOG_INFO);
    assert_int_equal(config_check(&c, NULL), STATUS_OK);
}
static void test_read(void **state) {
    struct config c;
    struct error err = {.text = ""};
    (void)state;
    const enum status s =
        read_text(&c,
                  "// first\n{ /* a\n block */ \"server\": {\"port\": 9000, // no\n"
                  "\"host\": \"::1\", \"timing_headers\": false, \"max_body_bytes\": 1e6},\n"
                  "\"batching\": {\"mode\": \"bucketed\", \"max_wait_ms\": 2.5, \"buckets\": [\n"
                  "{\"up_to\": 64, \"max_wait_ms\": 0}, {\"up_to\": 512, \"max_batch_tokens\": 512,"
                  " \"max_batch_requests\": 3}]},\n\"log\": {\"level\": \"debug\"},"
                  "\"model\": {\"dir\": \"/a//b/*c*/\"}}",
                  &err);
    assert_string_equal(err.text, "");
    assert_int_equal(s, STATUS_OK);
    assert_int_equal(c.server.port, 9000);
    assert_string_equal(c.server.host, "::1");
    assert_false(c.server.timing_headers);
    assert_int_equal(c.server.max_body_bytes, 1000000);
    assert_int_equal(c.batching.mode, BATCH_BUCKETED);
    assert_int_equal(c.batching.n_buckets, 2);
    assert_int_equal(c.batching.buckets[0].max_wait_ns, 0);
    assert_int_equal(c.batching.buckets[1].max_wait_ns, -1);
    assert_int_equal(c.batching.buckets[1].max_batch_requests, 3);
    assert_int_equal(c.log.level, LOG_DEBUG);
    assert_string_equal(c.model.dir, "/a//b/*c*/"); // no comment inside a string
}
static void test_unknown_keys(void **state) {
    (void)state;
    REFUSE("{\n\"server\": {\n  \"prot\": 1}}", "f.jsonc:3", "server.prot", "\"server.port\"");
    REFUSE("{\"server\": {\"threads\": 1}}", "\"compute.threads\"");
    REFUSE("{\n\n\"sever\": {}}", "f.jsonc:3", "\"sever\"", "\"server\"");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": 8},\n{\"upto\": 8}]}}", "f.jsonc:2",
           "buckets[1]", "\"upto\"", "up_to");
    REFUSE("{\"Server\": {}}", "\"Server\"", "\"server\""); // case counts
}
/* Of its own section, unless another's key is nearer by far. */
static void test_nearest_key(void **state) {
    assert_memory_equal(config_nearest("batching.bogus"), "batching.", strlen("batching."));
    assert_string_equal(config_nearest("batching.max_batch_tokns"), "batching.max_batch_tokens");
    assert_string_equal(config_nearest("server.max_batch_tokens"), "batching.max_batch_tokens");
    assert_string_equal(config_nearest("batching.port"), "server.port");
    assert_string_equal(config_nearest("prot"), "server.port");
}
static void test_wrong_values(void **state) {
    (void)state;
    REFUSE("{\"server\": {\n\"port\": 70000}}", "f.jsonc:2", "server.port", "70000", "0 to 65535");
    REFUSE("{\"server\": {\"port\": -1}}", "server.port", "-1");
    REFUSE("{\"server\": {\"port\": 80.5}}", "server.port", "80.5", "an integer");
    REFUSE("{\"server\": {\"port\": 1e999}}", "server.port");
    REFUSE("{\"server\": {\"port\": \"80\"}}", "server.port", "the string \"80\"", "an integer");
    REFUSE("{\"server\": {\"host\": 1}}", "server.host", "the number 1", "a string");
    REFUSE("{\"server\": {\"timing_headers\": 1}}", "server.timing_headers", "true or false");
    REFUSE("{\"server\": {\"port\": null}}", "server.port", "null");
    REFUSE("{\"server\": {\"port\": [1]}}", "server.port", "a list");
    REFUSE("{\"server\": {\"host\": \"0123456789012345678901234567890123456789012345678901234567890"
           "1234\"}}",
           "server.host", "at most 63 bytes");
    REFUSE("{\"batching\": {\"mode\": \"fast\"}}", "batching.mode", "\"fast\"", "packed");
    REFUSE("{\"compute\": {\"device\": \"tpu\"}}", "compute.device", "\"tpu\"", "reference");
    REFUSE("{\"server\": 1}", "server", "no object");
    REFUSE("[]", "f.jsonc:1", "an object");
}
static void test_wrong_buckets(void **state) {
    (void)state;
    REFUSE("{\"batching\": {\"buckets\": []}}", "batching.buckets", "empty");
    REFUSE("{\"batching\": {\"buckets\": 5}}", "batching.buckets", "the number 5", "a list");
    REFUSE("{\"batching\": {\"buckets\": [5]}}", "buckets[0]", "up_to");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": 64}, {\"up_to\": 32}]}}", "f.jsonc:1",
           "buckets[1].up_to is 32 and follows 64");
    REFUSE("{\"batching\": {\"buckets\": [{\"max_wait_ms\": 1}]}}", "buckets[0]", "up_to");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": 0}]}}", "buckets[0].up_to: 0", "1 to");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": \"8\"}]}}", "buckets[0].up_to", "no number");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": 8,\n\"max_batch_tokens\": 0}]}}", "f.jsonc:2",
           "buckets[0].max_batch_tokens: 0");
    REFUSE("{\"batching\": {\"buckets\": [{\"up_to\": 8, \"up_to\": 9}]}}", "buckets[0].up_to",
           "twice");
}
static void test_syntax(void **state) {
    (void)state;
    REFUSE("{\n  \"server\": {\"port\": 1,}\n}", "f.jsonc:2:2");
    REFUSE("{\n// {\n\"server\" {}}", "f.jsonc:3:");
    REFUSE("{}\n\n x", "f.jsonc:3:2", "\"x\"");
    REFUSE("", "f.jsonc:1");
    REFUSE("{\n/* never ends", "f.jsonc:2", "never ends");
    REFUSE("{\"a\":\n[[[[[[[[[1]]]]]]]]]}", "f.jsonc:2", "nested");
    REFUSE("{\"log\": {\"level\": \"info\"},\n\"log\": {}}", "f.jsonc:2", "log", "twice");
    REFUSE("{\"log\": {\"level\": \"info\",\n\"level\": \"info\"}}", "f.jsonc:2", "log.level",
           "twice");
    struct config c;
    struct error err;
    config_defaults(&c);
    assert_int_equal(config_read_text(&c, "{\n}\0 ", 5, "f.jsonc", &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "f.jsonc:2: a zero byte"));
}
static void test_not_strict(void **state) {
    (void)state;
    REFUSE("{\"server\": {\"port\": 0080}}", "f.jsonc");
    REFUSE("{\"model\": {\"dir\": \"\xff\"}}", "f.jsonc", "UTF-8");
    REFUSE("{\"model\": {\"dir\": \"a\tb\"}}", "f.jsonc");
}
static void test_file(void **state) {
    struct config c;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_read_file(&c, "/no/such/file", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/no/such/file"));
    assert_int_equal(config_read_file(&c, "/dev/null", &err), STATUS_INVALID);
    assert_int_equal(config_read_file(&c, "/", &err), STATUS_INVALID);
}

static void test_set(void **state) {
    struct config c;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "port", "1", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "server.http-threads", "3", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "mode", "none", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "pin", NULL, &err), STATUS_OK);
    assert_int_equal(config_set(&c, "timing_headers", "false", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "device", "reference", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "buckets", "[{\"up_to\": 7}]", &err), STATUS_OK);
    assert_int_equal(c.server.port, 1);
    assert_int_equal(c.server.http_threads, 3);
    assert_int_equal(c.batching.mode, BATCH_NONE);
    assert_true(c.compute.pin && !c.server.timing_headers);
    assert_string_equal(c.compute.device, "reference");
    assert_int_equal(c.batching.buckets[0].up_to, 7);
    assert_true(config_is_switch("pin") && config_is_switch("log.requests"));
    assert_false(config_is_switch("port") || config_is_switch("nonsense"));
}
static void test_set_wrong(void **state) {
    static const char *const cases[][3] = {
        {"port", "x", "\"x\""},          {"port", "1x", "\"1x\""},     {"port", "", "\"\""},
        {"port", "70000", "0 to 65535"}, {"prot", "1", "server.port"}, {"mode", "slow", "packed"},
        {"pin", "yes", "true or false"}, {"buckets", "[", "a list"},   {"port", NULL, "a value"},
    };
    (void)state;
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct config c;
        struct error err = {.text = ""};
        config_defaults(&c);
        assert_int_equal(config_set(&c, cases[i][0], cases[i][1], &err), STATUS_INVALID);
        if (!strstr(err.text, cases[i][2])) {
            fail_msg("\"%s\" is not in \"%s\"", cases[i][2], err.text);
        }
    }
}
/* Every key by its last part: what the table promises, and what --help says. */
static void test_last_parts_are_unique(void **state) {
    struct config c;
    struct error err;
    (void)state;
    config_defaults(&c);
    for (int i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        assert_int_equal(config_set(&c, setting_name(s), s->text, &err), STATUS_OK);
    }
}

static void test_policy_default(void **state) {
    struct config c;
    struct policy_config p;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_policy(&p, &c, 512, &err), STATUS_OK);
    assert_int_equal(p.n_buckets, 6);
    assert_int_equal(p.max_batch_ns, 100000000);
    assert_true(p.rank_cost_factor == 4.5);
    assert_int_equal(p.priority_ns[PRIORITY_NORMAL], 0);
    assert_int_equal(p.priority_ns[PRIORITY_HIGH], -100000000);
    assert_int_equal(p.priority_ns[PRIORITY_LOW], 100000000);
    assert_int_equal(p.n_keys, 1);
    assert_false(p.interrupt);
    assert_int_equal(p.buckets[0].max_batch_tokens, 256);
    assert_int_equal(p.buckets[0].max_batch_requests, 64);
    assert_int_equal(p.buckets[0].max_wait_ns, 0);
    assert_int_equal(config_policy(&p, &c, 100, &err), STATUS_OK); // cut
    assert_int_equal(p.n_buckets, 4);
    assert_int_equal(p.buckets[3].up_to, 100);
    assert_int_equal(config_policy(&p, &c, 8192, &err), STATUS_OK); // ended
    assert_int_equal(p.n_buckets, 7);
    assert_int_equal(p.buckets[6].up_to, 8192);
    assert_int_equal(config_policy(&p, &c, 8, &err), STATUS_OK);
    assert_int_equal(p.n_buckets, 1);
}
static void test_policy_own_buckets(void **state) {
    struct config c;
    struct policy_config p;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "buckets",
                                "[{\"up_to\": 64, \"max_wait_ms\": 1.5}, "
                                "{\"up_to\": 256, \"max_batch_tokens\": 9}]",
                                &err),
                     STATUS_OK);
    assert_int_equal(config_policy(&p, &c, 256, &err), STATUS_OK);
    assert_int_equal(p.buckets[0].max_wait_ns, 1500000);
    assert_int_equal(p.buckets[1].max_batch_tokens, 9);
    assert_int_equal(config_policy(&p, &c, 128, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "{\"up_to\": 128}"));
    assert_int_equal(config_policy(&p, &c, 512, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "{\"up_to\": 512}"));
}
static void test_policy_times(void **state) {
    struct config c;
    struct policy_config p;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "max-batch-ms", "7.5", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "rank-cost-factor", "0.5", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "priority-shift-ms", "2", &err), STATUS_OK);
    assert_int_equal(config_set(&c, "batching.interrupt", NULL, &err), STATUS_OK);
    assert_int_equal(config_policy(&p, &c, 512, &err), STATUS_OK);
    assert_int_equal(p.max_batch_ns, 7500000);
    assert_true(p.rank_cost_factor == 0.5);
    assert_int_equal(p.priority_ns[PRIORITY_LOW], 2000000);
    assert_true(p.interrupt);
    assert_int_equal(config_set(&c, "rank-cost-factor", "-1", &err), STATUS_INVALID);
    assert_int_equal(config_set(&c, "max-batch-ms", "60001", &err), STATUS_INVALID);
}
static void test_policy_modes(void **state) {
    struct config c;
    struct policy_config p;
    struct error err;
    (void)state;
    config_defaults(&c);
    c.batching.mode = BATCH_PADDED;
    assert_int_equal(config_policy(&p, &c, 512, &err), STATUS_OK);
    assert_int_equal(p.n_buckets, 1);
    assert_int_equal(p.buckets[0].max_batch_tokens, 16384);
    assert_int_equal(p.buckets[0].max_batch_requests, 32);
    assert_int_equal(p.buckets[0].max_wait_ns, 5000000);
    c.batching.mode = BATCH_NONE;
    assert_int_equal(config_policy(&p, &c, 512, &err), STATUS_OK);
    assert_int_equal(p.buckets[0].max_batch_requests, 1);
    assert_int_equal(p.buckets[0].max_wait_ns, 0);
}
static void test_check(void **state) {
    struct config c;
    struct error err;
    (void)state;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "buckets", "[{\"up_to\": 64}, {\"up_to\": 65}]", &err), 0);
    c.batching.buckets[1].up_to = 32; // no text can say that
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "batching.buckets"));
    c.batching.mode = BATCH_NONE; // has no use for buckets, and still
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    config_defaults(&c);
    c.batching.max_queued_jobs = c.server.max_client_batch_size - 1;
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "server.max_client_batch_size"));
    config_defaults(&c);
    c.server.max_request_memory_bytes = 2 * c.server.max_body_bytes;
    assert_int_equal(config_check(&c, &err), STATUS_OK);
    c.server.max_request_memory_bytes--;
    assert_int_equal(config_check(&c, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "server.max_request_memory_bytes"));
}

static void test_print_reads_back(void **state) {
    static const char *const options[][2] = {
        {"host", "a\"b\\c\x01"},
        {"max_wait_ms", "0.1"},
        {"mode", "padded"},
        {"level", "off"},
        {"max_body_bytes", "5000"},
        {"pin", "true"},
        {"buckets", "[{\"up_to\": 5, \"max_wait_ms\": 0.25}, {\"up_to\": 6, "
                    "\"max_batch_requests\": 2, \"max_batch_tokens\": 3}]"},
    };
    struct config c, back;
    struct error err = {.text = ""};
    (void)state;
    config_defaults(&c);
    for (size_t i = 0; i < N_ITEMS(options); i++) {
        assert_int_equal(config_set(&c, options[i][0], options[i][1], &err), STATUS_OK);
    }
    char *text = printed(&c);
    assert_int_equal(read_text(&back, text, &err), STATUS_OK);
    assert_same(&c, &back);
    free(text);
}
/* deploy/berth.jsonc is what the table prints, byte for byte; so it documents every setting, and
 * its values are the defaults. */
static void test_sample(void **state) {
    struct config c, defaults;
    struct error err = {.text = ""};
    (void)state;
    const char *path = getenv("BERTH_SAMPLE_CONFIG");
    assert_non_null(path);
    config_defaults(&defaults);
    config_defaults(&c);
    c.server.port = 1, c.batching.n_buckets = 1; // so that reading must bring the defaults back
    assert_int_equal(config_read_file(&c, path, &err), STATUS_OK);
    assert_same(&c, &defaults);

    char *wanted = printed_by(config_print_sample), *got = calloc(strlen(wanted) + 2, 1);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_non_null(got);
    const size_t n = fread(got, 1, strlen(wanted) + 1, f);
    fclose(f);
    assert_int_equal(n, strlen(wanted));
    assert_string_equal(got, wanted);
    for (int i = 0; i < config_n_settings; i++) {
        assert_non_null(strstr(got, config_settings[i].effect));
        assert_non_null(strstr(got, setting_name(&config_settings[i])));
    }
    free(wanted);
    free(got);
}
static void test_help_has_every_key(void **state) {
    (void)state;
    char *help = printed_by(config_print_help);
    for (int i = 0; i < config_n_settings; i++) {
        char option[100];
        snprintf(option, sizeof(option), "--%s\n", config_settings[i].key);
        assert_non_null(strstr(help, option));
        assert_non_null(strstr(help, config_settings[i].effect));
    }
    free(help);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_read),
        cmocka_unit_test(test_unknown_keys),   cmocka_unit_test(test_nearest_key),
        cmocka_unit_test(test_wrong_values),   cmocka_unit_test(test_wrong_buckets),
        cmocka_unit_test(test_syntax),         cmocka_unit_test(test_not_strict),
        cmocka_unit_test(test_file),           cmocka_unit_test(test_set),
        cmocka_unit_test(test_set_wrong),      cmocka_unit_test(test_last_parts_are_unique),
        cmocka_unit_test(test_policy_default), cmocka_unit_test(test_policy_own_buckets),
        cmocka_unit_test(test_policy_times),   cmocka_unit_test(test_policy_modes),
        cmocka_unit_test(test_check),          cmocka_unit_test(test_print_reads_back),
        cmocka_unit_test(test_sample),         cmocka_unit_test(test_help_has_every_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
