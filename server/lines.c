/* lines.c - texts, one at a time, within a buffer of one line's limit.
 * read(2) and our own buffer rather than stdio: lines_would_wait() must know whether a whole line
 * is there already. A line longer than the buffer is read to its end and refused. */
#include "server/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/json.h"

void lines_init(struct lines *l, char *const *words, int n_words, int fd, size_t max_line_bytes) {
    *l = (struct lines){
        .words = words, .n_words = n_words, .fd = fd, .max_line_bytes = max_line_bytes};
    l->data = n_words ? NULL : xcalloc(max_line_bytes + 1, 1);
}
void lines_finish(struct lines *l) {
    free(l->data);
    l->data = NULL;
}

static char *find_newline(const struct lines *l) {
    return memchr(l->data + l->start, '\n', l->end - l->start);
}
static enum status check_text(const struct text *t, struct error *err) {
    if (t->len == 0) {
        return error_set(err, STATUS_INVALID, "the text is empty");
    }
    for (size_t i = 0; i < t->len;) {
        const size_t n = json_utf8_sequence(t->bytes + i, t->len - i);
        if (n == 0) {
            return error_set(err, STATUS_INVALID, "invalid UTF-8 at byte %zu", i);
        }
        i += n;
    }
    return STATUS_OK;
}
/* Reads once more into the buffer; what is taken already makes room. */
static enum status fill(struct lines *l, struct error *err) {
    memmove(l->data, l->data + l->start, l->end - l->start);
    l->end -= l->start, l->start = 0;
    const ssize_t n = read(l->fd, l->data + l->end, l->max_line_bytes + 1 - l->end);
    if (n < 0 && errno != EINTR) {
        return error_set(err, STATUS_IO, "reading failed: %s", strerror(errno));
    }
    l->at_end = n == 0;
    l->end += n > 0 ? (size_t)n : 0;
    return STATUS_OK;
}
static enum status too_long(const struct lines *l, struct error *err) {
    return error_set(err, STATUS_INVALID, "longer than %zu bytes (server.max_body_bytes)",
                     l->max_line_bytes);
}
static enum status next_line(struct lines *l, bool *more, struct text *out, struct error *err) {
    char *newline = find_newline(l);
    while (!newline && !l->at_end) {
        if (l->end - l->start > l->max_line_bytes) {
            l->start = l->end, l->skipping = true;
        }
        const enum status s = fill(l, err);
        if (s) {
            return s;
        }
        newline = find_newline(l);
    }
    *more = newline || l->end > l->start || l->skipping;
    l->number += *more;
    const char *line = l->data + l->start;
    size_t len = newline ? (size_t)(newline - line) : l->end - l->start;
    l->start += len + (newline != NULL);
    if (l->skipping) {
        l->skipping = false;
        return too_long(l, err);
    }
    len -= len > 0 && line[len - 1] == '\r';
    *out = (struct text){line, len};
    return *more ? check_text(out, err) : STATUS_OK;
}
enum status lines_next(struct lines *l, bool *more, struct text *out, struct error *err) {
    if (!l->n_words) {
        return next_line(l, more, out, err);
    }
    *more = l->number < l->n_words;
    if (!*more) {
        return STATUS_OK;
    }
    const char *word = l->words[l->number++];
    *out = (struct text){word, strlen(word)};
    return out->len > l->max_line_bytes ? too_long(l, err) : check_text(out, err);
}
bool lines_would_wait(const struct lines *l) {
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    return !l->n_words && !l->at_end && !find_newline(l) && poll(&p, 1, 0) == 0;
}
