/* commented_json.h - JSON with comments from files that people write: settings, API keys.
 * Comments become spaces in place, so an offset in the tree's text is an offset in the file, and
 * every node can be told by its line. Start-up, reload and command line only: it allocates. */
#ifndef BERTH_SERVER_COMMENTED_JSON_H
#define BERTH_SERVER_COMMENTED_JSON_H
#include "base/status.h"
#include <cjson/cJSON.h>
#include <stdbool.h>

struct commented_json {
    const char *name; // of the file, in errors; borrowed
    bool is_secret;   // set before reading: errors quote nothing, and what was read is wiped
    char *text;       // owned; comments blanked, ends in NUL
    size_t len;
    cJSON *root; // owned
};
/* Reads `len` bytes: no zero bytes, comments that end, at most 8 levels, what cJSON takes. Errors:
 * STATUS_INVALID with name, line and what is wrong. Finish it in any case. */
MUST_CHECK enum status commented_json_read(struct commented_json *j, const char *bytes, size_t len,
                                           struct error *err);
/* The same from an open descriptor of a regular file of at most 1 MiB. */
MUST_CHECK enum status commented_json_read_fd(struct commented_json *j, int fd, struct error *err);
/* That it was JSON to the letter (RFC 8259): after the reader's own checks, which know the line. */
MUST_CHECK enum status commented_json_check(const struct commented_json *j, struct error *err);
void commented_json_finish(struct commented_json *j); // takes a half-made one
int commented_json_line(const struct commented_json *j, const cJSON *node);
/* Puts "name:line: " of a node before the reason. */
enum status commented_json_at(const struct commented_json *j, const cJSON *node, enum status s,
                              struct error *err);
/* An earlier member of `object` has the same name. */
bool commented_json_is_repeated(const cJSON *object, const cJSON *member);
#endif
