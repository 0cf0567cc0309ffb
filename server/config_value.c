/* config_value.c - a value from JSON or from a word into its field, if the table allows it.
 * Both ways meet in set_number(), set_bool() and set_string(), so that the file and the command
 * line have the same bounds and the same words for what is wrong: key, what stands there, what is
 * allowed. The caller puts file and line before it. */
#include "server/config_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void describe_choices(const struct setting *s, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "one of ");
    for (int i = 0; i < s->n_choices && n < size; i++) {
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", s->choices[i]);
    }
}
void setting_describe(const struct setting *s, char *out, size_t size) {
    switch (s->kind) {
    case SETTING_INT:
    case SETTING_INT64: snprintf(out, size, "an integer, %.0f to %.0f", s->min, s->max); break;
    case SETTING_DOUBLE: snprintf(out, size, "a number, %.15g to %.15g", s->min, s->max); break;
    case SETTING_BOOL: snprintf(out, size, "true or false"); break;
    case SETTING_STRING: snprintf(out, size, "a string, at most %zu bytes", s->size - 1); break;
    case SETTING_CHOICE:
    case SETTING_ENUM: describe_choices(s, out, size); break;
    case SETTING_BUCKETS:
        snprintf(out, size, "a list of up to %d objects like {\"up_to\": 64}", POLICY_MAX_BUCKETS);
        break;
    }
}
static enum status refuse(const struct setting *s, const char *value, struct error *err) {
    char allowed[160];
    setting_describe(s, allowed, sizeof(allowed));
    return error_set(err, STATUS_INVALID, "%s: %s, where %s is expected", s->key, value, allowed);
}

static enum status set_number(const struct setting *s, struct config *c, double v,
                              struct error *err) {
    const bool is_whole = s->kind == SETTING_DOUBLE || v == floor(v);
    if (!(v >= s->min && v <= s->max) || !is_whole) {
        char text[40];
        snprintf(text, sizeof(text), "%.15g", v);
        return refuse(s, text, err);
    }
    void *field = setting_field(s, c);
    if (s->kind == SETTING_INT) {
        *(int *)field = (int)v;
    } else if (s->kind == SETTING_INT64) {
        *(int64_t *)field = (int64_t)v;
    } else {
        *(double *)field = v;
    }
    return STATUS_OK;
}
static int find_choice(const struct setting *s, const char *text) {
    for (int i = 0; i < s->n_choices; i++) {
        if (!strcmp(text, s->choices[i])) {
            return i;
        }
    }
    return -1;
}
static enum status set_string(const struct setting *s, struct config *c, const char *text,
                              struct error *err) {
    const int choice = find_choice(s, text);
    char *field = setting_field(s, c);
    const bool fits = s->kind == SETTING_ENUM || strlen(text) < s->size;
    if (!fits || (s->kind != SETTING_STRING && choice < 0)) {
        char quoted[80];
        snprintf(quoted, sizeof(quoted), "\"%.60s\"%s", text, strlen(text) > 60 ? "..." : "");
        return refuse(s, quoted, err);
    }
    if (s->kind == SETTING_ENUM) {
        memcpy(field, &choice, sizeof(choice));
    } else {
        memset(field, 0, s->size); // so that equal settings are equal bytes
        memcpy(field, text, strlen(text));
    }
    return STATUS_OK;
}

static bool is_number(const struct setting *s) {
    return s->kind == SETTING_INT || s->kind == SETTING_INT64 || s->kind == SETTING_DOUBLE;
}
static bool is_text(const struct setting *s) {
    return s->kind == SETTING_STRING || s->kind == SETTING_CHOICE || s->kind == SETTING_ENUM;
}
static void describe_json(const cJSON *v, char *out, size_t size) {
    if (cJSON_IsString(v)) {
        snprintf(out, size, "the string \"%.60s\"", v->valuestring);
    } else if (cJSON_IsNumber(v)) {
        snprintf(out, size, "the number %.15g", v->valuedouble);
    } else {
        snprintf(out, size, "%s",
                 cJSON_IsBool(v)     ? (cJSON_IsTrue(v) ? "true" : "false")
                 : cJSON_IsArray(v)  ? "a list"
                 : cJSON_IsObject(v) ? "an object"
                                     : "null");
    }
}
enum status setting_set_json(const struct setting *s, struct config *c, const cJSON *value,
                             const cJSON **where, struct error *err) {
    *where = value;
    if (s->kind == SETTING_BUCKETS && cJSON_IsArray(value)) {
        return buckets_set_json(c, value, where, err);
    }
    if (s->kind == SETTING_BOOL && cJSON_IsBool(value)) {
        *(bool *)setting_field(s, c) = cJSON_IsTrue(value);
        return STATUS_OK;
    }
    if (is_number(s) && cJSON_IsNumber(value)) {
        return set_number(s, c, value->valuedouble, err);
    }
    if (is_text(s) && cJSON_IsString(value)) {
        return set_string(s, c, value->valuestring, err);
    }
    char text[96];
    describe_json(value, text, sizeof(text));
    return refuse(s, text, err);
}

static enum status set_bool_text(const struct setting *s, struct config *c, const char *text,
                                 struct error *err) {
    const bool on = !strcmp(text, "true");
    if (!on && strcmp(text, "false")) {
        char quoted[80];
        snprintf(quoted, sizeof(quoted), "\"%.60s\"", text);
        return refuse(s, quoted, err);
    }
    *(bool *)setting_field(s, c) = on;
    return STATUS_OK;
}
enum status setting_set_text(const struct setting *s, struct config *c, const char *text,
                             struct error *err) {
    if (is_text(s)) {
        return set_string(s, c, text, err);
    }
    if (s->kind == SETTING_BOOL) {
        return set_bool_text(s, c, text, err);
    }
    /* Numbers and lists are written as in the file. */
    cJSON *value = cJSON_ParseWithOpts(text, NULL, 1);
    if (!value) {
        char quoted[80];
        snprintf(quoted, sizeof(quoted), "\"%.60s\"", text);
        return refuse(s, quoted, err);
    }
    const cJSON *where;
    const enum status status = setting_set_json(s, c, value, &where, err);
    cJSON_Delete(value);
    return status;
}
