/* lengths_file.h - a histogram of lengths from a file: what GET /debug/lengths answers (JSON), or
 * text with a line "TOKENS" an input or "TOKENS,COUNT" a length. Tools only. */
#ifndef BERTH_SERVER_LENGTHS_FILE_H
#define BERTH_SERVER_LENGTHS_FILE_H
#include "batching/trace.h"

struct lengths_file {
    struct lengths lengths;
    double per_second; // as a server told it; 0: not told
};
/* Errors: STATUS_IO; STATUS_TOO_LONG; STATUS_INVALID with the line or the key, also when there is
 * no length at all. */
MUST_CHECK enum status lengths_file_read(struct lengths_file *out, const char *path,
                                         struct error *err);
/* The same from memory; `name` stands for the file in errors. Needs json_init(). */
MUST_CHECK enum status lengths_file_parse(struct lengths_file *out, const char *bytes, size_t len,
                                          const char *name, struct error *err);
#endif
