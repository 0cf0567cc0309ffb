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

enum { JSON_MAX_DEPTH = 32, JSON_MAX_NUMBER_BYTES = 63 };
/* STATUS_INVALID with what is wrong and the byte offset ("invalid JSON at byte 17: ..."). Refused
 * beside malformed text: invalid UTF-8, lone surrogates, NUL (raw or \u0000), more than
 * JSON_MAX_DEPTH levels, duplicate keys in one object (compared decoded), numbers that no double
 * can hold, a byte order mark, anything after the value but white space. STATUS_NO_MEMORY:
 * `scratch` has no room for the keys. Iterative; n log n in the number of keys, else linear.
 * `scratch` is as before afterwards. */
MUST_CHECK enum status json_check(const char *bytes, size_t len, struct arena *scratch,
                                  struct error *err);
/* Bytes of the UTF-8 sequence that bytes[0 .. left) begins with; 0 when it is not valid. */
size_t json_utf8_sequence(const char *bytes, size_t left);

/* json_check(), then the tree, in `arena` (never freed by itself). Once per process, before the
 * first thread that uses cJSON: json_init(). Numbers longer than JSON_MAX_NUMBER_BYTES, which cJSON
 * would cut, are STATUS_INVALID too; an arena that is full is STATUS_NO_MEMORY. Look names up with
 * cJSON_GetObjectItemCaseSensitive(): the other getter takes "INPUTS" for "inputs". */
void json_init(void);
MUST_CHECK enum status json_parse(cJSON **out, const char *bytes, size_t len, struct arena *arena,
                                  struct error *err);

/* Appends to a buffer in an arena; after the first failure every call does nothing. While it is in
 * use nothing else may be taken from the arena (asserted): the buffer grows in place. */
struct json_writer {
    struct arena *arena;
    char *data;
    size_t len, capacity;
    bool failed;
};
void json_writer_init(struct json_writer *w, struct arena *arena);
void json_write_raw(struct json_writer *w, const char *text); // punctuation, known-good text
void json_write_bytes(struct json_writer *w, const char *bytes, size_t len); // as they are
/* Quoted and escaped; bytes that are not UTF-8 become U+FFFD. */
void json_write_string(struct json_writer *w, const char *bytes, size_t len);
void json_write_int(struct json_writer *w, int64_t v);
/* The shortest text that reads back as the same float, also by way of a double; whole numbers keep
 * a ".0". A value that is not finite becomes null. */
void json_write_float(struct json_writer *w, float v);
/* "key":value, with a comma before it unless it is the first of its object. */
void json_field(struct json_writer *w, const char *key); // the value follows
void json_field_text(struct json_writer *w, const char *key, const char *value);
void json_field_int(struct json_writer *w, const char *key, int64_t value);
void json_field_number(struct json_writer *w, const char *key, double value);
void json_field_raw(struct json_writer *w, const char *key, const char *literal);
#endif
