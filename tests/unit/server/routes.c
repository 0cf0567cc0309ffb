/* The routes with a real tokenizer and model description, and logits that the test writes: an
 * engine of the accessors only, so that what comes out is known to the digit. */
#include "server/routes.h"
#include "tests/unit/server/exchange.h"
#include <math.h>
#include <stdlib.h>

struct engine {
    struct tokenizer *tokenizer;
    struct model_config model;
    struct engine_info info;
    struct engine_device device;
    struct batcher *batcher;
    bool healthy;
};
struct batcher *engine_batcher(struct engine *e) {
    return e->batcher;
}
const struct tokenizer *engine_tokenizer(const struct engine *e) {
    return e->tokenizer;
}
const struct model_config *engine_model(const struct engine *e) {
    return &e->model;
}
const struct engine_info *engine_get_info(const struct engine *e) {
    return &e->info;
}
void engine_get_device(struct engine *e, struct engine_device *out) {
    *out = e->device;
}
enum status engine_policy(const struct engine *e, struct policy_config *out, const struct config *c,
                          struct error *err) {
    return config_policy(out, c, e->info.max_input_tokens, err);
}
enum status engine_configure(struct engine *e, struct policy_config *policy, struct error *err) {
    return batcher_configure(engine_batcher(e), policy, err);
}
bool engine_is_healthy(const struct engine *e) {
    return e->healthy;
}

static struct engine engine;
static struct metrics *metrics;
static struct config cfg;
static struct server_context ctx = {.cfg = &cfg};
static struct request request;

static void open_engine(const char *model) {
    struct error err = {""};
    char dir[1024];
    snprintf(dir, sizeof(dir), "%s/%s", MODELS, model);
    memset(&engine, 0, sizeof(engine));
    if (tokenizer_open(&engine.tokenizer, dir, &err) ||
        model_config_read(&engine.model, dir, &err)) {
        fail_msg("%s", err.text);
    }
    engine.healthy = true;
    engine.info =
        (struct engine_info){.model_name = model, .max_input_tokens = 16, .takes_pairs = true};
    engine.device = (struct engine_device){.backend = "cpu",
                                           .dtype = "float32",
                                           .detail = "avx2, 2 lanes",
                                           .n_workers = 1,
                                           .n_threads = 2};
    engine.info.policy = (struct policy_config){
        .mode = BATCH_PACKED,
        .buckets = {{.up_to = 8, .max_batch_tokens = 64, .max_batch_requests = 9},
                    {.up_to = 16,
                     .max_batch_tokens = 32,
                     .max_batch_requests = 4,
                     .max_wait_ns = 1500000}},
        .n_buckets = 2,
        .n_keys = 1,
        .key_weights = {1}};
    const struct batcher_config batcher = {.queues = {.policy = engine.info.policy,
                                                      .max_seq_len = 16,
                                                      .max_queued_jobs = 8,
                                                      .max_queued_tokens = 1000,
                                                      .n_workers = 1}};
    assert_int_equal(batcher_create(&engine.batcher, &batcher, NULL), STATUS_OK);
    atomic_store(&ctx.engine, &engine);
}
static void close_engine(void) {
    atomic_store(&ctx.engine, NULL);
    batcher_destroy(engine.batcher);
    tokenizer_close(engine.tokenizer);
    model_config_finish(&engine.model);
}
static int setup(void **state) {
    json_init();
    cfg = test_config();
    exchange_init(&request);
    metrics = xcalloc(1, sizeof(*metrics));
    ctx.metrics = metrics;
    atomic_store(&ctx.draining, false);
    open_engine("base");
    return 0;
}
static int teardown(void **state) {
    close_engine();
    free(metrics);
    arena_finish(&request.arena);
    return 0;
}
static const struct route *must_find(const char *method, const char *path) {
    const char *allowed = NULL;
    const struct route *route = route_find(method, path, &allowed);
    assert_non_null(route);
    return route;
}
static void start(const char *method, const char *path, const char *body) {
    exchange_body(&request, body, strlen(body));
    request.route = must_find(method, path);
    request.route->start(&ctx, &request);
}
/* Does what queue and worker would: job i gets the logits i, -i (or what `status` says). */
static void compute(enum status status) {
    for (int i = 0; i < request.n_jobs; i++) {
        struct job *j = &request.jobs[i];
        j->status = status;
        for (int k = 0; k < engine.model.n_labels; k++) {
            j->logits[k] = k ? (float)-i : (float)i;
        }
        j->queued_ns = j->chosen_ns = j->infer_ns = j->done_ns = time_now_ns();
        j->ride = (struct ride){.batch_id = 1,
                                .n_requests = 1,
                                .n_jobs = request.n_jobs,
                                .n_tokens = 9,
                                .n_rows = 9,
                                .longest = 9,
                                .bucket_up_to = 16,
                                .mode = BATCH_PACKED};
    }
}
static void finish(void) {
    request.route->finish(&ctx, &request);
    reply_add_timing(&request, &cfg);
}
static void predict(const char *body) {
    start("POST", "/predict", body);
    if (request.reply.http_status == 0) {
        compute(STATUS_OK);
        finish();
    }
}

static void paths_and_methods(void **state) {
    const char *allowed = NULL;
    assert_string_equal(must_find("POST", "/predict")->path, "/predict");
    assert_int_equal(must_find("POST", "/")->metric, ROUTE_PREDICT);
    assert_int_equal(must_find("GET", "/")->metric, ROUTE_HEALTH);
    assert_string_equal(must_find("GET", "/health/live")->path, "/health/live");
    assert_string_equal(must_find("HEAD", "/metrics")->method, "GET");
    assert_string_equal(must_find("GET", "/info?x=/y")->path, "/info");
    assert_null(route_find("GET", "/nothing", &allowed));
    assert_null(allowed);
    assert_null(route_find("GET", "/predict/", &allowed));
    assert_null(allowed);
    assert_null(route_find("GET", "", &allowed));
    assert_null(route_find("GET", "/predict", &allowed));
    assert_string_equal(allowed, "POST");
    assert_null(route_find("DELETE", "/info", &allowed));
    assert_string_equal(allowed, "GET, HEAD");
    assert_null(route_find("PUT", "/", &allowed));
    assert_string_equal(allowed, "GET, HEAD, POST");
    assert_null(route_find("get", "/info", &allowed));
    assert_true(must_find("POST", "/tokenize")->needs_engine);
    assert_false(must_find("GET", "/health")->needs_engine);
}
static void one_text_makes_one_job(void **state) {
    start("POST", "/predict", "{\"inputs\":\"a good film\"}");
    assert_int_equal(request.reply.http_status, 0);
    assert_int_equal(request.n_jobs, 1);
    const struct job *j = request.jobs;
    assert_int_equal(j->n_tokens, 5);
    assert_string_equal(tokenizer_token(engine.tokenizer, j->token_ids[0]), "[CLS]");
    assert_string_equal(tokenizer_token(engine.tokenizer, j->token_ids[2]), "good");
    assert_string_equal(tokenizer_token(engine.tokenizer, j->token_ids[4]), "[SEP]");
    assert_int_equal(j->token_type_ids[4], 0);
    assert_int_equal(metrics->input_tokens.count, 1);
    compute(STATUS_OK);
    finish();
    assert_int_equal(request.reply.http_status, 200);
    /* Equal scores: the lower index first. */
    assert_string_equal(body_of(&request), "[{\"score\":0.5,\"label\":\"NEGATIVE\"},"
                                           "{\"score\":0.5,\"label\":\"POSITIVE\"}]");
    assert_string_equal(header_of(&request, "x-compute-characters"), "11");
    assert_string_equal(header_of(&request, "x-compute-tokens"), "5");
    assert_null(header_of(&request, "Berth-Truncated"));
    assert_non_null(header_of(&request, "Berth-Batch"));
}
static void a_pair_has_two_types(void **state) {
    start("POST", "/predict", "{\"inputs\":[\"good film\",\"bad\"]}");
    const struct job *j = request.jobs;
    assert_int_equal(request.n_jobs, 1);
    assert_int_equal(j->n_tokens, 6); // [CLS] good film [SEP] bad [SEP]
    assert_int_equal(j->token_type_ids[3], 0);
    assert_int_equal(j->token_type_ids[4], 1);
    assert_int_equal(j->token_type_ids[5], 1);
}
static void a_model_of_one_token_type_takes_no_pairs(void **state) {
    engine.info.takes_pairs = false;
    predict("{\"inputs\":[[\"good film\"],[\"good\",\"bad\"]]}");
    assert_int_equal(request.reply.http_status, 424);
    assert_non_null(strstr(body_of(&request), "inputs[1] is a pair"));
}
static void a_batch_is_a_list_of_lists(void **state) {
    predict("{\"inputs\":[[\"a\"],[\"good\",\"film\"],[\"bad\"]],\"raw_scores\":true}");
    assert_string_equal(body_of(&request), "[[{\"score\":0.0,\"label\":\"NEGATIVE\"},"
                                           "{\"score\":0.0,\"label\":\"POSITIVE\"}],"
                                           "[{\"score\":1.0,\"label\":\"NEGATIVE\"},"
                                           "{\"score\":-1.0,\"label\":\"POSITIVE\"}],"
                                           "[{\"score\":2.0,\"label\":\"NEGATIVE\"},"
                                           "{\"score\":-2.0,\"label\":\"POSITIVE\"}]]");
    predict("{\"inputs\":[[\"a\"]]}");
    assert_string_equal(body_of(&request), "[[{\"score\":0.5,\"label\":\"NEGATIVE\"},"
                                           "{\"score\":0.5,\"label\":\"POSITIVE\"}]]");
}
static void scores_fall_and_add_up(void **state) {
    close_engine();
    open_engine("five_labels");
    start("POST", "/", "{\"inputs\":\"a\"}");
    compute(STATUS_OK);
    for (int k = 0; k < engine.model.n_labels; k++) {
        request.jobs[0].logits[k] = (float)((k * 7) % 5);
    }
    finish();
    cJSON *root = NULL;
    assert_int_equal(
        json_parse(&root, request.reply.body, request.reply.body_len, &request.arena, NULL),
        STATUS_OK);
    assert_int_equal(cJSON_GetArraySize(root), 5);
    double sum = 0, before = 2;
    const cJSON *v;
    cJSON_ArrayForEach (v, root) {
        const double score = cJSON_GetObjectItemCaseSensitive(v, "score")->valuedouble;
        assert_true(score < before);
        before = score;
        sum += score;
    }
    assert_true(fabs(sum - 1) < 1e-6);
}
static void white_space_is_just_special_tokens(void **state) {
    start("POST", "/predict", "{\"inputs\":\"  \\n \"}");
    assert_int_equal(request.n_jobs, 1);
    assert_int_equal(request.jobs[0].n_tokens, 2);
}
#define LONG_TEXT "a a a a a a a a a a a a a a a a a a a a" // 22 tokens with the special ones
static void too_long_without_truncate_is_refused_with_counts(void **state) {
    predict("{\"inputs\":\"" LONG_TEXT "\",\"truncate\":false}");
    assert_int_equal(request.reply.http_status, 422);
    assert_non_null(strstr(field_of(&request, "error"), "inputs has 22 tokens, the limit is 16"));
    assert_int_equal(request.n_jobs, 0);
    cfg.model.auto_truncate = false;
    predict("{\"inputs\":[[\"a\"],[\"" LONG_TEXT "\"]]}");
    assert_int_equal(request.reply.http_status, 422);
    assert_string_equal(field_of(&request, "error_type"), "Validation");
    assert_non_null(
        strstr(field_of(&request, "error"), "inputs[1] has 22 tokens, the limit is 16"));
    assert_int_equal(metrics->tokens_truncated, 0);
}
static void what_is_cut_is_told_and_counted(void **state) {
    predict("{\"inputs\":[[\"a\"],[\"" LONG_TEXT "\"],[\"" LONG_TEXT " b\"]]}");
    assert_int_equal(request.reply.http_status, 200);
    assert_int_equal(request.jobs[1].n_tokens, 16);
    assert_string_equal(header_of(&request, "Berth-Truncated"), "inputs=2, tokens=13");
    assert_int_equal(metrics->tokens_truncated, 13);
    start("POST", "/predict", "{\"inputs\":\"b " LONG_TEXT "\",\"truncation_direction\":\"Left\"}");
    assert_string_equal(tokenizer_token(engine.tokenizer, request.jobs[0].token_ids[1]), "a");
    start("POST", "/predict", "{\"inputs\":\"b " LONG_TEXT "\"}");
    assert_string_equal(tokenizer_token(engine.tokenizer, request.jobs[0].token_ids[1]), "b");
}
static void a_failed_job_refuses_the_request(void **state) {
    static const char two[] = "{\"inputs\":[[\"a\"],[\"b\"]]}";
    start("POST", "/predict", two);
    compute(STATUS_OK);
    request.jobs[1].status = STATUS_RESULT;
    finish();
    assert_int_equal(request.reply.http_status, 424);
    assert_string_equal(field_of(&request, "error_type"), "Backend");
    assert_non_null(strstr(field_of(&request, "error"), "result for inputs[1] is not finite"));
    assert_null(header_of(&request, "Retry-After"));
    start("POST", "/predict", two);
    compute(STATUS_RESULT);
    request.jobs[1].status = STATUS_BACKEND;
    finish();
    assert_int_equal(request.reply.http_status, 503);
    assert_non_null(strstr(field_of(&request, "error"), "the device failed at inputs[1]"));
    assert_string_equal(header_of(&request, "Retry-After"), "1");
}
static void a_failed_job_has_its_place_in_a_partial_answer(void **state) {
    cfg.server.max_client_batch_size = 5;
    start("POST", "/predict",
          "{\"inputs\":[[\"a\"],[\"\"],[\"b\"],[\"" LONG_TEXT "\"],[\"c\"]],\"partial\":true,"
          "\"truncate\":false,\"raw_scores\":true}");
    assert_int_equal(request.n_inputs, 5);
    assert_int_equal(request.n_jobs, 3);
    compute(STATUS_OK);
    request.jobs[0].status = STATUS_RESULT;
    request.jobs[1].status = STATUS_TIMEOUT;
    finish();
    assert_int_equal(request.reply.http_status, 200);
    assert_string_equal(
        body_of(&request),
        "[{\"error\":\"the model's result for inputs[0] is not "
        "finite\",\"error_type\":\"Backend\"},"
        "{\"error\":\"inputs[1] is empty\",\"error_type\":\"Empty\"},"
        "{\"error\":\"inputs[2] was not computed before its deadline\",\"error_type\":\"Timeout\"},"
        "{\"error\":\"inputs[3] has 22 tokens, the limit is 16 (\\\"truncate\\\": true would cut "
        "it)\",\"error_type\":\"Validation\"},"
        "[{\"score\":2.0,\"label\":\"NEGATIVE\"},{\"score\":-2.0,\"label\":\"POSITIVE\"}]]");
    assert_int_equal(metrics->items_failed, 4);
    start("POST", "/predict", "{\"inputs\":[[\"\"],[]],\"partial\":true}");
    assert_int_equal(request.reply.http_status, 200);
    assert_int_equal(request.n_jobs, 0);
}
static void tokenize_tells_ids_and_byte_offsets(void **state) {
    start("POST", "/tokenize", "{\"inputs\":\"Good \xC3\xA9 film\"}");
    assert_int_equal(request.reply.http_status, 200);
    assert_int_equal(request.n_jobs, 0);
    const char *body = body_of(&request);
    static const char first[] =
        "[[{\"id\":2,\"text\":\"[CLS]\",\"special\":true,\"start\":null,\"stop\":null},";
    assert_memory_equal(body, first, sizeof(first) - 1);
    assert_non_null(strstr(body, "\"text\":\"Good\",\"special\":false,\"start\":0,\"stop\":4}"));
    assert_non_null(
        strstr(body, "\"text\":\"\xC3\xA9\",\"special\":false,\"start\":5,\"stop\":7}"));
    assert_non_null(strstr(body, "\"text\":\"film\",\"special\":false,\"start\":8,\"stop\":12}"));
    reply_add_timing(&request, &cfg);
    assert_non_null(header_of(&request, "Server-Timing"));
    assert_null(header_of(&request, "Berth-Batch"));
}
static void tokenize_without_special_tokens_and_without_limit(void **state) {
    start("POST", "/tokenize",
          "{\"inputs\":[\"a\",\"" LONG_TEXT "\",\" \"],"
          "\"add_special_tokens\":false}");
    cJSON *root = NULL;
    assert_int_equal(
        json_parse(&root, request.reply.body, request.reply.body_len, &request.arena, NULL),
        STATUS_OK);
    assert_int_equal(cJSON_GetArraySize(root), 3);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(root, 0)), 1);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(root, 1)), 20);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetArrayItem(root, 2)), 0);
}
/* Whatever the size of the arena: an answer, or 413 with a body. */
static void a_small_arena_is_413_not_a_crash(void **state) {
    static char body[4096] = "{\"inputs\":[[\"";
    for (int i = 0; i < 1000; i++) {
        strncat(body, "a ", 3);
    }
    strncat(body, "\"],[\"b c d\",\"e\"]]}", 20);
    int n_refused = 0;
    for (size_t bytes = 4096; bytes <= 65536; bytes += 4096) {
        struct request r;
        memset(&r, 0, sizeof(r));
        assert_int_equal(arena_init(&r.arena, bytes, NULL), STATUS_OK);
        exchange_body(&r, body, strlen(body));
        r.route = must_find("POST", "/predict");
        r.route->start(&ctx, &r);
        if (r.reply.http_status) {
            assert_int_equal(r.reply.http_status, 413);
            assert_non_null(memmem(r.reply.body, r.reply.body_len, "\"TooLarge\"", 10));
            n_refused++;
        } else {
            assert_int_equal(r.n_jobs, 2);
        }
        arena_finish(&r.arena);
    }
    assert_in_range(n_refused, 1, 15);
}
static void health_follows_the_engine(void **state) {
    start("GET", "/health", "");
    assert_int_equal(request.reply.http_status, 200);
    assert_string_equal(field_of(&request, "status"), "ready");
    engine.healthy = false;
    start("GET", "/health", "");
    assert_int_equal(request.reply.http_status, 503);
    assert_string_equal(field_of(&request, "error_type"), "Unhealthy");
    engine.healthy = true;
    atomic_store(&ctx.draining, true);
    start("GET", "/ping", "");
    assert_int_equal(request.reply.http_status, 503);
    atomic_store(&ctx.draining, false);
    atomic_store(&ctx.engine, NULL);
    start("GET", "/", "");
    assert_int_equal(request.reply.http_status, 503);
    assert_string_equal(header_of(&request, "Retry-After"), "1");
    start("GET", "/health/live", "");
    assert_int_equal(request.reply.http_status, 200);
    start("GET", "/metrics", "");
    assert_int_equal(request.reply.http_status, 200);
    atomic_store(&ctx.engine, &engine);
}
static void info_names_what_runs(void **state) {
    start("GET", "/info", "");
    assert_int_equal(request.reply.http_status, 200);
    cJSON *root = NULL;
    struct error err = {""};
    if (json_parse(&root, request.reply.body, request.reply.body_len, &request.arena, &err)) {
        fail_msg("%s in %s", err.text, body_of(&request));
    }
    const char *body = body_of(&request);
    static const char *const parts[] = {
        "\"model_dtype\":\"float32\"",
        "\"served_model_name\":\"base\"",
        "\"max_input_length\":16",
        "\"id2label\":{\"0\":\"NEGATIVE\",\"1\":\"POSITIVE\"}",
        "\"label2id\":{\"NEGATIVE\":0,\"POSITIVE\":1}",
        "\"max_batch_tokens\":64",
        "\"max_batch_requests\":9",
        "\"max_client_batch_size\":4",
        "\"auto_truncate\":true",
        "\"version\":\"" BERTH_VERSION "\"",
        "\"batching_mode\":\"packed\"",
        "\"backend_detail\":\"avx2, 2 lanes\"",
        "{\"up_to\":16,\"max_batch_tokens\":32,\"max_batch_requests\":4,\"max_wait_ms\":1.5}"};
    for (size_t i = 0; i < N_ITEMS(parts); i++) {
        if (!strstr(body, parts[i])) {
            fail_msg("%s is not in %s", parts[i], body);
        }
    }
}
static void metrics_are_text(void **state) {
    start("GET", "/metrics", "");
    assert_int_equal(request.reply.http_status, 200);
    assert_int_equal(strncmp(request.reply.content_type, "text/plain; version=0.0.4", 25), 0);
    assert_non_null(strstr(body_of(&request), "\nberth_queue_jobs{bucket=\"8\"} 0\n"));
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_methods),
        cmocka_unit_test_setup_teardown(one_text_makes_one_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pair_has_two_types, setup, teardown),
        cmocka_unit_test_setup_teardown(a_model_of_one_token_type_takes_no_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_is_a_list_of_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(scores_fall_and_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(white_space_is_just_special_tokens, setup, teardown),
        cmocka_unit_test_setup_teardown(too_long_without_truncate_is_refused_with_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_cut_is_told_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_refuses_the_request, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_has_its_place_in_a_partial_answer, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(tokenize_tells_ids_and_byte_offsets, setup, teardown),
        cmocka_unit_test_setup_teardown(tokenize_without_special_tokens_and_without_limit, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_small_arena_is_413_not_a_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(health_follows_the_engine, setup, teardown),
        cmocka_unit_test_setup_teardown(info_names_what_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_are_text, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
