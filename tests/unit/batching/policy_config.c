#include "base/timing.h"
#include "batching/policy.h"
#include "tests/unit/test.h"
#include <math.h>
#include <string.h>

struct bad_config {
    const char *says;
    struct policy_config cfg;
};
static const struct bad_config bad_configs[] = {
    {"mode 9",
     {.mode = (enum batch_mode)9,
      .n_buckets = 1,
      .buckets = {{512, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"0 buckets", {.mode = BATCH_PACKED}},
    {"33 buckets", {.mode = BATCH_PACKED, .n_buckets = 33}},
    {"mode padded has one bucket",
     {.mode = BATCH_PADDED,
      .n_buckets = 2,
      .buckets = {{64, 1, 1, 0}, {512, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"up_to 64 follows up_to 64",
     {.mode = BATCH_PACKED,
      .n_buckets = 2,
      .buckets = {{64, 1, 1, 0}, {64, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"up_to 32 follows up_to 64",
     {.mode = BATCH_PACKED,
      .n_buckets = 2,
      .buckets = {{64, 1, 1, 0}, {32, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"up_to 0 follows",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{0, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"max_batch_tokens is 0",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 0, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"max_batch_requests is -1",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 1, -1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"max_wait_ms is -1",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 1, 1, -NS_PER_MS}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"max_wait_ms is 60001",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 1, 1, 60001 * NS_PER_MS}},
      .n_keys = 1,
      .key_weights = {1}}},
    {"0 API keys", {.mode = BATCH_PACKED, .n_buckets = 1, .buckets = {{512, 1, 1, 0}}}},
    {"65 API keys",
     {.mode = BATCH_PACKED, .n_buckets = 1, .buckets = {{512, 1, 1, 0}}, .n_keys = 65}},
    {"API key 1 has the weight 0",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 1, 1, 0}},
      .n_keys = 2,
      .key_weights = {1000, 0}}},
    {"weight 1001",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{512, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1001}}},
    {"max_batch_ms is -1", {.mode = BATCH_PACKED, .n_buckets = 1, .max_batch_ns = -NS_PER_MS}},
    {"rank_cost_factor is -1", {.mode = BATCH_PACKED, .n_buckets = 1, .rank_cost_factor = -1}},
    {"rank_cost_factor is nan", {.mode = BATCH_PACKED, .n_buckets = 1, .rank_cost_factor = NAN}},
    {"priority low shifts by 60001 ms",
     {.mode = BATCH_PACKED, .n_buckets = 1, .priority_ns = {0, 0, 60001 * NS_PER_MS}}},
    {"add a bucket with up_to 512",
     {.mode = BATCH_PACKED,
      .n_buckets = 1,
      .buckets = {{511, 1, 1, 0}},
      .n_keys = 1,
      .key_weights = {1}}},
};
static struct policy_config good_config(enum batch_mode mode) {
    struct policy_config c = {
        .mode = mode,
        .max_batch_ns = 60 * NS_PER_S,
        .rank_cost_factor = 1000,
        .priority_ns = {0, -60 * NS_PER_S, 60 * NS_PER_S},
        .n_keys = 1,
        .key_weights = {1},
        .buckets = {{64, 256, 16, 60 * NS_PER_S}, {128, 256, 8, 0}, {512, 256, 4, 0}},
        .n_buckets = 3,
    };
    if (mode == BATCH_NONE || mode == BATCH_PADDED) {
        c.buckets[0] = c.buckets[2];
        c.n_buckets = 1;
    }
    return c;
}
static void refuses_bad_configs_with_the_reason(void **state) {
    for (size_t i = 0; i < N_ITEMS(bad_configs); i++) {
        struct error err = {.text = ""};
        assert_int_equal(policy_config_check(&bad_configs[i].cfg, 512, &err), STATUS_INVALID);
        if (!strstr(err.text, bad_configs[i].says)) {
            fail_msg("\"%s\" does not say \"%s\"", err.text, bad_configs[i].says);
        }
    }
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        struct policy_config good;
        good = good_config(mode);
        assert_int_equal(policy_config_check(&good, 512, NULL), STATUS_OK);
    }
}
static void finds_the_smallest_bucket(void **state) {
    const struct policy_config buckets_3 = good_config(BATCH_PACKED);
    assert_int_equal(policy_bucket_of(&buckets_3, 1), 0);
    assert_int_equal(policy_bucket_of(&buckets_3, 64), 0);
    assert_int_equal(policy_bucket_of(&buckets_3, 65), 1);
    assert_int_equal(policy_bucket_of(&buckets_3, 512), 2);
    assert_int_equal(policy_bucket_of(&buckets_3, 513), -1);
}
static void names_are_those_of_the_config(void **state) {
    const char *const modes[] = {"none", "padded", "bucketed", "packed"};
    const char *const reasons[] = {"full", "waited", "idle", "drain", "urgent"};
    assert_int_equal(N_ITEMS(modes), N_BATCH_MODES);
    assert_int_equal(N_ITEMS(reasons), N_RELEASE_REASONS);
    for (int i = 0; i < N_BATCH_MODES; i++) {
        assert_string_equal(batch_mode_names[i], modes[i]);
    }
    for (int i = 0; i < N_RELEASE_REASONS; i++) {
        assert_string_equal(release_reason_names[i], reasons[i]);
    }
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_bad_configs_with_the_reason),
        cmocka_unit_test(finds_the_smallest_bucket),
        cmocka_unit_test(names_are_those_of_the_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
