/* fields.h - reads fields of a model's JSON files, with errors that name file, field and what was
 * expected. Threads: pure functions. Start-up only. */
#ifndef BERTH_TOKENIZER_FIELDS_H
#define BERTH_TOKENIZER_FIELDS_H
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

/* Where a value stands, for errors: "file: model.vocab". */
struct field_at {
    const char *file, *path;
};
/* The document must be one object. The caller frees with cJSON_Delete(). */
MUST_CHECK enum status fields_parse(cJSON **out, const struct text *json, const char *file,
                                    struct error *err);
/* The member, or NULL where it is missing or null. */
const cJSON *field_member(const cJSON *object, const char *name);

/* Each reads object.name. A missing or null member leaves *out as it is, unless `required`. */
MUST_CHECK enum status field_bool(bool *out, const cJSON *object, const char *name, bool required,
                                  struct field_at at, struct error *err);
MUST_CHECK enum status field_int(int32_t *out, const cJSON *object, const char *name, int32_t below,
                                 bool required, struct field_at at, struct error *err);
/* Borrowed from the document. */
MUST_CHECK enum status field_string(const char **out, const cJSON *object, const char *name,
                                    bool required, struct field_at at, struct error *err);
MUST_CHECK enum status field_object(const cJSON **out, const cJSON *object, const char *name,
                                    struct field_at at, struct error *err);
MUST_CHECK enum status field_array(const cJSON **out, const cJSON *object, const char *name,
                                   struct field_at at, struct error *err);
/* A number that is a whole one, 0 <= n < below. */
bool field_is_id(const cJSON *value, int32_t below);
enum status field_wrong(const cJSON *value, const char *name, const char *expected,
                        struct field_at at, struct error *err);
#endif
