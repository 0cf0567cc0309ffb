#include "model/config.h"
#include "model/json_file.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usual[] =
    "{\"_name_or_path\": \"org/model\", \"architectures\": [\"BertForSequenceClassification\"],"
    " \"model_type\": \"bert\", \"vocab_size\": 100, \"hidden_size\": 36, \"intermediate_size\": "
    "50,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"max_position_embeddings\": 64,"
    " \"type_vocab_size\": 2, \"pad_token_id\": 0, \"hidden_act\": \"gelu\","
    " \"layer_norm_eps\": 1e-12, \"position_embedding_type\": \"absolute\", \"problem_type\": null,"
    " \"id2label\": {\"0\": \"NEGATIVE\", \"1\": \"POSITIVE\"}}";

static enum status parse(struct model_config *c, const char *text, struct error *err) {
    return model_config_parse(c, text, strlen(text), "config.json", err);
}
/* The usual config with one field set to other JSON, or taken out (NULL). */
static enum status parse_with(struct model_config *c, const char *key, const char *json,
                              struct error *err) {
    cJSON *root = cJSON_Parse(usual);
    assert_non_null(root);
    cJSON_DeleteItemFromObjectCaseSensitive(root, key);
    if (json) {
        cJSON_AddItemToObject(root, key, cJSON_CreateRaw(json));
    }
    char *text = cJSON_PrintUnformatted(root);
    const enum status s = parse(c, text, err);
    cJSON_free(text);
    cJSON_Delete(root);
    return s;
}
static void assert_refused(const char *key, const char *json, const char *message) {
    struct model_config c;
    struct error err = {""};
    memset(&c, 0x5a, sizeof(c));
    assert_int_equal(parse_with(&c, key, json, &err), STATUS_INVALID);
    if (strcmp(err.text, message) != 0) {
        fail_msg("%s = %s: \"%s\", expected \"%s\"", key, json ? json : "(none)", err.text,
                 message);
    }
    assert_int_equal(c.vocab_size, 0x5a5a5a5a); // untouched
}

static void reads_the_usual(void **state) {
    struct model_config c;
    struct error err;
    assert_int_equal(parse(&c, usual, &err), STATUS_OK);
    assert_string_equal(c.name_or_path, "org/model");
    assert_string_equal(c.architecture, "BertForSequenceClassification");
    assert_int_equal(c.vocab_size, 100);
    assert_int_equal(c.hidden, 36);
    assert_int_equal(c.intermediate, 50);
    assert_int_equal(c.n_layers, 2);
    assert_int_equal(c.n_heads, 4);
    assert_int_equal(c.max_position, 64);
    assert_int_equal(c.type_vocab_size, 2);
    assert_int_equal(c.pad_token_id, 0);
    assert_true(c.layer_norm_eps == 1e-12f);
    assert_int_equal(c.activation, ACT_GELU);
    assert_int_equal(c.n_labels, 2);
    assert_string_equal(c.labels[0], "NEGATIVE");
    assert_string_equal(c.labels[1], "POSITIVE");
    assert_int_equal(c.score, SCORE_SOFTMAX);
    assert_null(c.problem_type);
    model_config_finish(&c);
    model_config_finish(&c); // takes a finished one
}

static void takes_what_is_missing_by_default(void **state) {
    static const char least[] = "{\"architectures\": [\"BertForSequenceClassification\"],"
                                " \"vocab_size\": 9, \"hidden_size\": 4, \"intermediate_size\": 5,"
                                " \"num_hidden_layers\": 1, \"num_attention_heads\": 2,"
                                " \"max_position_embeddings\": 8}\r\n ";
    struct model_config c;
    struct error err;
    assert_int_equal(parse(&c, least, &err), STATUS_OK);
    assert_string_equal(c.name_or_path, "");
    assert_int_equal(c.type_vocab_size, 2);
    assert_int_equal(c.pad_token_id, 0);
    assert_int_equal(c.activation, ACT_GELU);
    assert_true(c.layer_norm_eps == 1e-12f);
    assert_int_equal(c.n_labels, 2);
    assert_string_equal(c.labels[1], "LABEL_1");
    model_config_finish(&c);
}

static void knows_activations(void **state) {
    static const struct {
        const char *word;
        enum activation activation;
    } known[] = {{"\"gelu\"", ACT_GELU},
                 {"\"gelu_new\"", ACT_GELU_TANH},
                 {"\"gelu_pytorch_tanh\"", ACT_GELU_TANH},
                 {"\"relu\"", ACT_RELU}};
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        struct model_config c;
        struct error err;
        assert_int_equal(parse_with(&c, "hidden_act", known[i].word, &err), STATUS_OK);
        assert_int_equal(c.activation, known[i].activation);
        model_config_finish(&c);
    }
}

static void assert_score(const char *key, const char *json, enum score_function score,
                         const char *problem) {
    struct model_config c;
    struct error err;
    assert_int_equal(parse_with(&c, key, json, &err), STATUS_OK);
    assert_int_equal(c.score, score);
    assert_true(problem ? c.problem_type && !strcmp(problem, c.problem_type) : !c.problem_type);
    model_config_finish(&c);
}
static void scores_follow_the_pipeline(void **state) {
    assert_score("problem_type", "\"regression\"", SCORE_NONE, "regression");
    assert_score("problem_type", "\"multi_label_classification\"", SCORE_SIGMOID,
                 "multi_label_classification");
    assert_score("problem_type", "\"single_label_classification\"", SCORE_SOFTMAX,
                 "single_label_classification");
    assert_score("id2label", "{\"0\": \"score\"}", SCORE_SIGMOID, NULL);
    assert_score("id2label", "{\"1\": \"b\", \"2\": \"c\", \"0\": \"a\"}", SCORE_SOFTMAX, NULL);
}

static void labels_come_from_where_they_stand(void **state) {
    struct model_config c;
    struct error err;
    assert_int_equal(parse_with(&c, "num_labels", "2", &err), STATUS_OK); // agrees with id2label
    assert_string_equal(c.labels[0], "NEGATIVE");
    model_config_finish(&c);
    assert_int_equal(parse_with(&c, "id2label", "{\"1\": \"b\", \"0\": \"a\"}", &err), STATUS_OK);
    assert_string_equal(c.labels[0], "a");
    assert_string_equal(c.labels[1], "b");
    model_config_finish(&c);
    assert_int_equal(parse_with(&c, "id2label", "null,\"num_labels\":3", &err), STATUS_OK);
    assert_int_equal(c.n_labels, 3);
    assert_string_equal(c.labels[2], "LABEL_2");
    model_config_finish(&c);
}

static void refuses_sizes(void **state) {
    static const struct {
        const char *key, *json, *message;
    } cases[] = {
        {"hidden_size", NULL,
         "config.json: hidden_size is nothing, expected an integer from 1 to 65536"},
        {"hidden_size", "null",
         "config.json: hidden_size is nothing, expected an integer from 1 to 65536"},
        {"hidden_size", "\"36\"",
         "config.json: hidden_size is \"36\", expected an integer from 1 to 65536"},
        {"hidden_size", "-36",
         "config.json: hidden_size is -36, expected an integer from 1 to 65536"},
        {"hidden_size", "0", "config.json: hidden_size is 0, expected an integer from 1 to 65536"},
        {"hidden_size", "36.5",
         "config.json: hidden_size is 36.5, expected an integer from 1 to 65536"},
        {"hidden_size", "4294967332",
         "config.json: hidden_size is 4294967332, expected an integer from 1 to 65536"},
        {"hidden_size", "1e999",
         "config.json: hidden_size is inf, expected an integer from 1 to 65536"},
        {"hidden_size", "[36]",
         "config.json: hidden_size is an array, expected an integer from 1 to 65536"},
        {"hidden_size", "true",
         "config.json: hidden_size is true, expected an integer from 1 to 65536"},
        {"hidden_size", "38",
         "config.json: hidden_size is 38, expected a multiple of num_attention_heads, 4"},
        {"hidden_size", "36,\"hidden_size\":36",
         "config.json: hidden_size is there twice, expected once"},
        {"vocab_size", "100000000",
         "config.json: vocab_size is 100000000, expected an integer from 1 to 16777216"},
        {"intermediate_size", "262145",
         "config.json: intermediate_size is 262145, expected an integer from 1 to 262144"},
        {"num_hidden_layers", "0",
         "config.json: num_hidden_layers is 0, expected an integer from 1 to 1024"},
        {"num_attention_heads", "0",
         "config.json: num_attention_heads is 0, expected an integer from 1 to 65536"},
        {"max_position_embeddings", "{}",
         "config.json: max_position_embeddings is an object, expected an integer from 1 to "
         "1048576"},
        {"type_vocab_size", "0",
         "config.json: type_vocab_size is 0, expected an integer from 1 to 65536"},
        {"pad_token_id", "-1",
         "config.json: pad_token_id is -1, expected an integer from 0 to 16777215"},
        {"pad_token_id", "100",
         "config.json: pad_token_id is 100, expected less than vocab_size, "
         "100"},
        {"layer_norm_eps", "0",
         "config.json: layer_norm_eps is 0, expected a number between 0 and 1"},
        {"layer_norm_eps", "\"1e-12\"",
         "config.json: layer_norm_eps is \"1e-12\", expected a number between 0 and 1"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        assert_refused(cases[i].key, cases[i].json, cases[i].message);
    }
}

static void refuses_other_networks(void **state) {
    static const char wanted[] = "expected [\"BertForSequenceClassification\"]";
    static const struct {
        const char *json, *found;
    } lists[] = {{NULL, "nothing"},
                 {"[]", "an array"},
                 {"\"BertModel\"", "\"BertModel\""},
                 {"[\"BertModel\"]", "\"BertModel\""},
                 {"[3]", "3"}};
    for (size_t i = 0; i < N_ITEMS(lists); i++) {
        char message[200];
        snprintf(message, sizeof(message), "config.json: architectures is %s, %s", lists[i].found,
                 wanted);
        assert_refused("architectures", lists[i].json, message);
    }
    assert_refused("model_type", "\"roberta\"",
                   "config.json: model_type is \"roberta\", expected \"bert\"");
    assert_refused("hidden_act", "\"silu\"",
                   "config.json: hidden_act is \"silu\", expected \"gelu\" or \"gelu_new\" or "
                   "\"gelu_pytorch_tanh\" or \"relu\"");
    assert_refused("position_embedding_type", "\"relative_key\"",
                   "config.json: position_embedding_type is \"relative_key\", expected "
                   "\"absolute\"");
    assert_refused("is_decoder", "true", "config.json: is_decoder is true, expected false");
    assert_refused("_name_or_path", "7", "config.json: _name_or_path is 7, expected a string");
    assert_refused("problem_type", "\"ranking\"",
                   "config.json: problem_type is \"ranking\", expected "
                   "\"single_label_classification\" or \"multi_label_classification\" or "
                   "\"regression\"");
}

static void refuses_labels(void **state) {
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{}", "config.json: id2label is an object, expected an object of 1 to 65536 labels"},
        {"[\"a\"]", "config.json: id2label is an array, expected an object of 1 to 65536 labels"},
        {"{\"0\": \"a\", \"2\": \"b\"}",
         "config.json: id2label has the key \"2\", expected each of \"0\" to \"1\" once"},
        {"{\"0\": \"a\", \"0\": \"b\"}",
         "config.json: id2label has the key \"0\", expected each of \"0\" to \"1\" once"},
        {"{\"00\": \"a\"}",
         "config.json: id2label has the key \"00\", expected each of \"0\" to \"0\" once"},
        {"{\"\": \"a\"}",
         "config.json: id2label has the key \"\", expected each of \"0\" to \"0\" once"},
        {"{\"-1\": \"a\"}",
         "config.json: id2label has the key \"-1\", expected each of \"0\" to \"0\" once"},
        {"{\"99999999999999999999\": \"a\"}",
         "config.json: id2label has the key \"99999999999999999999\", expected each of \"0\" to "
         "\"0\" once"},
        {"{\"NEGATIVE\": 0}",
         "config.json: id2label has the key \"NEGATIVE\", expected each of \"0\" to \"0\" once"},
        {"{\"0\": \"a\", \"1\": 1}", "config.json: id2label[\"1\"] is 1, expected a string"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        assert_refused("id2label", cases[i].json, cases[i].message);
    }
    assert_refused("num_labels", "3",
                   "config.json: num_labels is 3, expected 2, the number of labels in id2label");
    assert_refused("num_labels", "\"2\"",
                   "config.json: num_labels is \"2\", expected an integer from 1 to 65536");
}

static void assert_text_refused(const char *text, size_t len, const char *message) {
    struct model_config c;
    struct error err = {""};
    assert_int_equal(model_config_parse(&c, text, len, "config.json", &err), STATUS_INVALID);
    assert_string_equal(err.text, message);
}
static void refuses_what_is_not_json(void **state) {
    assert_text_refused("", 0, "config.json: not valid JSON near byte 0");
    assert_text_refused("[]", 2, "config.json: the top level is not a JSON object");
    assert_text_refused("{\"a\": 1,}", 9, "config.json: not valid JSON near byte 9");
    assert_text_refused("{} x", 4, "config.json: byte 3 is beyond the end of the JSON object");
    assert_text_refused("{}\0", 3, "config.json: byte 2 is beyond the end of the JSON object");
    assert_text_refused("{\"a\": \"b", 8, "config.json: not valid JSON near byte 7");
    char deep[3001];
    memset(deep, '[', sizeof(deep));
    memcpy(deep, "{\"a\":", 5);
    struct model_config c;
    struct error err;
    assert_int_equal(model_config_parse(&c, deep, sizeof(deep), "x", &err), STATUS_INVALID);
}

static void takes_a_byte_order_mark(void **state) {
    char text[sizeof(usual) + 3] = "\xef\xbb\xbf";
    memcpy(text + 3, usual, sizeof(usual));
    struct model_config c;
    struct error err;
    assert_int_equal(parse(&c, text, &err), STATUS_OK);
    model_config_finish(&c);
}

static void a_message_is_one_short_line(void **state) {
    struct model_config c;
    struct error err;
    char json[600] = "\"line\\n";
    memset(json + 7, 'x', 500);
    json[507] = '"';
    assert_int_equal(parse_with(&c, "model_type", json, &err), STATUS_INVALID);
    assert_null(strchr(err.text, '\n'));
    assert_true(strlen(err.text) < 200);
}

static void names_a_file_that_is_missing(void **state) {
    struct model_config c;
    struct error err;
    assert_int_equal(model_config_read(&c, "/nowhere", &err), STATUS_IO);
    assert_string_equal(err.text, "/nowhere/config.json: No such file or directory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_usual),
        cmocka_unit_test(takes_what_is_missing_by_default),
        cmocka_unit_test(knows_activations),
        cmocka_unit_test(scores_follow_the_pipeline),
        cmocka_unit_test(labels_come_from_where_they_stand),
        cmocka_unit_test(refuses_sizes),
        cmocka_unit_test(refuses_other_networks),
        cmocka_unit_test(refuses_labels),
        cmocka_unit_test(refuses_what_is_not_json),
        cmocka_unit_test(takes_a_byte_order_mark),
        cmocka_unit_test(a_message_is_one_short_line),
        cmocka_unit_test(names_a_file_that_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
