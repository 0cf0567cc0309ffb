/* safetensors_header.c - the header of one file, checked as strictly as the format asks.
 * Every tensor's bytes must be where the one before ended, fit its shape and dtype, and together
 * fill the file: a cut, padded or patched file is refused here, so that no later step can read
 * outside the mapping. A dtype that is not known is an error only when its tensor is asked for. */
#include "model/safetensors_header.h"

#include "model/json_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MAX_INTEGER = 9007199254740992.0; // 2^53: what a JSON number holds exactly

static int item_bytes_of(const char *dtype) {
    static const struct {
        const char *name;
        int bytes;
    } known[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                 {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                 {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        if (!strcmp(known[i].name, dtype)) {
            return known[i].bytes;
        }
    }
    return 0;
}

static enum status bad(struct error *err, const char *file, const char *tensor, const char *what,
                       const cJSON *found) {
    char text[96];
    return error_set(err, STATUS_INVALID, "%s: tensor %.100s: %s, found %s", file, tensor, what,
                     json_describe(text, sizeof(text), found));
}

static enum status read_shape(struct safetensors_entry *e, const cJSON *shape, const char *file,
                              const char *name, struct error *err) {
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > SAFETENSORS_MAX_DIMS) {
        return bad(err, file, name, "shape must be an array of at most 8 sizes", shape);
    }
    const cJSON *dim;
    cJSON_ArrayForEach (dim, shape) {
        if (!json_is_integer(dim, 0, MAX_INTEGER)) {
            return bad(err, file, name, "shape must hold whole numbers, zero or more", dim);
        }
        e->dims[e->n_dims++] = (int64_t)dim->valuedouble;
    }
    return STATUS_OK;
}

static enum status read_offsets(struct safetensors_entry *e, const cJSON *offsets,
                                uint64_t data_bytes, const char *file, const char *name,
                                struct error *err) {
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !json_is_integer(begin, 0, MAX_INTEGER) || !json_is_integer(end, 0, MAX_INTEGER)) {
        return bad(err, file, name, "data_offsets must be [begin, end]", offsets);
    }
    e->begin = (uint64_t)begin->valuedouble;
    e->end = (uint64_t)end->valuedouble;
    if (e->begin > e->end || e->end > data_bytes) {
        return error_set(err, STATUS_INVALID,
                         "%s: tensor %.100s: data_offsets [%" PRIu64 ", %" PRIu64
                         "] are outside the file's %" PRIu64 " bytes of data",
                         file, name, e->begin, e->end, data_bytes);
    }
    return STATUS_OK;
}

static enum status check_bytes(const struct safetensors_entry *e, const char *file,
                               struct error *err) {
    uint64_t bytes = (uint64_t)e->item_bytes;
    for (int i = 0; i < e->n_dims; i++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)e->dims[i], &bytes)) {
            return error_set(err, STATUS_INVALID, "%s: tensor %.100s: its shape is too large", file,
                             e->name);
        }
    }
    if (e->item_bytes && bytes != e->end - e->begin) {
        return error_set(err, STATUS_INVALID,
                         "%s: tensor %.100s: its shape and %s need %" PRIu64
                         " bytes, data_offsets give it %" PRIu64,
                         file, e->name, e->dtype, bytes, e->end - e->begin);
    }
    return STATUS_OK;
}

static enum status read_entry(struct safetensors_entry *e, const cJSON *item, uint64_t data_bytes,
                              const char *file, struct error *err) {
    const char *name = item->string;
    if (!cJSON_IsObject(item)) {
        return bad(err, file, name, "an object with dtype, shape, data_offsets is expected", item);
    }
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    if (!cJSON_IsString(dtype)) {
        return bad(err, file, name, "dtype must be a string", dtype);
    }
    snprintf(e->dtype, sizeof(e->dtype), "%s", dtype->valuestring);
    e->item_bytes = item_bytes_of(dtype->valuestring);
    e->name = xstrdup(name);
    enum status s = read_shape(e, cJSON_GetObjectItemCaseSensitive(item, "shape"), file, name, err);
    if (!s) {
        s = read_offsets(e, cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), data_bytes,
                         file, name, err);
    }
    return s ? s : check_bytes(e, file, err);
}

static int by_place(const void *a, const void *b) {
    const struct safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    return (x->end > y->end) - (x->end < y->end); // an empty tensor before the one it touches
}
static int by_name(const void *a, const void *b) {
    const struct safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum status check_places(struct safetensors_table *t, uint64_t data_bytes, const char *file,
                                struct error *err) {
    uint64_t at = 0;
    qsort(t->entries, (size_t)t->n, sizeof(*t->entries), by_place);
    for (int i = 0; i < t->n; i++) {
        const struct safetensors_entry *e = &t->entries[i];
        if (e->begin != at) {
            return error_set(err, STATUS_INVALID,
                             "%s: tensor %.100s begins at byte %" PRIu64
                             " of the data, the one before it ends at %" PRIu64,
                             file, e->name, e->begin, at);
        }
        at = e->end;
    }
    if (at != data_bytes) {
        return error_set(err, STATUS_INVALID,
                         "%s: its tensors have %" PRIu64 " bytes, the file holds %" PRIu64, file,
                         at, data_bytes);
    }
    return STATUS_OK;
}

static enum status check_names(struct safetensors_table *t, const char *file, struct error *err) {
    qsort(t->entries, (size_t)t->n, sizeof(*t->entries), by_name);
    for (int i = 1; i < t->n; i++) {
        if (!strcmp(t->entries[i - 1].name, t->entries[i].name)) {
            return error_set(err, STATUS_INVALID, "%s: tensor %.100s is there twice", file,
                             t->entries[i].name);
        }
    }
    return STATUS_OK;
}

enum status safetensors_table_parse(struct safetensors_table *out, const char *header, size_t len,
                                    uint64_t data_bytes, const char *name, struct error *err) {
    cJSON *root = NULL;
    enum status s = json_parse_object(&root, header, len, name, err);
    if (s) {
        return s;
    }
    struct safetensors_table t = {
        .entries = xcalloc((size_t)cJSON_GetArraySize(root), sizeof(*t.entries))};
    const cJSON *item;
    cJSON_ArrayForEach (item, root) {
        if (!strcmp(item->string, "__metadata__")) {
            continue;
        }
        s = read_entry(&t.entries[t.n++], item, data_bytes, name, err);
        if (s) {
            break;
        }
    }
    s = s ? s : check_places(&t, data_bytes, name, err);
    s = s ? s : check_names(&t, name, err);
    cJSON_Delete(root);
    if (s) {
        safetensors_table_finish(&t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

void safetensors_table_finish(struct safetensors_table *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->entries[i].name);
    }
    free(t->entries);
    memset(t, 0, sizeof(*t));
}
