/* spec.h - between the loaders and the tokenizer: what a model's files say, whichever form they
 * have. The loaders fill it, tokenizer_build() turns it into a tokenizer. Start-up only. */
#ifndef BERTH_TOKENIZER_SPEC_H
#define BERTH_TOKENIZER_SPEC_H
#include "tokenizer/internal.h"

struct vocab_entry {
    const char *text; // in `pool`
    int32_t id;
};
struct tokenizer_spec { // owns everything
    char *pool;
    struct vocab_entry *vocab;
    size_t n_vocab;
    char *unk_token, *prefix, *pad_token;
    size_t max_word_chars;
    struct norm_switches norm;
    struct added_token *added; // ids as the file has them, -1: not said
    int n_added, added_room;
    struct template single, pair;
    int32_t pad_id;
    int max_length;
};
enum { MAX_VOCAB_IDS = 1 << 24 };
/* Takes over what it keeps of `spec`; the caller still calls spec_finish(). `file` is for errors.
 */
MUST_CHECK enum status tokenizer_build(struct tokenizer **out, struct tokenizer_spec *spec,
                                       const char *file, struct error *err);
void spec_finish(struct tokenizer_spec *spec);
struct added_token *spec_add_token(struct tokenizer_spec *spec, const char *content);
int32_t spec_find(const struct tokenizer_spec *spec, const char *token); // -1: none

/* Both read from memory: `json` and `vocab` need not end in NUL. `config_json` and `map_json`
 * (special_tokens_map.json) may be NULL. `dir` is put before the file names in errors. */
MUST_CHECK enum status tokenizer_from_json(struct tokenizer **out, const struct text *json,
                                           const struct text *config_json, const char *dir,
                                           struct error *err);
MUST_CHECK enum status tokenizer_from_vocab(struct tokenizer **out, const struct text *vocab,
                                            const struct text *config_json,
                                            const struct text *map_json, const char *dir,
                                            struct error *err);
#endif
