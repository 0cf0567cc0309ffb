/* body.c - reads the body's fields by name and type, and refuses by name and type.
 * The tree is cJSON's, in the request's arena, and the texts are borrowed from it: no byte is
 * copied. Every refusal is a sentence that names the place ("inputs[3]"), what stands there and
 * what may. Errors are written where they are found; callers only pass "false" on. */
#include "server/body.h"

#include "server/json.h"
#include "server/response.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *type_of(const cJSON *v) {
    return cJSON_IsString(v)   ? "a string"
           : cJSON_IsNumber(v) ? "a number"
           : cJSON_IsBool(v)   ? "a boolean"
           : cJSON_IsNull(v)   ? "null"
           : cJSON_IsArray(v)  ? "a list"
                               : "an object";
}

/* NULL, with a reply, when the body is not a JSON object. */
static const cJSON *read_object(struct request *r) {
    cJSON *root = NULL;
    struct error err = {""};
    const size_t before = r->arena.used;
    const enum status s = json_parse(&root, r->body, r->body_len, &r->arena, &err);
    if (s) {
        r->arena.used = before; // room for the reason
        reply_error(r, s == STATUS_INVALID ? REFUSE_BAD_REQUEST : refusal_of_status(s), "%s",
                    err.text);
        return NULL;
    }
    if (!cJSON_IsObject(root)) {
        reply_error(r, REFUSE_VALIDATION, "the body must be a JSON object, not %s", type_of(root));
        return NULL;
    }
    return root;
}

/* Leaves *out as it is when the field is absent or null. */
static bool read_bool(bool *out, const cJSON *root, const char *name, struct request *r) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(root, name);
    if (!v || cJSON_IsNull(v)) {
        return true;
    }
    if (!cJSON_IsBool(v)) {
        reply_error(r, REFUSE_VALIDATION, "%s must be true, false or null, not %s", name,
                    type_of(v));
        return false;
    }
    *out = cJSON_IsTrue(v);
    return true;
}
static bool read_side(enum truncation_side *out, const cJSON *root, struct request *r) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(root, "truncation_direction");
    if (!v || cJSON_IsNull(v)) {
        return true;
    }
    const char *text = cJSON_IsString(v) ? v->valuestring : "";
    if (strcasecmp(text, "right") != 0 && strcasecmp(text, "left") != 0) {
        reply_error(r, REFUSE_VALIDATION, "truncation_direction must be \"right\" or \"left\"%s%s",
                    cJSON_IsString(v) ? "" : ", not ", cJSON_IsString(v) ? "" : type_of(v));
        return false;
    }
    *out = strcasecmp(text, "left") == 0 ? TRUNCATE_LEFT : TRUNCATE_RIGHT;
    return true;
}

struct input_place input_place(bool is_batch, int index) {
    struct input_place p = {"inputs"};
    if (is_batch) {
        snprintf(p.text, sizeof(p.text), "inputs[%d]", index);
    }
    return p;
}

static bool read_text(struct text *out, struct text_body *b, const cJSON *v, struct request *r,
                      const char *place, const char *wanted) {
    if (!cJSON_IsString(v)) {
        reply_error(r, REFUSE_VALIDATION, "%s must be %s, not %s", place, wanted, type_of(v));
        return false;
    }
    *out = (struct text){v->valuestring, strlen(v->valuestring)};
    for (size_t i = 0; i < out->len; i++) {
        b->n_chars += (out->bytes[i] & 0xC0) != 0x80; // continuation bytes begin no character
    }
    return true;
}

/* ["text"] or ["text", "pair"]. */
static bool read_pair(struct input *out, struct text_body *b, const cJSON *list, struct request *r,
                      const char *place) {
    struct text *const texts[] = {&out->first, &out->second};
    const cJSON *v = list->child;
    if (!v) {
        return reply_item_error(r, out, REFUSE_EMPTY, "%s is an empty list", place);
    }
    int n = 0;
    for (; v && n < 2; v = v->next, n++) {
        char item[48];
        snprintf(item, sizeof(item), "%s[%d]", place, n);
        if (!read_text(texts[n], b, v, r, item, "a string")) {
            return false;
        }
    }
    if (v) {
        reply_error(r, REFUSE_VALIDATION,
                    "%s has %d texts, but an input is one text or a pair of two (a batch is a list "
                    "of lists: [[\"a\"], [\"b\"]])",
                    place, cJSON_GetArraySize(list));
        return false;
    }
    out->is_pair = n == 2;
    return true;
}

static bool check_not_empty(struct input *in, struct request *r, const char *place) {
    const bool is_empty = !in->error && in->first.len == 0 && in->second.len == 0;
    return !is_empty || reply_item_error(r, in, REFUSE_EMPTY, "%s is empty", place);
}

/* Makes room for `n` inputs. */
static bool make_inputs(struct text_body *b, int n, struct request *r, const struct config *cfg) {
    if (n > cfg->server.max_client_batch_size) {
        reply_error(r, REFUSE_VALIDATION,
                    "inputs has %d entries, the limit is %d (max_client_batch_size)", n,
                    cfg->server.max_client_batch_size);
        return false;
    }
    b->inputs = arena_alloc(&r->arena, (size_t)n, sizeof(*b->inputs));
    if (!b->inputs) {
        reply_error(r, REFUSE_TOO_LARGE, "no room for %d inputs", n);
        return false;
    }
    memset(b->inputs, 0, (size_t)n * sizeof(*b->inputs));
    b->n_inputs = n;
    return true;
}

/* The field itself: present, and if it is a list, not an empty one. */
static const cJSON *find_inputs(const cJSON *root, struct request *r) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(root, "inputs");
    if (!v) {
        reply_error(r, REFUSE_VALIDATION, "the field inputs is missing");
        return NULL;
    }
    if (!cJSON_IsString(v) && !cJSON_IsArray(v)) {
        reply_error(r, REFUSE_VALIDATION, "inputs must be a string or a list, not %s", type_of(v));
        return NULL;
    }
    if (cJSON_IsArray(v) && !v->child) {
        reply_error(r, REFUSE_EMPTY, "inputs is an empty list");
        return NULL;
    }
    return v;
}

/* A list of ["text"] and ["text", "pair"]. */
static bool read_batch(struct text_body *b, const cJSON *inputs, struct request *r) {
    int i = 0;
    for (const cJSON *v = inputs->child; v; v = v->next, i++) {
        const struct input_place p = input_place(true, i);
        if (!cJSON_IsArray(v)) {
            reply_error(r, REFUSE_VALIDATION,
                        "%s must be a list of one or two strings, as inputs[0] is, not %s", p.text,
                        type_of(v));
            return false;
        }
        if (!read_pair(&b->inputs[i], b, v, r, p.text) ||
            !check_not_empty(&b->inputs[i], r, p.text)) {
            return false;
        }
    }
    return true;
}

bool body_read_predict(struct text_body *out, struct request *r, const struct config *cfg) {
    *out = (struct text_body){.truncate = cfg->model.auto_truncate, .add_special_tokens = true};
    const cJSON *root = read_object(r);
    if (!root || !read_bool(&out->truncate, root, "truncate", r) ||
        !read_bool(&out->raw_scores, root, "raw_scores", r) ||
        !read_bool(&r->is_partial, root, "partial", r) || !read_side(&out->side, root, r)) {
        return false;
    }
    const cJSON *inputs = find_inputs(root, r);
    if (!inputs) {
        return false;
    }
    out->is_batch = cJSON_IsArray(inputs->child);
    if (!make_inputs(out, out->is_batch ? cJSON_GetArraySize(inputs) : 1, r, cfg)) {
        return false;
    }
    if (out->is_batch) {
        return read_batch(out, inputs, r);
    }
    struct input *in = &out->inputs[0];
    const bool ok = cJSON_IsString(inputs)
                        ? read_text(&in->first, out, inputs, r, "inputs", "a string")
                        : read_pair(in, out, inputs, r, "inputs");
    return ok && check_not_empty(in, r, "inputs");
}

bool body_read_tokenize(struct text_body *out, struct request *r, const struct config *cfg) {
    *out = (struct text_body){.add_special_tokens = true};
    const cJSON *root = read_object(r);
    if (!root || !read_bool(&out->add_special_tokens, root, "add_special_tokens", r)) {
        return false;
    }
    const cJSON *inputs = find_inputs(root, r);
    if (!inputs) {
        return false;
    }
    out->is_batch = cJSON_IsArray(inputs);
    if (!make_inputs(out, out->is_batch ? cJSON_GetArraySize(inputs) : 1, r, cfg)) {
        return false;
    }
    const cJSON *v = out->is_batch ? inputs->child : inputs;
    for (int i = 0; i < out->n_inputs; i++, v = v->next) {
        const struct input_place p = input_place(out->is_batch, i);
        if (!read_text(&out->inputs[i].first, out, v, r, p.text, "a string") ||
            !check_not_empty(&out->inputs[i], r, p.text)) {
            return false;
        }
    }
    return true;
}
