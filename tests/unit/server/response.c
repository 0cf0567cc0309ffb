#include "server/response.h"
#include "server/routes.h"
#include "tests/unit/server/exchange.h"
#include <stdlib.h>

static struct request request;
static struct config cfg;
static struct job jobs[3];
static const struct route predict_route = {.method = "POST", .metric = ROUTE_PREDICT};
static const struct route health_route = {.method = "GET", .metric = ROUTE_HEALTH};
static int setup(void **state) {
    json_init();
    cfg = test_config();
    exchange_init(&request);
    exchange_body(&request, "{}", 2);
    return 0;
}
static int teardown(void **state) {
    arena_finish(&request.arena);
    return 0;
}

static void every_refusal_is_a_json_body(void **state) {
    static const struct {
        enum refusal why;
        int http_status;
        const char *type;
        bool retry;
    } table[] = {
        {REFUSE_BAD_REQUEST, 400, "BadRequest", false},
        {REFUSE_EMPTY, 400, "Empty", false},
        {REFUSE_NOT_FOUND, 404, "NotFound", false},
        {REFUSE_METHOD, 405, "MethodNotAllowed", false},
        {REFUSE_SLOW, 408, "RequestTimeout", false},
        {REFUSE_NO_LENGTH, 411, "LengthRequired", false},
        {REFUSE_TOO_LARGE, 413, "TooLarge", false},
        {REFUSE_TYPE, 415, "UnsupportedMediaType", false},
        {REFUSE_VALIDATION, 422, "Validation", false},
        {REFUSE_TASK, 424, "Backend", false},
        {REFUSE_KEY, 401, "Unauthorized", false},
        {REFUSE_FORBIDDEN, 403, "Forbidden", false},
        {REFUSE_RESULT, 424, "Backend", false},
        {REFUSE_OVERLOADED, 429, "Overloaded", true},
        {REFUSE_HEADERS, 431, "HeadersTooLarge", false},
        {REFUSE_INTERNAL, 500, "Internal", false},
        {REFUSE_DEVICE, 503, "Backend", true},
        {REFUSE_UNAVAILABLE, 503, "Unhealthy", true},
        {REFUSE_DEADLINE, 504, "Timeout", false},
    };
    for (size_t i = 0; i < N_ITEMS(table); i++) {
        reply_error(&request, table[i].why, "the \"%s\" is %d\n", "thing", 7);
        assert_int_equal(refusal_http_status(table[i].why), table[i].http_status);
        assert_int_equal(request.reply.http_status, table[i].http_status);
        assert_string_equal(request.reply.content_type, "application/json");
        assert_string_equal(field_of(&request, "error"), "the \"thing\" is 7\n");
        assert_string_equal(field_of(&request, "error_type"), table[i].type);
        assert_string_equal(field_of(&request, "request_id"), "test-1");
        assert_int_equal(header_of(&request, "Retry-After") != NULL, table[i].retry);
        assert_int_equal(header_of(&request, "WWW-Authenticate") != NULL,
                         table[i].why == REFUSE_KEY);
    }
}
static void when_to_come_again_is_rounded_up(void **state) {
    static const struct {
        int64_t ns;
        const char *s, *ms;
    } cases[] = {
        {0, "1", "1"},
        {1, "1", "1"},
        {NS_PER_S, "1", "1000"},
        {NS_PER_S + 1, "2", "1001"},
        {1700 * NS_PER_MS, "2", "1700"},
        {INT64_MAX, "3600", "3600000"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        reply_error(&request, REFUSE_OVERLOADED, "full");
        reply_retry_after(&request, cases[i].ns);
        assert_string_equal(header_of(&request, "Retry-After"), cases[i].s);
        assert_string_equal(header_of(&request, "Retry-After-Ms"), cases[i].ms);
        assert_int_equal(request.reply.n_headers, 2);
    }
}
static void an_input_fails_alone_or_for_all(void **state) {
    struct input in = {.job = -1};
    request.is_partial = true;
    assert_true(reply_item_error(&request, &in, REFUSE_EMPTY, "inputs[%d] is empty", 3));
    assert_string_equal(in.error, "inputs[3] is empty");
    assert_string_equal(in.error_type, "Empty");
    assert_int_equal(request.reply.http_status, 0);
    request.is_partial = false;
    assert_false(reply_item_error(&request, &in, REFUSE_RESULT, "inputs[%d] is bad", 3));
    assert_int_equal(request.reply.http_status, 424);
    assert_string_equal(field_of(&request, "error"), "inputs[3] is bad");
}
static void every_status_has_a_refusal(void **state) {
    assert_int_equal(refusal_of_status(STATUS_INVALID), REFUSE_VALIDATION);
    assert_int_equal(refusal_of_status(STATUS_TOO_LONG), REFUSE_VALIDATION);
    assert_int_equal(refusal_of_status(STATUS_OVERLOADED), REFUSE_OVERLOADED);
    assert_int_equal(refusal_of_status(STATUS_TIMEOUT), REFUSE_DEADLINE);
    assert_int_equal(refusal_of_status(STATUS_BACKEND), REFUSE_DEVICE);
    assert_int_equal(refusal_of_status(STATUS_RESULT), REFUSE_RESULT);
    assert_int_equal(refusal_of_status(STATUS_NO_MEMORY), REFUSE_TOO_LARGE);
    assert_int_equal(refusal_of_status(STATUS_UNAVAILABLE), REFUSE_UNAVAILABLE);
    assert_int_equal(refusal_of_status(STATUS_IO), REFUSE_INTERNAL);
}
static void a_full_arena_still_says_something(void **state) {
    while (arena_alloc(&request.arena, 1, ARENA_ALIGN)) {
    }
    reply_error(&request, REFUSE_TOO_LARGE, "nobody will see this");
    assert_int_equal(request.reply.http_status, 413);
    assert_non_null(strstr(request.reply.body, "\"error_type\":\"TooLarge\""));
    request.route = &predict_route;
    reply_add_timing(&request, &cfg); // headers that do not fit are left out
    assert_string_equal(header_of(&request, "X-Request-Id"), "test-1");
    assert_null(header_of(&request, "Server-Timing"));
}
static void an_error_drops_what_an_answer_had_said(void **state) {
    reply_header(&request, "Berth-Truncated", "inputs=1, tokens=2");
    reply_error(&request, REFUSE_INTERNAL, "no");
    assert_null(header_of(&request, "Berth-Truncated"));
}

/* An answered request: two jobs in one batch, the third in another. */
static void make_answer(struct request *r) {
    const int64_t t = time_now_ns() - 20 * NS_PER_MS;
    static const int64_t ends_us[N_STAGES] = {123, 1456, 2789, 5000, 5001, 17777, 17999, 18500};
    r->route = &predict_route;
    r->n_chars = 77;
    stage_clock_start(&r->clock, t);
    for (int s = 0; s < N_STAGES - 1; s++) {
        stage_clock_end(&r->clock, (enum stage)s, t + ends_us[s] * 1000 + s * 111);
    }
    memset(jobs, 0, sizeof(jobs));
    const struct ride first = {.batch_id = 7,
                               .n_requests = 8,
                               .n_jobs = 12,
                               .n_tokens = 300,
                               .n_rows = 320,
                               .longest = 41,
                               .bucket_up_to = 64,
                               .mode = BATCH_PACKED,
                               .op_ns = {1000000, 2000000, 3000000}};
    const struct ride second = {.batch_id = 8,
                                .n_requests = 2,
                                .n_jobs = 3,
                                .n_tokens = 20,
                                .n_rows = 20,
                                .longest = 9,
                                .bucket_up_to = 32,
                                .mode = BATCH_PACKED,
                                .op_ns = {500000, 0, 1}};
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){.n_tokens = 10 + i,
                               .queued_ns = t,
                               .chosen_ns = t + 2000000 * (i + 1),
                               .infer_ns = t + 7000000,
                               .done_ns = t + 10000000,
                               .ride = i == 1 ? second : first};
    }
    r->jobs = jobs;
    r->n_jobs = 3;
    reply_json(r, 200, "[]", 2);
}
static double dur_of(const char *timing, const char *name) {
    char key[40];
    snprintf(key, sizeof(key), "%s;dur=", name);
    const char *p = strstr(timing, key);
    if (!p) {
        fail_msg("%s is not in %s", name, timing);
    }
    return strtod(p + strlen(key), NULL);
}
static void stages_add_up_to_the_total(void **state) {
    make_answer(&request);
    reply_add_timing(&request, &cfg);
    const char *timing = header_of(&request, "Server-Timing");
    assert_non_null(timing);
    long sum_us = 0;
    for (int s = 0; s < N_STAGES; s++) {
        sum_us += (long)(dur_of(timing, stage_names[s]) * 1000 + 0.5);
    }
    const double total = dur_of(timing, "total");
    assert_int_equal(sum_us, (long)(total * 1000 + 0.5)); // to the last printed digit
    assert_true(total >= 20.0 && total < 2000.0);
    assert_true(dur_of(timing, "read") == 0.123);
    assert_true(dur_of(timing, "queue") == 2.211);
    assert_null(strstr(timing, "attention")); // nobody asked for it
    assert_int_equal(strncmp(timing, "read;dur=0.123, parse;dur=1.333, tokenize;dur=", 46), 0);
}
static void batches_are_counted_once(void **state) {
    make_answer(&request);
    reply_add_timing(&request, &cfg);
    assert_string_equal(header_of(&request, "Berth-Batch"),
                        "requests=10, jobs=15, tokens=320, rows=340, longest=41, bucket=64, "
                        "padding=0.059, mode=packed, batches=2");
    exchange_body(&request, "{}", 2);
    make_answer(&request);
    request.n_jobs = 1;
    reply_add_timing(&request, &cfg);
    assert_string_equal(header_of(&request, "Berth-Batch"),
                        "requests=8, jobs=12, tokens=300, rows=320, longest=41, bucket=64, "
                        "padding=0.063, mode=packed");
}
static void tei_headers_are_whole_milliseconds_and_means(void **state) {
    make_answer(&request);
    reply_add_timing(&request, &cfg);
    assert_string_equal(header_of(&request, "x-compute-type"), "gpu+optimized");
    assert_string_equal(header_of(&request, "x-compute-characters"), "77");
    assert_string_equal(header_of(&request, "x-compute-tokens"), "33");
    assert_string_equal(header_of(&request, "x-queue-time"), "4");     // (2 + 4 + 6) / 3
    assert_string_equal(header_of(&request, "x-inference-time"), "3"); // of each job
    assert_string_equal(header_of(&request, "x-tokenization-time"), "0");
    assert_string_equal(header_of(&request, "x-total-time"), header_of(&request, "x-compute-time"));
    assert_true(strtol(header_of(&request, "x-total-time"), NULL, 10) >= 20);
}
static void a_profile_comes_when_asked_and_allowed(void **state) {
    make_answer(&request);
    request.wants_profile = true;
    reply_add_timing(&request, &cfg);
    const char *timing = header_of(&request, "Server-Timing");
    assert_true(dur_of(timing, op_kind_names[0]) == 1.5); // each batch once
    assert_true(dur_of(timing, op_kind_names[1]) == 2.0);
    assert_true(dur_of(timing, op_kind_names[2]) == 3.0);
    exchange_body(&request, "{}", 2);
    make_answer(&request);
    request.wants_profile = true;
    cfg.server.profile_header = false;
    reply_add_timing(&request, &cfg);
    assert_null(strstr(header_of(&request, "Server-Timing"), op_kind_names[0]));
}
static void headers_can_be_switched(void **state) {
    snprintf(cfg.server.timing_allow_origin, sizeof(cfg.server.timing_allow_origin), "*");
    make_answer(&request);
    reply_add_timing(&request, &cfg);
    assert_string_equal(header_of(&request, "Timing-Allow-Origin"), "*");
    exchange_body(&request, "{}", 2);
    make_answer(&request);
    cfg.server.timing_headers = false;
    reply_add_timing(&request, &cfg);
    assert_int_equal(request.reply.n_headers, 1);
    assert_string_equal(header_of(&request, "X-Request-Id"), "test-1");
    exchange_body(&request, "{}", 2);
    cfg.server.timing_headers = true;
    request.route = &health_route;
    reply_json(&request, 200, "{}", 2);
    reply_add_timing(&request, &cfg);
    assert_int_equal(request.reply.n_headers, 1);
}
static void a_request_that_expired_in_the_queue_was_in_the_queue(void **state) {
    make_answer(&request);
    stage_clock_end(&request.clock, STAGE_TOKENIZE, request.clock.start_ns + NS_PER_MS);
    jobs[2].chosen_ns = 0;
    atomic_store(&request.ended, STATUS_TIMEOUT);
    reply_error(&request, REFUSE_DEADLINE, "too late");
    reply_add_timing(&request, &cfg);
    const char *timing = header_of(&request, "Server-Timing");
    assert_true(dur_of(timing, "queue") >= 18.0);
    assert_true(dur_of(timing, "infer") == 0);
    assert_null(header_of(&request, "Berth-Batch"));
    assert_null(header_of(&request, "x-compute-type"));
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_refusal_is_a_json_body, setup, teardown),
        cmocka_unit_test(every_status_has_a_refusal),
        cmocka_unit_test_setup_teardown(when_to_come_again_is_rounded_up, setup, teardown),
        cmocka_unit_test_setup_teardown(an_input_fails_alone_or_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_arena_still_says_something, setup, teardown),
        cmocka_unit_test_setup_teardown(an_error_drops_what_an_answer_had_said, setup, teardown),
        cmocka_unit_test_setup_teardown(stages_add_up_to_the_total, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_are_counted_once, setup, teardown),
        cmocka_unit_test_setup_teardown(tei_headers_are_whole_milliseconds_and_means, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_profile_comes_when_asked_and_allowed, setup, teardown),
        cmocka_unit_test_setup_teardown(headers_can_be_switched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_that_expired_in_the_queue_was_in_the_queue, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
