/* internal.h - what the files of this folder share: the tokenizer's own struct and its parts. */
#ifndef BERTH_TOKENIZER_INTERNAL_H
#define BERTH_TOKENIZER_INTERNAL_H
#include "tokenizer/charmap.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

/* A token beside the model's vocabulary, found in the text before words are. */
struct added_token {
    char *content; // owns
    int32_t id;
    bool single_word, lstrip, rstrip;
    bool normalized; // looked for in the normalized text, else in the source
    bool special;
};
struct added_set {    // those that are looked for in one of the two
    struct trie trie; // to indices into tokenizer.added
    int n;
    uint8_t first[256]; // whether one begins with this byte
    int only_first;     // that byte, when there is one only; else -1
};
/* One step of a template: a special token, or one of the texts. */
struct template_part {
    enum { PART_TOKEN, PART_FIRST, PART_SECOND } what;
    int32_t id, type_id;
};
struct template {
    struct template_part *parts; // owns
    int n_parts, n_special, n_types;
};
struct tokenizer {
    struct charmap chars;
    uint8_t ascii_kind[256];  // enum char_kind, or ASCII_HARD
    uint8_t ascii_lower[256]; // what a CHAR_TEXT or CHAR_PUNCT byte becomes
    struct trie vocab;
    uint32_t continuing; // the trie's state after the prefix ("##"), or TRIE_NONE
    size_t max_word_chars;
    int32_t unk_id;
    char **tokens; // owns, [n_tokens], NULL where an id has none
    char *pool;    // owns the bytes of the vocabulary's
    int n_tokens;
    struct added_token *added; // owns
    int n_added;
    struct added_set in_source, in_normalized;
    struct template single, pair;
    int32_t pad_id;
    int max_length;
};
enum { ASCII_HARD = 255 }; // needs the general path

/* added.c */
MUST_CHECK enum status added_init(struct tokenizer *t, const char *file, struct error *err);
void added_set_finish(struct added_set *s);
struct added_match {
    size_t start, end; // bytes
    const struct added_token *token;
};
/* Calls back, in order, for every stretch of text[0, len) between added tokens, and for every added
 * token with the space it takes in. `self` is handed through. */
struct added_visitor {
    void (*between)(void *self, size_t start, size_t end);
    void (*token)(void *self, const struct added_token *token, size_t start, size_t end);
    void *self;
};
void added_split(const struct tokenizer *t, const struct added_set *set, const uint8_t *text,
                 size_t len, const struct added_visitor *visitor);

/* words.c */
struct token {
    int32_t id, start, end;
};
/* Normalized bytes, each with the source bytes [start, end) of its code point. */
struct norm_text {
    uint8_t *bytes;
    int32_t *start, *end;
    size_t n, room;
};
/* Tokens of one encoding as they are made, in one piece of the arena that grows in place. */
struct walk {
    const struct tokenizer *t;
    struct arena *arena;
    unsigned char *block; // the piece: norm's arrays, then the tokens
    size_t tokens_at;     // bytes
    size_t room;          // tokens
    bool full;            // the arena is; what was made so far is worthless
    struct norm_text norm;
    const uint8_t *text; // the one being read
    size_t piece_begin;
    size_t n_word_chars; // of the word that is being collected in `norm`
    int32_t word_end;    // where it ends in the text, also when it is too long to be kept
    size_t base;         // tokens of the text before this one that are kept
    size_t n, cap;       // tokens of this one: made, and kept at most
};
static inline struct token *walk_tokens(const struct walk *w) {
    return (struct token *)(void *)(w->block + w->tokens_at);
}
MUST_CHECK bool walk_init(struct walk *w, const struct tokenizer *t, struct arena *arena,
                          size_t longest_text);
/* Tokenizes one text; tokens go behind `base`. */
void walk_text(struct walk *w, const struct text *text);
#endif
