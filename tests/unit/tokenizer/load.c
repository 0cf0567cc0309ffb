#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/tokenizer/fixture.h"

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":"     \
    "\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[UNK]\":0,\"hi\":1,\"[CLS]\":2,"         \
    "\"[SEP]\":3}}"
#define NORMALIZER                                                                                 \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"                             \
    "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true}"
#define SPLIT "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"

static void refuses(const char *json, const char *reason) {
    struct tokenizer *t = NULL;
    struct error err = {""};
    const struct text x = text_of(json);
    assert_int_equal(tokenizer_from_json(&t, &x, NULL, "m", &err), STATUS_INVALID);
    assert_null(t);
    assert_string_equal(err.text, reason);
}
static struct tokenizer *accepts(const char *json) {
    struct tokenizer *t = NULL;
    struct error err;
    const struct text x = text_of(json);
    if (tokenizer_from_json(&t, &x, NULL, "m", &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}
static void json_errors_name_file_and_field(void **state) {
    refuses("{\"a\": [}", "m/tokenizer.json: not JSON from byte 7 on");
    refuses("[]", "m/tokenizer.json: expected one JSON object, and nothing behind it");
    refuses("{} {}", "m/tokenizer.json: expected one JSON object, and nothing behind it");
    refuses("{\"a\": \"\\u0000\"}", "m/tokenizer.json: expected strings without \\u0000");
    refuses("{}", "m/tokenizer.json: model: expected an object, found nothing");
    refuses("{\"model\":{\"type\":\"BPE\"}}",
            "m/tokenizer.json: model.type: expected \"WordPiece\", found \"BPE\"");
    refuses("{\"model\":{\"type\":\"WordPiece\"}}",
            "m/tokenizer.json: model.unk_token: expected a string, found nothing");
    refuses("{\"model\":{\"unk_token\":\"u\",\"continuing_subword_prefix\":\"\","
            "\"max_input_chars_per_word\":1,\"vocab\":{\"x\":1.5}}}",
            "m/tokenizer.json: model.vocab.x: expected an id, a whole number from 0 to 16777215, "
            "found 1.5");
    refuses("{\"model\":{\"unk_token\":\"u\",\"continuing_subword_prefix\":\"\","
            "\"max_input_chars_per_word\":-1,\"vocab\":{}}}",
            "m/tokenizer.json: model.max_input_chars_per_word: expected a whole number from 0 to "
            "2147483646, found -1");
    refuses("{" MODEL "}",
            "m/tokenizer.json: pre_tokenizer.type: expected \"BertPreTokenizer\", found nothing");
    refuses("{" MODEL ",\"normalizer\":{\"type\":\"NFC\"}," SPLIT "}",
            "m/tokenizer.json: normalizer.type: expected \"BertNormalizer\", found \"NFC\"");
    refuses("{" MODEL "," NORMALIZER "," SPLIT ",\"post_processor\":{\"type\":\"ByteLevel\"}}",
            "m/tokenizer.json: post_processor.type: expected \"TemplateProcessing\" or "
            "\"BertProcessing\", found \"ByteLevel\"");
    refuses("{" MODEL "," SPLIT ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]}}",
            "m/tokenizer.json: normalizer.normalizers: expected one component, found 0");
    refuses("{" MODEL "," SPLIT ",\"added_tokens\":[{\"id\":9}]}",
            "m/tokenizer.json: added_tokens[0].content: expected a string, found nothing");
}
static void templates_are_checked(void **state) {
#define POST(single, pair)                                                                         \
    "{" MODEL "," SPLIT ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":" single  \
    ",\"pair\":" pair ",\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":"   \
    "[\"[CLS]\"]},\"far\":{\"id\":\"far\",\"ids\":[99],\"tokens\":[\"far\"]}}}}"
#define TOKEN(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT(name) "{\"Sequence\":{\"id\":\"" name "\",\"type_id\":0}}"
    refuses(POST("[" TOKEN("[SEP]") "]", "[]"),
            "m/tokenizer.json: post_processor.single: special_tokens has no \"[SEP]\"");
    refuses(POST("[" TOKEN("[CLS]") "]", "[]"),
            "m/tokenizer.json: post_processor.single: expected A alone once");
    refuses(POST("[" TEXT("A") "]", "[" TEXT("A") "]"),
            "m/tokenizer.json: post_processor.pair: expected A and B once");
    refuses(POST("[" TEXT("C") "]", "[]"),
            "m/tokenizer.json: post_processor.single.id: expected \"A\" or \"B\", found \"C\"");
    refuses(POST("[" TOKEN("far") "," TEXT("A") "]", "[" TEXT("A") "," TEXT("B") "]"),
            "m/tokenizer.json: post_processor: special token id 99, expected one below 4");
    struct tokenizer *t =
        accepts(POST("[" TEXT("A") "," TOKEN("[CLS]") "]", "[" TEXT("B") "," TEXT("A") "]"));
    assert_int_equal(tokenizer_n_special(t, false), 1);
    assert_int_equal(tokenizer_n_special(t, true), 0);
    tokenizer_close(t);
}
static void added_tokens_get_the_references_ids(void **state) {
#define FLAGS(normalized)                                                                          \
    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"special\":false,"                   \
    "\"normalized\":" normalized
    struct tokenizer *t =
        accepts("{" MODEL "," NORMALIZER "," SPLIT
                ",\"added_tokens\":[{\"id\":4,\"content\":\"<a>\"," FLAGS(
                    "false") "},{\"id\":1,\"content\":\"hi\"," FLAGS("true") "}]}");
    assert_int_equal(tokenizer_vocab_size(t), 5);
    assert_string_equal(tokenizer_token(t, 4), "<a>");
    assert_string_equal(tokenizer_token(t, 1), "hi");
    tokenizer_close(t);
    refuses(
        "{" MODEL "," NORMALIZER "," SPLIT ",\"added_tokens\":[{\"id\":4,\"content\":\"X\"," FLAGS(
            "true") "},{\"id\":5,\"content\":\"x\"," FLAGS("true") "}]}",
        "m/tokenizer.json: added_tokens: \"X\" and \"x\" are the same once they are normalized");
}
static void limits_stand_in_the_config(void **state) {
    struct tokenizer *t = NULL;
    const struct text x = text_of("{" MODEL "," SPLIT "}");
    const struct text good = text_of("{\"model_max_length\": 512, \"pad_token\": \"hi\"}");
    const struct text endless = text_of("{\"model_max_length\": 1e30}");
    struct error err;
    assert_int_equal(tokenizer_from_json(&t, &x, &good, "m", &err), 0);
    assert_int_equal(tokenizer_max_length(t), 512);
    assert_int_equal(tokenizer_pad_id(t), 1);
    tokenizer_close(t);
    assert_int_equal(tokenizer_from_json(&t, &x, &endless, "m", &err), 0);
    assert_int_equal(tokenizer_max_length(t), 0);
    tokenizer_close(t);
}
static void vocab_refuses(const char *vocab, const char *config, const char *reason) {
    struct tokenizer *t = NULL;
    struct error err = {""};
    const struct text v = text_of(vocab), c = text_of(config);
    assert_int_equal(tokenizer_from_vocab(&t, &v, &c, NULL, "m", &err), STATUS_INVALID);
    assert_string_equal(err.text, reason);
}
static void vocab_errors(void **state) {
    vocab_refuses("a\n", "{}", "m/tokenizer_config.json: cls_token \"[CLS]\" is not in vocab.txt");
    vocab_refuses("[CLS]\n[SEP]\n", "{}",
                  "m/vocab.txt: unk_token \"[UNK]\" is not in the vocabulary");
    vocab_refuses(VOCAB, "{\"do_lower_case\": 1}",
                  "m/tokenizer_config.json: do_lower_case: expected true or false, found 1");
    vocab_refuses(VOCAB, "{\"cls_token\": []}",
                  "m/tokenizer_config.json: cls_token: expected a string, or an object with "
                  "\"content\", found []");
    vocab_refuses(VOCAB, "{\"added_tokens_decoder\": {\"x\": {}}}",
                  "m/tokenizer_config.json: added_tokens_decoder.x: expected an id as the name, "
                  "found {}");
}
static void special_tokens_map_names_tokens(void **state) {
    struct tokenizer *t = NULL;
    struct error err;
    const struct text v = text_of("<s>\n</s>\n<unk>\n<pad>\r\na  \n");
    const struct text map =
        text_of("{\"cls_token\":{\"content\":\"<s>\"},\"sep_token\":\"</s>\",\"unk_token\":"
                "\"<unk>\",\"pad_token\":\"<pad>\",\"mask_token\":\"<mask>\"}");
    assert_int_equal(tokenizer_from_vocab(&t, &v, NULL, &map, "m", &err), 0);
    assert_int_equal(tokenizer_pad_id(t), 3);
    assert_string_equal(tokenizer_token(t, 4),
                        "a"); // white space at a line's end is not part of it
    assert_string_equal(tokenizer_token(t, 5), "<mask>"); // behind the vocabulary
    tokenizer_close(t);
}
static void write_file(const char *dir, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
static void opens_a_folder(void **state) {
    char dir[] = "/tmp/berth_tokenizer_XXXXXX", path[256], reason[256];
    struct tokenizer *t = NULL;
    struct error err;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(tokenizer_open(&t, dir, &err), STATUS_IO);
    snprintf(reason, sizeof(reason), "%s: expected tokenizer.json or vocab.txt, found neither",
             dir);
    assert_string_equal(err.text, reason);
    write_file(dir, "vocab.txt", VOCAB);
    assert_int_equal(tokenizer_open(&t, dir, &err), 0); // BERT's defaults without a config
    assert_int_equal(tokenizer_vocab_size(t), N_VOCAB);
    tokenizer_close(t);
    write_file(dir, "tokenizer.json", "{" MODEL "," SPLIT "}"); // now this one counts
    assert_int_equal(tokenizer_open(&t, dir, &err), 0);
    assert_int_equal(tokenizer_vocab_size(t), 4);
    tokenizer_close(t);
    static const char *const names[] = {"vocab.txt", "tokenizer.json"};
    for (size_t i = 0; i < N_ITEMS(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_errors_name_file_and_field),
        cmocka_unit_test(templates_are_checked),
        cmocka_unit_test(added_tokens_get_the_references_ids),
        cmocka_unit_test(limits_stand_in_the_config),
        cmocka_unit_test(vocab_errors),
        cmocka_unit_test(special_tokens_map_names_tokens),
        cmocka_unit_test(opens_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
