/* json.h - JSON from strangers: a strict check first (RFC 8259, UTF-8, depth, duplicate keys), then
 * cJSON with its memory in the request's arena; and a bounded writer for answers. cJSON by itself
 * accepts much that is not JSON and cuts strings at \u0000; hence the check. */
#ifndef BERTH_SERVER_JSON_H
#define BERTH_SERVER_JSON_H
#include "base/arena.h"
#include "base/status.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_MAX_DEPTH = 32 };
/* STATUS_INVALID with what is wrong and the byte offset. Refused beside malformed text: invalid
 * UTF-8, lone surrogates, NUL (raw or \u0000), more than JSON_MAX_DEPTH levels, duplicate keys in
 * one object, numbers that no double can hold, anything after the value but white space. Iterative;
 * linear time. */
MUST_CHECK enum status json_check(const char *bytes, size_t len, struct arena *scratch,
                                  struct error *err);
/* json_check(), then the tree, in `arena` (never freed by itself). Once per process: json_init().
 */
void json_init(void);
MUST_CHECK enum status json_parse(cJSON **out, const char *bytes, size_t len, struct arena *arena,
                                  struct error *err);

/* Appends to a buffer in an arena; after the first failure every call does nothing. */
struct json_writer {
    struct arena *arena;
    char *data;
    size_t len, capacity;
    bool failed;
};
void json_writer_init(struct json_writer *w, struct arena *arena);
void json_write_raw(struct json_writer *w, const char *text); // punctuation, known-good text
void json_write_string(struct json_writer *w, const char *bytes, size_t len); // quoted and escaped
void json_write_int(struct json_writer *w, int64_t v);
/* The shortest text that reads back as the same float; a value that is not finite becomes null. */
void json_write_float(struct json_writer *w, float v);
#endif
