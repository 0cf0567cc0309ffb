/* json_file.h - JSON as the files of a model directory hold it. Start-up only. */
#ifndef BERTH_MODEL_JSON_FILE_H
#define BERTH_MODEL_JSON_FILE_H
#include "base/status.h"
#include <cjson/cJSON.h>
#include <stdbool.h>

/* The whole file, with a NUL after it; the caller frees *text. Errors: STATUS_IO; STATUS_TOO_LONG
 * beyond max_bytes. */
MUST_CHECK enum status file_read(char **text, size_t *len, const char *path, size_t max_bytes,
                                 struct error *err);
/* One object and nothing after it. `name` is the file's, for messages. Errors: STATUS_INVALID. The
 * caller calls cJSON_Delete(). */
MUST_CHECK enum status json_parse_object(cJSON **out, const char *text, size_t len,
                                         const char *name, struct error *err);
/* What stands in `item`, for a message: its text, cut; "nothing" for NULL. Gives `out` back. */
const char *json_describe(char *out, size_t size, const cJSON *item);
/* A number without fraction in lo ... hi. */
bool json_is_integer(const cJSON *item, double lo, double hi);
#endif
