/* post_processor.c - templates: BERT's fixed one, and the general form that lists its pieces. Each
 * text stands once in a template; the reference would allow more, no model uses it. */
#include "tokenizer/post_processor.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PARTS = 64, MAX_TYPE_IDS = 1 << 16 };

static void set_parts(struct template *t, const struct template_part *parts, int n) {
    t->parts = xcalloc((size_t)n, sizeof(*parts));
    t->n_parts = n;
    memcpy(t->parts, parts, (size_t)n * sizeof(*parts));
}

void template_bert(struct tokenizer_spec *spec, int32_t cls_id, int32_t sep_id) {
    const struct template_part parts[] = {
        {PART_TOKEN, cls_id, 0}, {PART_FIRST, 0, 0},      {PART_TOKEN, sep_id, 0},
        {PART_SECOND, 0, 1},     {PART_TOKEN, sep_id, 1},
    };
    set_parts(&spec->single, parts, 3);
    set_parts(&spec->pair, parts, 5);
}

void template_plain(struct tokenizer_spec *spec) {
    const struct template_part parts[] = {{PART_FIRST, 0, 0}, {PART_SECOND, 0, 1}};
    set_parts(&spec->single, parts, 1);
    set_parts(&spec->pair, parts, 2);
}

enum status template_read_bert(struct tokenizer_spec *spec, const cJSON *post, const char *file,
                               struct error *err) {
    static const char *const names[] = {"cls", "sep"};
    int32_t ids[2];
    for (int i = 0; i < 2; i++) {
        const cJSON *pair = field_member(post, names[i]);
        const cJSON *id = cJSON_IsArray(pair) ? cJSON_GetArrayItem(pair, 1) : NULL;
        if (!field_is_id(id, MAX_VOCAB_IDS)) {
            return field_wrong(pair, names[i], "[token, id]",
                               (struct field_at){file, "post_processor"}, err);
        }
        ids[i] = (int32_t)id->valuedouble;
    }
    template_bert(spec, ids[0], ids[1]);
    return STATUS_OK;
}

struct reader {
    const cJSON *special_tokens;
    struct field_at at; // of the template
    struct error *err;
    struct template_part parts[MAX_PARTS];
    int n;
};

static enum status add(struct reader *r, struct template_part part) {
    if (r->n == MAX_PARTS) {
        return error_set(r->err, STATUS_INVALID, "%s: %s: expected at most %d tokens", r->at.file,
                         r->at.path, MAX_PARTS);
    }
    r->parts[r->n++] = part;
    return STATUS_OK;
}

/* {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, whose ids stand in special_tokens. */
static enum status add_special(struct reader *r, const cJSON *piece) {
    const char *name = NULL;
    int32_t type = 0;
    const cJSON *ids = NULL, *id;
    enum status s = field_string(&name, piece, "id", true, r->at, r->err);
    s = s ? s : field_int(&type, piece, "type_id", MAX_TYPE_IDS, true, r->at, r->err);
    if (s) {
        return s;
    }
    const cJSON *token = field_member(r->special_tokens, name);
    if (!token) {
        return error_set(r->err, STATUS_INVALID, "%s: %s: special_tokens has no \"%s\"", r->at.file,
                         r->at.path, name);
    }
    s = field_array(&ids, token, "ids",
                    (struct field_at){r->at.file, "post_processor.special_tokens"}, r->err);
    if (s) {
        return s;
    }
    cJSON_ArrayForEach (id, ids) {
        if (!field_is_id(id, MAX_VOCAB_IDS)) {
            return field_wrong(id, "ids", "ids",
                               (struct field_at){r->at.file, "post_processor.special_tokens"},
                               r->err);
        }
        s = s ? s : add(r, (struct template_part){PART_TOKEN, (int32_t)id->valuedouble, type});
    }
    return s;
}

/* {"Sequence": {"id": "A", "type_id": 0}} */
static enum status add_sequence(struct reader *r, const cJSON *piece) {
    const char *name = NULL;
    int32_t type = 0;
    enum status s = field_string(&name, piece, "id", true, r->at, r->err);
    s = s ? s : field_int(&type, piece, "type_id", MAX_TYPE_IDS, true, r->at, r->err);
    if (!s && strcmp(name, "A") != 0 && strcmp(name, "B") != 0) {
        s = field_wrong(field_member(piece, "id"), "id", "\"A\" or \"B\"", r->at, r->err);
    }
    return s ? s : add(r, (struct template_part){*name == 'A' ? PART_FIRST : PART_SECOND, 0, type});
}

static enum status read_pieces(struct reader *r, const cJSON *list) {
    const cJSON *piece;
    enum status s = STATUS_OK;
    cJSON_ArrayForEach (piece, list) {
        const cJSON *special = field_member(piece, "SpecialToken");
        const cJSON *sequence = field_member(piece, "Sequence");
        if (s) {
            break;
        }
        s = special    ? add_special(r, special)
            : sequence ? add_sequence(r, sequence)
                       : field_wrong(piece, "", "SpecialToken or Sequence", r->at, r->err);
    }
    return s;
}

static enum status read_template(struct template *out, const cJSON *post, const char *name,
                                 int n_second, const char *file, struct error *err) {
    char path[32];
    const cJSON *list = NULL;
    struct reader r = {.err = err};
    int texts[3] = {0};
    snprintf(path, sizeof(path), "post_processor.%s", name);
    r.at = (struct field_at){file, path};
    r.special_tokens = field_member(post, "special_tokens");
    enum status s = field_array(&list, post, name, (struct field_at){file, "post_processor"}, err);
    s = s ? s : read_pieces(&r, list);
    for (int i = 0; i < r.n; i++) {
        texts[r.parts[i].what]++;
    }
    if (!s && (texts[PART_FIRST] != 1 || texts[PART_SECOND] != n_second)) {
        s = error_set(err, STATUS_INVALID, "%s: %s: expected %s once", file, path,
                      n_second ? "A and B" : "A alone");
    }
    if (!s) {
        set_parts(out, r.parts, r.n);
    }
    return s;
}

enum status template_read(struct tokenizer_spec *spec, const cJSON *post, const char *file,
                          struct error *err) {
    const enum status s = read_template(&spec->single, post, "single", 0, file, err);
    return s ? s : read_template(&spec->pair, post, "pair", 1, file, err);
}
