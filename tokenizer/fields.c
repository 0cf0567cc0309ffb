/* fields.c - typed reads from cJSON documents. The files are the model's own, so cJSON's leniency
 * is no danger here; what counts is that a file that is not as expected says where, before anything
 * runs. Names are matched with case. */
#include "tokenizer/fields.h"

#include <stdio.h>
#include <string.h>

/* cJSON ends a string at \u0000, and would give another string than the file has. */
static bool has_nul(const struct text *json) {
    static const char nul[] = "\\u0000";
    const size_t n = sizeof(nul) - 1;
    for (size_t i = 0; i + n <= json->len;) {
        const char *p = memchr(json->bytes + i, '\\', json->len - i);
        if (!p) {
            return false;
        }
        i = (size_t)(p - json->bytes);
        if (i + n <= json->len && !memcmp(p, nul, n)) {
            return true;
        }
        i += 2; // what follows a backslash does not start an escape
    }
    return false;
}

enum status fields_parse(cJSON **out, const struct text *json, const char *file,
                         struct error *err) {
    const char *end = NULL;
    if (has_nul(json)) {
        return error_set(err, STATUS_INVALID, "%s: expected strings without \\u0000", file);
    }
    cJSON *doc = cJSON_ParseWithLengthOpts(json->bytes, json->len, &end, 0);
    const size_t at = end ? (size_t)(end - json->bytes) : 0;
    size_t rest = at < json->len ? at : json->len;
    if (!doc) {
        return error_set(err, STATUS_INVALID, "%s: not JSON from byte %zu on", file, rest);
    }
    while (rest < json->len && memchr(" \t\r\n", json->bytes[rest], 4)) {
        rest++;
    }
    if (rest < json->len || !cJSON_IsObject(doc)) {
        cJSON_Delete(doc);
        return error_set(err, STATUS_INVALID, "%s: expected one JSON object, and nothing behind it",
                         file);
    }
    *out = doc;
    return STATUS_OK;
}

const cJSON *field_member(const cJSON *object, const char *name) {
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(object, name);
    return m && !cJSON_IsNull(m) ? m : NULL;
}

enum status field_wrong(const cJSON *value, const char *name, const char *expected,
                        struct field_at at, struct error *err) {
    char shown[64] = "nothing";
    if (value && !cJSON_PrintPreallocated((cJSON *)(uintptr_t)value, shown, sizeof(shown) - 6, 0)) {
        memcpy(shown, "something long", sizeof("something long"));
    }
    return error_set(err, STATUS_INVALID, "%s: %s%s%s: expected %s, found %s", at.file, at.path,
                     *at.path ? "." : "", name, expected, shown);
}

bool field_is_id(const cJSON *value, int32_t below) {
    return cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble < below &&
           value->valuedouble == (double)(int32_t)value->valuedouble;
}

enum status field_bool(bool *out, const cJSON *object, const char *name, bool required,
                       struct field_at at, struct error *err) {
    const cJSON *m = field_member(object, name);
    if (m ? !cJSON_IsBool(m) : required) {
        return field_wrong(m, name, "true or false", at, err);
    }
    if (m) {
        *out = cJSON_IsTrue(m);
    }
    return STATUS_OK;
}

enum status field_int(int32_t *out, const cJSON *object, const char *name, int32_t below,
                      bool required, struct field_at at, struct error *err) {
    const cJSON *m = field_member(object, name);
    if (m ? !field_is_id(m, below) : required) {
        char expected[64];
        snprintf(expected, sizeof(expected), "a whole number from 0 to %d", below - 1);
        return field_wrong(m, name, expected, at, err);
    }
    if (m) {
        *out = (int32_t)m->valuedouble;
    }
    return STATUS_OK;
}

enum status field_string(const char **out, const cJSON *object, const char *name, bool required,
                         struct field_at at, struct error *err) {
    const cJSON *m = field_member(object, name);
    if (m ? !cJSON_IsString(m) : required) {
        return field_wrong(m, name, "a string", at, err);
    }
    if (m) {
        *out = m->valuestring;
    }
    return STATUS_OK;
}

enum status field_object(const cJSON **out, const cJSON *object, const char *name,
                         struct field_at at, struct error *err) {
    const cJSON *m = field_member(object, name);
    if (!cJSON_IsObject(m)) {
        return field_wrong(m, name, "an object", at, err);
    }
    *out = m;
    return STATUS_OK;
}

enum status field_array(const cJSON **out, const cJSON *object, const char *name,
                        struct field_at at, struct error *err) {
    const cJSON *m = field_member(object, name);
    if (!cJSON_IsArray(m)) {
        return field_wrong(m, name, "an array", at, err);
    }
    *out = m;
    return STATUS_OK;
}
