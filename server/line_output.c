/* line_output.c - a line is made in an arena and written whole.
 * stdio's buffer makes few writes of many lines; the commands flush it when they would wait. */
#include "server/line_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Address space only (base/arena.h): a byte of text may become a token with ids, spans and marks,
 * and on output a name, an id and two offsets. */
enum { BYTES_PER_BYTE = 96, BYTES_AT_LEAST = 1 << 20 };

enum status line_arenas_init(struct arena *scratch, struct arena *output, size_t max_text_bytes,
                             struct error *err) {
    const size_t bytes = max_text_bytes * BYTES_PER_BYTE + BYTES_AT_LEAST;
    const enum status s = arena_init(scratch, bytes, err);
    return s ? s : arena_init(output, bytes, err);
}
void line_write_error(struct json_writer *w, int64_t number, const struct error *why) {
    json_write_raw(w, "{\"line\":");
    json_write_int(w, number);
    json_write_raw(w, ",\"error\":");
    json_write_string(w, why->text, strlen(why->text));
    json_write_raw(w, "}\n");
}
enum status line_put(const struct json_writer *w, struct error *err) {
    if (w->failed) {
        return error_set(err, STATUS_NO_MEMORY, "a line of output is too long");
    }
    if (fwrite(w->data, 1, w->len, stdout) != w->len) {
        return error_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    }
    return STATUS_OK;
}
enum status line_flush(struct error *err) {
    return fflush(stdout) ? error_set(err, STATUS_IO, "standard output: %s", strerror(errno))
                          : STATUS_OK;
}
