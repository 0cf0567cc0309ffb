#include "server/exposition.h"
#include "server/metrics.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;
static struct metrics *metrics;
static struct policy_config policy = {
    .mode = BATCH_PACKED, .buckets = {{.up_to = 32}, {.up_to = 512}}, .n_buckets = 2};
static struct metrics_view view = {
    .policy = &policy,
    .batcher = {.queues = {.n_queued = {3, 4}, .n_jobs = 7, .n_tokens = 99}},
    .model_name = "a \"b\"\\c\nd\xC3\xA9\xFF",
    .backend = "cpu",
    .dtype = "float32"};
static int setup(void **state) {
    metrics = calloc(1, sizeof(*metrics));
    if (metrics) {
        metrics_set_buckets(metrics, &policy);
    }
    return !metrics || arena_init(&arena, 4 << 20, NULL);
}
static int teardown(void **state) {
    free(metrics);
    arena_finish(&arena);
    return 0;
}
static const char *text_of(const struct metrics_view *v) {
    size_t len = 0;
    char *text = metrics_write(metrics, v, &arena, &len);
    assert_non_null(text);
    char *copy = arena_alloc(&arena, len + 1, 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
/* The value of the sample that begins with `key`, name and labels written out. */
static double value_of(const char *text, const char *key) {
    char line[256];
    snprintf(line, sizeof(line), "\n%s ", key);
    const char *p = strstr(text, line);
    if (!p) {
        fail_msg("no sample %s", key);
    }
    return strtod(p + strlen(line), NULL);
}

static void every_line_is_of_the_format(void **state) {
    const char *text = text_of(&view);
    char family[128] = "";
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const size_t len = strcspn(line, "\n");
        assert_int_equal(line[len], '\n');
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(family, sizeof(family), "%.*s", (int)strcspn(line + 7, " "), line + 7);
            /* A family is told once. */
            char again[160];
            snprintf(again, sizeof(again), "\n# HELP %s ", family);
            assert_null(strstr(line + len, again));
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(strncmp(line + 7, family, strlen(family)), 0);
        } else {
            assert_int_equal(strncmp(line, family, strlen(family)), 0); // samples stand together
            const char *value = line + len;
            while (value > line && value[-1] != ' ') {
                value--;
            }
            char *end = NULL;
            strtod(value, &end);
            assert_ptr_equal(end, line + len);
        }
    }
}
static void counters_come_out(void **state) {
    metrics->requests[ROUTE_PREDICT][2] = 5;
    metrics->requests[ROUTE_PREDICT][4] = 2;
    metrics->requests[ROUTE_TOKENIZE][2] = 1;
    metrics->errors[422] = 2;
    metrics->accepted = 9;
    metrics->batches[RELEASE_FULL] = 6;
    metrics_bucket_of(metrics, 33)->jobs = 11;
    metrics->tokens = 300;
    metrics->rows = 320;
    metrics->op_ns[OP_GEMM] = 1500000000;
    metrics->step_ns[STEP_QKV] = 500000000;
    metrics->jobs_failed = 1;
    atomic_store(&metrics->ready, true);
    const char *text = text_of(&view);
    assert_true(value_of(text, "berth_requests_total{route=\"predict\",code=\"2xx\"}") == 5);
    assert_true(value_of(text, "berth_requests_total{route=\"predict\",code=\"4xx\"}") == 2);
    assert_true(value_of(text, "berth_errors_total{code=\"422\"}") == 2);
    assert_null(strstr(text, "code=\"423\""));
    assert_true(value_of(text, "berth_requests_accepted_total") == 9);
    assert_true(value_of(text, "berth_batches_total{reason=\"full\"}") == 6);
    assert_true(value_of(text, "berth_bucket_jobs_total{bucket=\"512\"}") == 11);
    assert_true(value_of(text, "berth_tokens_total") == 300);
    assert_true(value_of(text, "berth_rows_total") == 320);
    assert_true(value_of(text, "berth_op_seconds_total{op=\"gemm\"}") == 1.5);
    assert_true(value_of(text, "berth_kernel_seconds_total{kernel=\"qkv\"}") == 0.5);
    assert_true(value_of(text, "berth_jobs_total{outcome=\"failed\"}") == 1);
    assert_true(value_of(text, "berth_queue_jobs{bucket=\"32\"}") == 3);
    assert_true(value_of(text, "berth_queue_tokens") == 99);
    assert_true(value_of(text, "berth_ready") == 1);
    assert_true(value_of(text, "te_request_count{method=\"predict\"}") == 7);
    assert_true(value_of(text, "te_request_success{method=\"predict\"}") == 5);
    assert_true(value_of(text, "te_request_failure{err=\"validation\"}") == 2);
    assert_true(value_of(text, "te_queue_size") == 7);
    assert_true(value_of(text, "process_resident_memory_bytes") > 1e6);
    assert_true(value_of(text, "process_start_time_seconds") > 1.6e9);
    assert_true(value_of(text, "process_threads") >= 1);
}
static void histograms_are_cumulative_and_in_seconds(void **state) {
    static const int64_t waits_ms[] = {1, 1, 3, 30, 20000};
    for (size_t i = 0; i < N_ITEMS(waits_ms); i++) {
        histogram_record(&metrics->stages[STAGE_QUEUE], waits_ms[i] * NS_PER_MS);
    }
    histogram_record(&metrics->batch_jobs, 16);
    histogram_record(&metrics->batch_jobs, 17);
    const char *text = text_of(&view);
    assert_true(value_of(text, "berth_stage_seconds_bucket{stage=\"queue\",le=\"0.0005\"}") == 0);
    assert_true(value_of(text, "berth_stage_seconds_bucket{stage=\"queue\",le=\"0.0025\"}") == 2);
    assert_true(value_of(text, "berth_stage_seconds_bucket{stage=\"queue\",le=\"0.005\"}") == 3);
    assert_true(value_of(text, "berth_stage_seconds_bucket{stage=\"queue\",le=\"10.0\"}") == 4);
    assert_true(value_of(text, "berth_stage_seconds_bucket{stage=\"queue\",le=\"+Inf\"}") == 5);
    assert_true(value_of(text, "berth_stage_seconds_count{stage=\"queue\"}") == 5);
    assert_true(value_of(text, "berth_stage_seconds_sum{stage=\"queue\"}") == 20.035);
    assert_true(value_of(text, "berth_batch_jobs_bucket{le=\"8\"}") == 0);
    assert_true(value_of(text, "berth_batch_jobs_bucket{le=\"16\"}") == 1);
    assert_true(value_of(text, "berth_batch_jobs_bucket{le=\"31\"}") == 2);
    assert_true(value_of(text, "berth_batch_jobs_sum") == 33);
}
static void labels_are_escaped(void **state) {
    const char *text = text_of(&view);
    assert_non_null(
        strstr(text, "\nberth_model_info{model=\"a \\\"b\\\"\\\\c\\nd\xC3\xA9\xEF\xBF\xBD\"} 1\n"));
    assert_non_null(strstr(text, "\nberth_backend_info{backend=\"cpu\",dtype=\"float32\"} 1\n"));
}
static void without_a_model_the_rest_is_told(void **state) {
    const struct metrics_view nothing = {.policy = NULL};
    const char *text = text_of(&nothing);
    assert_true(value_of(text, "berth_ready") == 0);
    assert_null(strstr(text, "berth_model_info"));
    assert_null(strstr(text, "berth_bucket_jobs_total"));
}
static void an_arena_too_small_gives_nothing(void **state) {
    struct arena small;
    size_t len = 0;
    assert_int_equal(arena_init(&small, 8192, NULL), STATUS_OK);
    assert_null(metrics_write(metrics, &view, &small, &len));
    arena_finish(&small);
}
#if BERTH_HAVE_JEMALLOC
static void the_allocator_is_asked(void **state) {
    const char *text = text_of(&view);
    assert_true(value_of(text, "berth_jemalloc_allocated_bytes") > 0);
    assert_true(value_of(text, "berth_jemalloc_resident_bytes") >=
                value_of(text, "berth_jemalloc_active_bytes"));
}
#endif
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_line_is_of_the_format, setup, teardown),
        cmocka_unit_test_setup_teardown(counters_come_out, setup, teardown),
        cmocka_unit_test_setup_teardown(histograms_are_cumulative_and_in_seconds, setup, teardown),
        cmocka_unit_test_setup_teardown(labels_are_escaped, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_model_the_rest_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(an_arena_too_small_gives_nothing, setup, teardown),
#if BERTH_HAVE_JEMALLOC
        cmocka_unit_test_setup_teardown(the_allocator_is_asked, setup, teardown),
#endif
    };
    if (argc > 1 && strcmp(argv[1], "--print") == 0) { // for the test with another parser
        size_t len = 0;
        if (setup(NULL)) {
            return 1;
        }
        for (int i = 0; i < 1000; i++) {
            histogram_record(&metrics->total, i * i * 1000);
            histogram_record(&metrics->batch_rows, i);
        }
        metrics->errors[429] = 3;
        const char *text = metrics_write(metrics, &view, &arena, &len);
        return !text || fwrite(text, 1, len, stdout) != len;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
