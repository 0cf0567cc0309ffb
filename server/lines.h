/* lines.h - the texts of a command: words of the command line, or lines of a file. */
#ifndef BERTH_SERVER_LINES_H
#define BERTH_SERVER_LINES_H
#include "base/status.h"
#include "tokenizer/tokenizer.h"
#include <stdbool.h>

struct lines {
    char *const *words; // borrowed; n_words 0: lines of fd
    int n_words;
    int fd;
    char *data; // owned, [max_line_bytes + 1]
    size_t max_line_bytes, start, end;
    bool at_end, skipping;
    int64_t number; // of the text that lines_next() gave last, from 1 on
};
void lines_init(struct lines *l, char *const *words, int n_words, int fd, size_t max_line_bytes);
void lines_finish(struct lines *l);
/* The next text, borrowed until the next call; no line end. *more is false when there is none.
 * Errors: STATUS_INVALID for a text that is empty, too long or not UTF-8 (the next call goes on
 * behind it); STATUS_IO. */
MUST_CHECK enum status lines_next(struct lines *l, bool *more, struct text *out, struct error *err);
/* lines_next() would wait for somebody to write. */
bool lines_would_wait(const struct lines *l);
#endif
