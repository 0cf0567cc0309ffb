/* tokenizer_json.c - reads Hugging Face's tokenizer.json, as far as BERT tokenizers use it.
 * Components are a closed list; any other is refused by its name and field, as ids that are nearly
 * right are worse than none. A "Sequence" of one component is that component. Truncation, padding
 * and decoder are passed over (the padding's id is kept). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/config.h"
#include "tokenizer/spec.h"
#include "tokenizer/fields.h"
#include "tokenizer/post_processor.h"

static enum status read_vocab(struct tokenizer_spec *spec, const cJSON *vocab, const char *file,
                              struct error *err) {
    const cJSON *m;
    size_t n = 0, bytes = 0;
    cJSON_ArrayForEach (m, vocab) {
        if (!field_is_id(m, MAX_VOCAB_IDS)) {
            return field_wrong(m, m->string, "an id, a whole number from 0 to 16777215",
                               (struct field_at){file, "model.vocab"}, err);
        }
        n++;
        bytes += strlen(m->string) + 1;
    }
    spec->pool = xcalloc(bytes, 1);
    spec->vocab = xcalloc(n, sizeof(*spec->vocab));
    char *to = spec->pool;
    cJSON_ArrayForEach (m, vocab) {
        const size_t len = strlen(m->string) + 1;
        memcpy(to, m->string, len);
        spec->vocab[spec->n_vocab++] =
            (struct vocab_entry){.text = to, .id = (int32_t)m->valuedouble};
        to += len;
    }
    return STATUS_OK;
}

static enum status read_model(struct tokenizer_spec *spec, const cJSON *doc, const char *file,
                              struct error *err) {
    const struct field_at at = {file, "model"};
    const cJSON *model = NULL, *vocab = NULL;
    const char *type = "WordPiece", *unk = NULL, *prefix = NULL;
    int32_t max_chars = 0;
    /* Files of 2020 name no type; these three fields together are WordPiece's alone. */
    enum status s = field_object(&model, doc, "model", (struct field_at){file, ""}, err);
    s = s ? s : field_string(&type, model, "type", false, at, err);
    if (!s && strcmp(type, "WordPiece") != 0) {
        s = field_wrong(field_member(model, "type"), "type", "\"WordPiece\"", at, err);
    }
    s = s ? s : field_string(&unk, model, "unk_token", true, at, err);
    s = s ? s : field_string(&prefix, model, "continuing_subword_prefix", true, at, err);
    s = s ? s : field_int(&max_chars, model, "max_input_chars_per_word", INT32_MAX, true, at, err);
    s = s ? s : field_object(&vocab, model, "vocab", at, err);
    s = s ? s : read_vocab(spec, vocab, file, err);
    if (!s) {
        spec->unk_token = xstrdup(unk);
        spec->prefix = xstrdup(prefix);
        spec->max_word_chars = (size_t)max_chars;
    }
    return s;
}

/* Finds doc.name, steps into a "Sequence" of one (whose list is called `list`), and gives its type;
 * NULL where the member is missing or null. */
static enum status component(const cJSON **out, const char **type, const cJSON *doc,
                             const char *name, const char *list, const char *file,
                             struct error *err) {
    const cJSON *c = field_member(doc, name), *members = NULL;
    const struct field_at at = {file, name};
    *out = NULL;
    if (!c) {
        return STATUS_OK;
    }
    enum status s = field_object(&c, doc, name, (struct field_at){file, ""}, err);
    s = s ? s : field_string(type, c, "type", true, at, err);
    if (!s && !strcmp(*type, "Sequence")) {
        s = field_array(&members, c, list, at, err);
        if (!s && cJSON_GetArraySize(members) != 1) {
            s = error_set(err, STATUS_INVALID, "%s: %s.%s: expected one component, found %d", file,
                          name, list, cJSON_GetArraySize(members));
        }
        c = s ? NULL : cJSON_GetArrayItem(members, 0);
        s = s ? s : field_string(type, c, "type", true, at, err);
    }
    *out = c;
    return s;
}

static enum status read_normalizer(struct tokenizer_spec *spec, const cJSON *doc, const char *file,
                                   struct error *err) {
    const struct field_at at = {file, "normalizer"};
    const cJSON *n = NULL;
    const char *type = NULL;
    struct norm_switches *on = &spec->norm;
    enum status s = component(&n, &type, doc, "normalizer", "normalizers", file, err);
    if (s || !n) {
        return s; // none: the text is taken as it is
    }
    if (strcmp(type, "BertNormalizer") != 0) {
        return field_wrong(field_member(n, "type"), "type", "\"BertNormalizer\"", at, err);
    }
    s = field_bool(&on->clean_text, n, "clean_text", true, at, err);
    s = s ? s : field_bool(&on->handle_chinese_chars, n, "handle_chinese_chars", true, at, err);
    s = s ? s : field_bool(&on->lowercase, n, "lowercase", true, at, err);
    on->strip_accents = on->lowercase; // null: as lower-casing does
    return s ? s : field_bool(&on->strip_accents, n, "strip_accents", false, at, err);
}

static enum status read_pre_tokenizer(const cJSON *doc, const char *file, struct error *err) {
    const cJSON *p = NULL;
    const char *type = NULL;
    const enum status s = component(&p, &type, doc, "pre_tokenizer", "pretokenizers", file, err);
    if (!s && (!p || strcmp(type, "BertPreTokenizer") != 0)) {
        return field_wrong(field_member(p, "type"), "type", "\"BertPreTokenizer\"",
                           (struct field_at){file, "pre_tokenizer"}, err);
    }
    return s;
}

static enum status read_post_processor(struct tokenizer_spec *spec, const cJSON *doc,
                                       const char *file, struct error *err) {
    const cJSON *p = NULL;
    const char *type = NULL;
    const enum status s = component(&p, &type, doc, "post_processor", "processors", file, err);
    if (s) {
        return s;
    }
    if (!p) {
        template_plain(spec);
        return STATUS_OK;
    }
    if (!strcmp(type, "TemplateProcessing")) {
        return template_read(spec, p, file, err);
    }
    if (!strcmp(type, "BertProcessing")) {
        return template_read_bert(spec, p, file, err);
    }
    return field_wrong(field_member(p, "type"), "type",
                       "\"TemplateProcessing\" or \"BertProcessing\"",
                       (struct field_at){file, "post_processor"}, err);
}

static enum status read_added_tokens(struct tokenizer_spec *spec, const cJSON *doc,
                                     const char *file, struct error *err) {
    const cJSON *list = NULL, *m;
    if (!field_member(doc, "added_tokens")) {
        return STATUS_OK;
    }
    enum status s = field_array(&list, doc, "added_tokens", (struct field_at){file, ""}, err);
    int i = 0;
    if (s) {
        return s;
    }
    cJSON_ArrayForEach (m, list) {
        char path[32];
        snprintf(path, sizeof(path), "added_tokens[%d]", i++);
        s = s ? s : added_token_read(spec, m, true, (struct field_at){file, path}, err);
    }
    return s;
}

static enum status read_padding(struct tokenizer_spec *spec, const cJSON *doc, const char *file,
                                struct error *err) {
    const cJSON *p = field_member(doc, "padding");
    return p ? field_int(&spec->pad_id, p, "pad_id", MAX_VOCAB_IDS, false,
                         (struct field_at){file, "padding"}, err)
             : STATUS_OK;
}

enum status tokenizer_from_json(struct tokenizer **out, const struct text *json,
                                const struct text *config_json, const char *dir,
                                struct error *err) {
    struct tokenizer_spec spec = {.pool = NULL};
    char file[256];
    cJSON *doc = NULL;
    snprintf(file, sizeof(file), "%s/tokenizer.json", dir);
    enum status s = fields_parse(&doc, json, file, err);
    s = s ? s : read_model(&spec, doc, file, err);
    s = s ? s : read_normalizer(&spec, doc, file, err);
    s = s ? s : read_pre_tokenizer(doc, file, err);
    s = s ? s : read_post_processor(&spec, doc, file, err);
    s = s ? s : read_added_tokens(&spec, doc, file, err);
    s = s ? s : read_padding(&spec, doc, file, err);
    if (!s && config_json) {
        s = tokenizer_config_limits(&spec, config_json, dir, err);
    }
    s = s ? s : tokenizer_build(out, &spec, file, err);
    cJSON_Delete(doc);
    spec_finish(&spec);
    return s;
}
