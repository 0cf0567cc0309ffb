#include "server/body.h"
#include "tests/unit/server/exchange.h"

static struct request request;
static struct config cfg;
static int setup(void **state) {
    json_init();
    cfg = test_config();
    exchange_init(&request);
    return 0;
}
static int teardown(void **state) {
    arena_finish(&request.arena);
    return 0;
}
static bool predict(struct text_body *b, const char *body) {
    exchange_body(&request, body, strlen(body));
    return body_read_predict(b, &request, &cfg);
}
static bool tokenize(struct text_body *b, const char *body) {
    exchange_body(&request, body, strlen(body));
    return body_read_tokenize(b, &request, &cfg);
}
static void assert_text(const struct text *t, const char *want) {
    assert_int_equal(t->len, strlen(want));
    assert_memory_equal(t->bytes, want, t->len);
}

static void one_text(void **state) {
    static const char *const forms[] = {
        "{\"inputs\":\"na\xC3\xAFve\"}", "{\"inputs\":[\"na\\u00efve\"]}",
        " {\"x\":[1,{}],\"inputs\":\"na\xC3\xAFve\",\"INPUTS\":3}\n"};
    for (size_t i = 0; i < N_ITEMS(forms); i++) {
        struct text_body b;
        assert_true(predict(&b, forms[i]));
        assert_int_equal(b.n_inputs, 1);
        assert_text(&b.inputs[0].first, "na\xC3\xAFve");
        assert_false(b.inputs[0].is_pair);
        assert_false(b.is_batch);
        assert_int_equal(b.n_chars, 5);
        assert_int_equal(request.reply.http_status, 0);
    }
}
static void a_flat_list_of_two_is_a_pair(void **state) {
    struct text_body b;
    assert_true(predict(&b, "{\"inputs\":[\"one\",\"two\"]}"));
    assert_int_equal(b.n_inputs, 1);
    assert_true(b.inputs[0].is_pair);
    assert_text(&b.inputs[0].first, "one");
    assert_text(&b.inputs[0].second, "two");
    assert_false(b.is_batch);
    assert_true(predict(&b, "{\"inputs\":[\"one\",\"\"]}")); // half a pair may be empty
    assert_true(b.inputs[0].is_pair);
}
static void a_batch_mixes_singles_and_pairs(void **state) {
    struct text_body b;
    assert_true(predict(&b, "{\"inputs\":[[\"a\"],[\"b\",\"c\"],[\"d\"]]}"));
    assert_int_equal(b.n_inputs, 3);
    assert_true(b.is_batch);
    assert_false(b.inputs[0].is_pair);
    assert_true(b.inputs[1].is_pair);
    assert_text(&b.inputs[1].second, "c");
    assert_text(&b.inputs[2].first, "d");
    assert_int_equal(b.n_chars, 4);
    assert_true(predict(&b, "{\"inputs\":[[\"a\"]]}"));
    assert_true(b.is_batch); // of one
}
static void white_space_is_not_empty(void **state) {
    struct text_body b;
    assert_true(predict(&b, "{\"inputs\":\" \\n\"}"));
    assert_int_equal(b.inputs[0].first.len, 2);
}
static void options(void **state) {
    struct text_body b;
    assert_true(predict(&b, "{\"inputs\":\"a\"}"));
    assert_true(b.truncate); // auto_truncate
    assert_false(b.raw_scores);
    assert_int_equal(b.side, TRUNCATE_RIGHT);
    assert_true(predict(&b, "{\"inputs\":\"a\",\"truncate\":null,\"raw_scores\":null,"
                            "\"truncation_direction\":null}"));
    assert_true(b.truncate);
    cfg.model.auto_truncate = false;
    assert_true(predict(&b, "{\"inputs\":\"a\",\"truncate\":null}"));
    assert_false(b.truncate);
    assert_true(predict(&b, "{\"inputs\":\"a\",\"truncate\":true,\"raw_scores\":true}"));
    assert_true(b.truncate && b.raw_scores);
    static const struct {
        const char *word;
        enum truncation_side side;
    } sides[] = {{"right", TRUNCATE_RIGHT},
                 {"Right", TRUNCATE_RIGHT},
                 {"left", TRUNCATE_LEFT},
                 {"Left", TRUNCATE_LEFT},
                 {"LEFT", TRUNCATE_LEFT}};
    for (size_t i = 0; i < N_ITEMS(sides); i++) {
        char body[80];
        snprintf(body, sizeof(body), "{\"inputs\":\"a\",\"truncation_direction\":\"%s\"}",
                 sides[i].word);
        assert_true(predict(&b, body));
        assert_int_equal(b.side, sides[i].side);
    }
}

struct refused {
    const char *body;
    int http_status;
    const char *type, *part; // of the error's text
};
static void check_refused(const struct refused *t, bool is_predict) {
    struct text_body b;
    if (is_predict ? predict(&b, t->body) : tokenize(&b, t->body)) {
        fail_msg("accepted %s", t->body);
    }
    if (request.reply.http_status != t->http_status ||
        strcmp(field_of(&request, "error_type"), t->type) != 0 ||
        !strstr(field_of(&request, "error"), t->part)) {
        fail_msg("%s: %d %s", t->body, request.reply.http_status, body_of(&request));
    }
    assert_string_equal(field_of(&request, "request_id"), "test-1");
}
static void predict_refuses_by_name_and_place(void **state) {
    static const struct refused cases[] = {
        {"", 400, "BadRequest", "invalid JSON at byte 0: the document is empty"},
        {"{\"inputs\":\"a\"", 400, "BadRequest", "invalid JSON at byte 13"},
        {"{\"inputs\":\"a\xFF\"}", 400, "BadRequest", "invalid JSON at byte 12: not valid UTF-8"},
        {"{\"inputs\":\"\\ud800\"}", 400, "BadRequest", "at byte 11: half of a surrogate pair"},
        {"{\"inputs\":\"a\",\"inputs\":\"b\"}", 400, "BadRequest", "byte 14: a key that"},
        {"[\"a\"]", 422, "Validation", "must be a JSON object, not a list"},
        {"\"a\"", 422, "Validation", "must be a JSON object, not a string"},
        {"null", 422, "Validation", "must be a JSON object, not null"},
        {"{}", 422, "Validation", "the field inputs is missing"},
        {"{\"Inputs\":\"a\"}", 422, "Validation", "the field inputs is missing"},
        {"{\"inputs\":null}", 422, "Validation", "a string or a list, not null"},
        {"{\"inputs\":7}", 422, "Validation", "a string or a list, not a number"},
        {"{\"inputs\":{}}", 422, "Validation", "a string or a list, not an object"},
        {"{\"inputs\":\"\"}", 400, "Empty", "inputs is empty"},
        {"{\"inputs\":[]}", 400, "Empty", "inputs is an empty list"},
        {"{\"inputs\":[\"\"]}", 400, "Empty", "inputs is empty"},
        {"{\"inputs\":[\"\",\"\"]}", 400, "Empty", "inputs is empty"},
        {"{\"inputs\":[[]]}", 400, "Empty", "inputs[0] is an empty list"},
        {"{\"inputs\":[[\"a\"],[\"\"]]}", 400, "Empty", "inputs[1] is empty"},
        {"{\"inputs\":[\"a\",\"b\",\"c\"]}", 422, "Validation", "inputs has 3 texts"},
        {"{\"inputs\":[[\"a\",\"b\",\"c\",\"d\"]]}", 422, "Validation", "inputs[0] has 4 texts"},
        {"{\"inputs\":[\"a\",2]}", 422, "Validation", "inputs[1] must be a string, not a number"},
        {"{\"inputs\":[1]}", 422, "Validation", "inputs[0] must be a string, not a number"},
        {"{\"inputs\":[[\"a\"],\"b\"]}", 422, "Validation",
         "inputs[1] must be a list of one or two"},
        {"{\"inputs\":[\"a\",[\"b\"]]}", 422, "Validation",
         "inputs[1] must be a string, not a list"},
        {"{\"inputs\":[[\"a\"],[true]]}", 422, "Validation", "inputs[1][0] must be a string"},
        {"{\"inputs\":[[\"a\",null]]}", 422, "Validation",
         "inputs[0][1] must be a string, not null"},
        {"{\"inputs\":[[[\"a\"]]]}", 422, "Validation",
         "inputs[0][0] must be a string, not a list"},
        {"{\"inputs\":[[\"a\"],[\"a\"],[\"a\"],[\"a\"],[\"a\"]]}", 422, "Validation",
         "inputs has 5 entries, the limit is 4"},
        {"{\"inputs\":\"a\",\"truncate\":1}", 422, "Validation", "truncate must be true, false"},
        {"{\"inputs\":\"a\",\"truncate\":\"true\"}", 422, "Validation", "not a string"},
        {"{\"inputs\":\"a\",\"raw_scores\":0}", 422, "Validation", "raw_scores must be"},
        {"{\"inputs\":\"a\",\"truncation_direction\":\"up\"}", 422, "Validation",
         "truncation_direction must be"},
        {"{\"inputs\":\"a\",\"truncation_direction\":1}", 422, "Validation", "not a number"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        check_refused(&cases[i], true);
    }
}
static void tokenize_takes_a_text_or_a_list(void **state) {
    struct text_body b;
    assert_true(tokenize(&b, "{\"inputs\":\"one\"}"));
    assert_int_equal(b.n_inputs, 1);
    assert_true(b.add_special_tokens);
    assert_true(tokenize(&b, "{\"inputs\":[\"one\",\"two\",\"3\"],\"add_special_tokens\":false}"));
    assert_int_equal(b.n_inputs, 3); // texts, not a pair
    assert_false(b.add_special_tokens);
    assert_text(&b.inputs[1].first, "two");
    static const struct refused cases[] = {
        {"{\"inputs\":[[\"a\"]]}", 422, "Validation", "inputs[0] must be a string, not a list"},
        {"{\"inputs\":[\"a\",\"\"]}", 400, "Empty", "inputs[1] is empty"},
        {"{\"inputs\":\"a\",\"add_special_tokens\":\"no\"}", 422, "Validation",
         "add_special_tokens must be"},
        {"{\"inputs\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}", 422, "Validation", "the limit is 4"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        check_refused(&cases[i], false);
    }
}
/* A tree that does not fit: 413 with a reason, and the arena has room for it. */
static void too_many_values_are_told(void **state) {
    enum { N = 200000 };
    static char body[2 * N + 64];
    struct text_body b;
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"inputs\":\"a\",\"x\":[0");
    for (int i = 0; i < N; i++) {
        memcpy(body + len, ",0", 2);
        len += 2;
    }
    memcpy(body + len, "]}", 3);
    assert_false(predict(&b, body));
    assert_int_equal(request.reply.http_status, 413);
    assert_string_equal(field_of(&request, "error_type"), "TooLarge");
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flat_list_of_two_is_a_pair, setup, teardown),
        cmocka_unit_test_setup_teardown(a_batch_mixes_singles_and_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(white_space_is_not_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(options, setup, teardown),
        cmocka_unit_test_setup_teardown(predict_refuses_by_name_and_place, setup, teardown),
        cmocka_unit_test_setup_teardown(tokenize_takes_a_text_or_a_list, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_values_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
