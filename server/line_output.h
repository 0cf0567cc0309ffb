/* line_output.h - JSON lines on standard output: what `classify` and `tokenize` share. */
#ifndef BERTH_SERVER_LINE_OUTPUT_H
#define BERTH_SERVER_LINE_OUTPUT_H
#include "server/json.h"

/* The tokenizer's scratch memory for one text, and the room for one line of output. */
MUST_CHECK enum status line_arenas_init(struct arena *scratch, struct arena *output,
                                        size_t max_text_bytes, struct error *err);
/* {"line":3,"error":"the text is empty"} */
void line_write_error(struct json_writer *w, int64_t number, const struct error *why);
/* To standard output, buffered. Errors: STATUS_IO; STATUS_NO_MEMORY when the line did not fit. */
MUST_CHECK enum status line_put(const struct json_writer *w, struct error *err);
MUST_CHECK enum status line_flush(struct error *err);
#endif
