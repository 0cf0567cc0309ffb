/* tokenizer.h - text to token ids, as the model's own tokenizer files say.
 * Threads: a tokenizer is read-only after tokenizer_open(); encode from any thread.
 * Memory:  tokenizer_open() allocates; tokenizer_encode() takes all it needs from the caller's
 *          arena, and leaves only the encoding there.
 * Time:    linear in the bytes of the input, whatever they are. */
#ifndef BERTH_TOKENIZER_TOKENIZER_H
#define BERTH_TOKENIZER_TOKENIZER_H
#include "base/arena.h"
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tokenizer; // opaque: vocabulary trie, normalizer switches, special tokens, template

/* Reads DIR/tokenizer.json, or, where there is none, DIR/vocab.txt and DIR/tokenizer_config.json.
 * Truncation and padding that tokenizer.json may carry from training are left out: the caller has
 * its own rules. Errors: STATUS_IO, STATUS_INVALID, naming file, field and what was expected. */
MUST_CHECK enum status tokenizer_open(struct tokenizer **out, const char *dir, struct error *err);
void tokenizer_close(struct tokenizer *t); // takes NULL

struct text { // borrowed, valid UTF-8, need not end in NUL
    const char *bytes;
    size_t len;
};
/* Which part of the input is cut off when it is too long. Of a pair, the shorter text keeps all it
 * can; when both must shrink they share the room, and an odd token goes to the longer (on ties to
 * the second), as in `tokenizers`. */
enum truncation_side { TRUNCATE_RIGHT, TRUNCATE_LEFT };
struct encode_options {
    int max_tokens; // special tokens counted; 0: no limit
    bool truncate;  // false: too long is an error
    enum truncation_side side;
    bool add_special_tokens;
    bool want_spans;
};
struct span { // UTF-8 bytes [start, end) of the text the token came from; special tokens: 0, 0
    int32_t start, end;
};
struct encoding {                        // arrays borrowed from the arena
    int32_t *token_ids, *token_type_ids; // [n_tokens]
    struct span *spans;                  // [n_tokens]; NULL unless wanted
    uint8_t *is_special; // [n_tokens], added by the template; NULL unless spans are wanted
    uint8_t *sequence;   // [n_tokens], 0: first text, 1: second; NULL unless wanted
    int n_tokens;
    int64_t n_tokens_uncut; // what it would have been without a limit
};
/* Encodes `first`, or the pair of `first` and `second` (NULL: no pair). Errors: STATUS_TOO_LONG
 * when max_tokens is passed and truncate is false (out->n_tokens_uncut is set, the reason has both
 * counts) or when max_tokens leaves no room for the special tokens, STATUS_NO_MEMORY when the arena
 * is full. Special tokens written out in the text are recognised, as `tokenizers` does. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *t, struct encoding *out,
                                        const struct text *first, const struct text *second,
                                        const struct encode_options *opt, struct arena *arena,
                                        struct error *err);

int tokenizer_vocab_size(const struct tokenizer *t); // ids are below this
const char *tokenizer_token(const struct tokenizer *t,
                            int32_t id);                       // the entry, "##ing"; NULL: none
int tokenizer_n_special(const struct tokenizer *t, bool pair); // tokens the template adds
int tokenizer_n_types(const struct tokenizer *t, bool pair);   // token_type_ids are below this
int32_t tokenizer_pad_id(const struct tokenizer *t);           // 0 where none is named
int tokenizer_max_length(
    const struct tokenizer *t); // tokenizer_config.json's model_max_length; 0: not said
#endif
