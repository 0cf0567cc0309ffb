/* config.c - tokenizer_config.json and special_tokens_map.json. Beside a tokenizer.json only the
 * limits count; with a vocab.txt they say everything else: the normalizer's switches, the special
 * tokens' names, and further added tokens. What neither says is BERT's default. */
#include "tokenizer/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/post_processor.h"

struct config { // both documents; either may be NULL
    cJSON *config, *map;
    char config_file[256], map_file[256];
};

enum status added_token_read(struct tokenizer_spec *spec, const cJSON *object, bool required,
                             struct field_at at, struct error *err) {
    const char *content = NULL;
    if (!cJSON_IsObject(object)) {
        return field_wrong(object, "", "an object with \"content\"", at, err);
    }
    enum status s = field_string(&content, object, "content", true, at, err);
    if (s || !*content) {
        return s; // the reference passes an empty one over
    }
    struct added_token *a = spec_add_token(spec, content);
    a->special = !required;
    s = field_bool(&a->single_word, object, "single_word", required, at, err);
    s = s ? s : field_bool(&a->lstrip, object, "lstrip", required, at, err);
    s = s ? s : field_bool(&a->rstrip, object, "rstrip", required, at, err);
    s = s ? s : field_bool(&a->normalized, object, "normalized", required, at, err);
    s = s ? s : field_bool(&a->special, object, "special", required, at, err);
    return s ? s : field_int(&a->id, object, "id", MAX_VOCAB_IDS, required, at, err);
}

/* A special token is given as a string or as an object with "content". */
static const char *token_text(const cJSON *value) {
    const cJSON *text = cJSON_IsObject(value) ? field_member(value, "content") : value;
    return cJSON_IsString(text) ? text->valuestring : NULL;
}

static enum status named_token(const char **out, const struct config *c, const char *name,
                               struct error *err) {
    const cJSON *value = field_member(c->config, name);
    const char *file = value ? c->config_file : c->map_file;
    value = value ? value : field_member(c->map, name);
    if (!value) {
        return STATUS_OK; // *out stays the default
    }
    const char *text = token_text(value);
    if (!text) {
        return field_wrong(value, name, "a string, or an object with \"content\"",
                           (struct field_at){file, ""}, err);
    }
    *out = text;
    return STATUS_OK;
}

static enum status read_limits(struct tokenizer_spec *spec, const struct config *c,
                               struct error *err) {
    const cJSON *max = field_member(c->config, "model_max_length");
    const char *pad = NULL;
    if (max && !cJSON_IsNumber(max)) {
        return field_wrong(max, "model_max_length", "a number",
                           (struct field_at){c->config_file, ""}, err);
    }
    /* "No limit" is written as 10^30 there. */
    if (max && max->valuedouble >= 1 && max->valuedouble < INT32_MAX) {
        spec->max_length = (int)max->valuedouble;
    }
    const enum status s = named_token(&pad, c, "pad_token", err);
    if (!s && pad) {
        free(spec->pad_token);
        spec->pad_token = xstrdup(pad);
    }
    return s;
}

static enum status open_config(struct config *c, const struct text *config_json,
                               const struct text *map_json, const char *dir, struct error *err) {
    enum status s = STATUS_OK;
    *c = (struct config){.config = NULL};
    snprintf(c->config_file, sizeof(c->config_file), "%s/tokenizer_config.json", dir);
    snprintf(c->map_file, sizeof(c->map_file), "%s/special_tokens_map.json", dir);
    if (config_json) {
        s = fields_parse(&c->config, config_json, c->config_file, err);
    }
    if (!s && map_json) {
        s = fields_parse(&c->map, map_json, c->map_file, err);
    }
    return s;
}

static void close_config(struct config *c) {
    cJSON_Delete(c->config);
    cJSON_Delete(c->map);
}

enum status tokenizer_config_limits(struct tokenizer_spec *spec, const struct text *config_json,
                                    const char *dir, struct error *err) {
    struct config c;
    enum status s = open_config(&c, config_json, NULL, dir, err);
    s = s ? s : read_limits(spec, &c, err);
    close_config(&c);
    return s;
}

static enum status read_switches(struct tokenizer_spec *spec, const struct config *c,
                                 struct error *err) {
    const struct field_at at = {c->config_file, ""};
    struct norm_switches *on = &spec->norm;
    *on =
        (struct norm_switches){.clean_text = true, .handle_chinese_chars = true, .lowercase = true};
    enum status s = field_bool(&on->lowercase, c->config, "do_lower_case", false, at, err);
    on->strip_accents = on->lowercase;
    s = s ? s : field_bool(&on->strip_accents, c->config, "strip_accents", false, at, err);
    return s ? s
             : field_bool(&on->handle_chinese_chars, c->config, "tokenize_chinese_chars", false, at,
                          err);
}

/* {"0": {"content": "[PAD]", ...}, ...}: added in the order of the ids. */
static enum status read_decoder(struct tokenizer_spec *spec, const struct config *c,
                                struct error *err) {
    const cJSON *decoder = NULL, *m;
    enum status s = STATUS_OK;
    if (field_member(c->config, "added_tokens_decoder")) {
        s = field_object(&decoder, c->config, "added_tokens_decoder",
                         (struct field_at){c->config_file, ""}, err);
    }
    long done = -1;
    while (!s && decoder) {
        const cJSON *next = NULL;
        long next_id = MAX_VOCAB_IDS;
        cJSON_ArrayForEach (m, decoder) { // few members: a selection sort is enough
            char *end;
            const long id = strtol(m->string, &end, 10);
            if (!*m->string || *end || id < 0 || id >= MAX_VOCAB_IDS) {
                return field_wrong(m, m->string, "an id as the name",
                                   (struct field_at){c->config_file, "added_tokens_decoder"}, err);
            }
            if (id > done && id < next_id) {
                next = m;
                next_id = id;
            }
        }
        if (!next) {
            break;
        }
        s = added_token_read(spec, next, false,
                             (struct field_at){c->config_file, "added_tokens_decoder"}, err);
        done = next_id;
    }
    return s;
}

static bool is_added(const struct tokenizer_spec *spec, const char *content) {
    for (int i = 0; i < spec->n_added; i++) {
        if (!strcmp(spec->added[i].content, content)) {
            return true;
        }
    }
    return false;
}

static void add_special(struct tokenizer_spec *spec, const char *content) {
    if (*content && !is_added(spec, content)) {
        spec_add_token(spec, content)->special = true;
    }
}

static enum status read_additional(struct tokenizer_spec *spec, const struct config *c,
                                   struct error *err) {
    static const char name[] = "additional_special_tokens";
    const cJSON *list = field_member(c->config, name), *m;
    const char *file = list ? c->config_file : c->map_file;
    list = list ? list : field_member(c->map, name);
    if (list && !cJSON_IsArray(list)) {
        return field_wrong(list, name, "an array", (struct field_at){file, ""}, err);
    }
    cJSON_ArrayForEach (m, list) {
        const char *text = token_text(m);
        if (!text) {
            return field_wrong(m, name, "strings, or objects with \"content\"",
                               (struct field_at){file, ""}, err);
        }
        add_special(spec, text);
    }
    return STATUS_OK;
}

/* The template needs the ids of [CLS] and [SEP] as the model knows them. */
static enum status special_id(int32_t *id, const struct tokenizer_spec *spec, const char *name,
                              const char *content, const struct config *c, struct error *err) {
    *id = spec_find(spec, content);
    return *id >= 0 ? STATUS_OK
                    : error_set(err, STATUS_INVALID, "%s: %s \"%s\" is not in vocab.txt",
                                c->config_file, name, content);
}

static enum status read_specials(struct tokenizer_spec *spec, const struct config *c,
                                 struct error *err) {
    static const char *const names[] = {"unk_token", "sep_token", "pad_token", "cls_token",
                                        "mask_token"};
    const char *texts[] = {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
    int32_t cls = 0, sep = 0;
    enum status s = STATUS_OK;
    for (size_t i = 0; i < N_ITEMS(names) && !s; i++) {
        s = named_token(&texts[i], c, names[i], err);
        if (!s) {
            add_special(spec, texts[i]);
        }
    }
    s = s ? s : read_additional(spec, c, err);
    s = s ? s : special_id(&cls, spec, "cls_token", texts[3], c, err);
    s = s ? s : special_id(&sep, spec, "sep_token", texts[1], c, err);
    if (!s) {
        template_bert(spec, cls, sep);
        spec->unk_token = xstrdup(texts[0]);
        free(spec->pad_token);
        spec->pad_token = xstrdup(texts[2]);
    }
    return s;
}

enum status tokenizer_config_all(struct tokenizer_spec *spec, const struct text *config_json,
                                 const struct text *map_json, const char *dir, struct error *err) {
    struct config c;
    enum status s = open_config(&c, config_json, map_json, dir, err);
    s = s ? s : read_limits(spec, &c, err);
    s = s ? s : read_switches(spec, &c, err);
    s = s ? s : read_decoder(spec, &c, err);
    s = s ? s : read_specials(spec, &c, err);
    close_config(&c);
    return s;
}
