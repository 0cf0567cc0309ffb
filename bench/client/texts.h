/* texts.h - what the requests say: lines of a file in turn, or words drawn to a distribution of
 * lengths. Everything is made before the load starts; a request only borrows a slice.
 * Threads: read from any once made. */
#ifndef BERTH_BENCH_CLIENT_TEXTS_H
#define BERTH_BENCH_CLIENT_TEXTS_H
#include "base/status.h"
#include "batching/trace.h"
#include <stdint.h>

enum { TEXTS_MAX = 1 << 20, TEXTS_MAX_BYTES = 1 << 28, TEXT_MAX_BYTES = 1 << 20 };
enum { TEXT_SPECIAL_TOKENS = 2 }; // what a BERT tokenizer puts around a text
struct text_slice {
    const char *bytes; // escaped for a JSON string, borrowed
    int len;
    int n_words;
};
struct texts; // opaque
/* Every line is a text. STATUS_IO, STATUS_INVALID with the line: empty file, line that is empty,
 * too long or not UTF-8. */
MUST_CHECK enum status texts_read(struct texts **out, const char *path, struct error *err);
/* Texts of n - 2 short words, of which a BERT vocabulary has each, for n drawn from `lengths`. */
struct texts *texts_draw(const struct lengths *lengths, uint64_t seed);
void texts_destroy(struct texts *t); // takes NULL
struct text_slice texts_at(const struct texts *t, int64_t index);
/* For traces: a text of n_tokens, whichever way the lengths are drawn; of a file: texts_at(). */
struct text_slice texts_of_tokens(const struct texts *t, int64_t index, int n_tokens);

/* What lengths_named() knows, "bimodal:SHORT:LONG:SHARE_OF_LONG", or "file:PATH" with lines
 * "TOKENS,COUNT". Tokens, [CLS] and [SEP] counted, cut to
 * [3, max_tokens]. */
MUST_CHECK enum status text_lengths_parse(struct lengths *out, const char *text, int max_tokens,
                                          struct error *err);
#endif
