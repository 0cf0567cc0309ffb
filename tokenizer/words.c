/* words.c - text to tokens: added tokens, then words, then the longest vocabulary entries in each.
 * A word that is ASCII throughout is matched where it lies in the text, through a byte table. Any
 * other is collected, normalized, in w->norm, with the source position of every byte, and matched
 * there. Tokenizers with added tokens that are looked for in the normalized text have the whole
 * stretch normalized first. Nothing is allocated but the one growing piece of the arena. */
#include <string.h>

#include "tokenizer/internal.h"

enum { FIRST_ROOM = 64 }; // tokens

bool walk_init(struct walk *w, const struct tokenizer *t, struct arena *arena,
               size_t longest_text) {
    const size_t whole = longest_text * t->chars.max_growth;
    const size_t word = (t->max_word_chars + 1) * 4;
    const size_t room = t->in_normalized.n || word > whole ? whole : word;
    const size_t bytes = (room + 7) / 8 * 8;
    *w = (struct walk){.t = t, .arena = arena, .room = FIRST_ROOM};
    w->tokens_at = bytes * (1 + 2 * sizeof(int32_t));
    w->block = arena_alloc(arena, w->tokens_at + w->room * sizeof(struct token), 1);
    if (!w->block) {
        return false;
    }
    w->norm.room = room;
    w->norm.start = (int32_t *)(void *)w->block;
    w->norm.end = w->norm.start + bytes;
    w->norm.bytes = (uint8_t *)(w->norm.end + bytes);
    return true;
}

/* Where the next tokens go, with room for n; NULL: the arena is full. Beyond the cap they are made,
 * to be counted, but each word overwrites the one before. */
static struct token *reserve(struct walk *w, size_t n) {
    const size_t at = w->base + (w->n < w->cap ? w->n : w->cap);
    const size_t need = at + n;
    if (need > w->room && !w->full) {
        const size_t more = need + need / 2, left = w->arena->capacity / sizeof(struct token);
        const size_t tries[] = {more, need};
        w->full = true;
        for (size_t i = 0; i < N_ITEMS(tries) && w->full && tries[i] <= left; i++) {
            if (arena_resize_last(w->arena, w->block,
                                  w->tokens_at + tries[i] * sizeof(struct token), 1)) {
                w->room = tries[i];
                w->full = false;
            }
        }
    }
    return w->full ? NULL : walk_tokens(w) + at;
}

/* The longest entry in bytes[0, n) from `state`; returns its bytes, 0: none. */
static inline size_t longest(const struct trie *vocab, uint32_t state, const uint8_t *bytes,
                             size_t n, const uint8_t *map, int32_t *id) {
    size_t match = 0;
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        state = trie_step(vocab, state, map ? map[bytes[i]] : bytes[i]);
        if (state == TRIE_NONE) {
            break;
        }
        if (trie_is_entry(vocab, state)) {
            match = i + 1;
            found = state;
        }
    }
    *id = vocab->ids[found];
    return match;
}

/* Tokens of the word bytes[0, n), positions counted from its first byte. Returns how many. */
static inline size_t match_word(const struct tokenizer *t, struct token *out, const uint8_t *bytes,
                                size_t n, const uint8_t *map) {
    size_t n_tokens = 0, at = 0;
    uint32_t state = TRIE_ROOT;
    while (at < n) {
        int32_t id;
        const size_t match =
            state == TRIE_NONE ? 0 : longest(&t->vocab, state, bytes + at, n - at, map, &id);
        if (!match) {
            out[0] = (struct token){t->unk_id, 0, (int32_t)n};
            return 1;
        }
        out[n_tokens] = (struct token){id, (int32_t)at, (int32_t)(at + match)};
        n_tokens++;
        at += match;
        state = t->continuing;
    }
    return n_tokens;
}

static void ascii_word(struct walk *w, size_t start, size_t end) {
    const size_t n = end - start;
    struct token *out = reserve(w, n > w->t->max_word_chars ? 1 : n);
    if (!out) {
        return;
    }
    size_t n_tokens = 1;
    if (n > w->t->max_word_chars) {
        out[0] = (struct token){w->t->unk_id, 0, (int32_t)n};
    } else {
        n_tokens = match_word(w->t, out, w->text + start, n, w->t->ascii_lower);
    }
    for (size_t i = 0; i < n_tokens; i++) {
        out[i].start += (int32_t)start;
        out[i].end += (int32_t)start;
    }
    w->n += n_tokens;
}

/* The word norm[from, to), of n_chars code points; its last ends at `end` in the text. */
static void normalized_word(struct walk *w, size_t from, size_t to, size_t n_chars, int32_t end) {
    const struct norm_text *norm = &w->norm;
    const bool too_long = n_chars > w->t->max_word_chars;
    struct token *out = reserve(w, too_long ? 1 : to - from);
    if (!out) {
        return;
    }
    size_t n_tokens = 1;
    if (too_long) {
        out[0] = (struct token){w->t->unk_id, norm->start[from], end};
    } else {
        n_tokens = match_word(w->t, out, norm->bytes + from, to - from, NULL);
        for (size_t i = 0; i < n_tokens; i++) {
            out[i].start = norm->start[from + (size_t)out[i].start];
            out[i].end = norm->end[from + (size_t)out[i].end - 1];
        }
    }
    w->n += n_tokens;
}

static void norm_push(void *self, uint32_t cp, size_t start, size_t end) {
    struct norm_text *t = self;
    const size_t n = utf8_write(t->bytes + t->n, cp);
    for (size_t i = 0; i < n; i++) {
        t->start[t->n + i] = (int32_t)start;
        t->end[t->n + i] = (int32_t)end;
    }
    t->n += n;
}

static void word_flush(struct walk *w) {
    if (w->n_word_chars) {
        normalized_word(w, 0, w->norm.n, w->n_word_chars, w->word_end);
        w->norm.n = w->n_word_chars = 0;
    }
}

static inline void word_append(struct walk *w, uint32_t cp, size_t start, size_t end) {
    if (w->n_word_chars < w->t->max_word_chars || !w->norm.n) {
        norm_push(&w->norm, cp, start, end);
    }
    w->n_word_chars++;
    w->word_end = (int32_t)end;
}

static void word_push(void *self, uint32_t cp, size_t start, size_t end) {
    struct walk *w = self;
    const uint32_t e = entry_of(&w->t->chars, cp);
    if (e & (ENTRY_IS_SPACE | ENTRY_IS_PUNCT)) {
        word_flush(w);
    }
    if (!(e & ENTRY_IS_SPACE)) {
        word_append(w, cp, start, end);
    }
    if (e & ENTRY_IS_PUNCT) {
        word_flush(w);
    }
}

/* One code point, or one run of marks, of text[piece_begin, end); returns the position after. */
static size_t general_char(struct walk *w, size_t at, size_t end) {
    const struct charmap *m = &w->t->chars;
    const struct norm_sink sink = {word_push, w};
    uint32_t cp;
    const size_t next = at + utf8_read(&cp, w->text + at, w->text + end);
    const uint32_t e = entry_of(m, cp);
    switch (entry_kind(e)) {
    case CHAR_TEXT: word_append(w, entry_becomes(e, cp), at, next); break;
    case CHAR_SPACE: word_flush(w); break;
    case CHAR_PUNCT:
    case CHAR_CJK:
        word_flush(w);
        word_push(w, entry_becomes(e, cp), at, next);
        word_flush(w);
        break;
    case CHAR_DROP:
    case CHAR_EMPTY: break;
    default: return normalize_at(m, w->text, w->piece_begin, at, end, &sink);
    }
    return next;
}

/* Words of text[begin, end) for tokenizers that look for nothing in the normalized text. */
static void piece_to_words(struct walk *w, size_t begin, size_t end) {
    const uint8_t *kind = w->t->ascii_kind;
    w->piece_begin = begin;
    for (size_t at = begin; at < end && !w->full;) {
        const uint8_t k = kind[w->text[at]];
        size_t stop = at + 1;
        if (k == CHAR_SPACE) {
            word_flush(w);
        } else if (k == CHAR_PUNCT) {
            word_flush(w);
            ascii_word(w, at, stop);
        } else if (k == CHAR_TEXT && !w->n_word_chars) {
            while (stop < end && kind[w->text[stop]] == CHAR_TEXT) {
                stop++;
            }
            if (stop == end || kind[w->text[stop]] != ASCII_HARD) {
                ascii_word(w, at, stop);
            } else {
                for (size_t i = at; i < stop; i++) {
                    word_append(w, w->t->ascii_lower[w->text[i]], i, i + 1);
                }
            }
        } else {
            stop = general_char(w, at, end);
        }
        at = stop;
    }
    word_flush(w);
}

/* Words of the normalized stretch norm[begin, end). */
static void normalized_to_words(void *self, size_t begin, size_t end) {
    struct walk *w = self;
    const uint8_t *bytes = w->norm.bytes;
    size_t word = begin, n_chars = 0;
    for (size_t at = begin; at < end && !w->full;) {
        uint32_t cp;
        const size_t next = at + utf8_read(&cp, bytes + at, bytes + end);
        const uint32_t e = entry_of(&w->t->chars, cp);
        if (e & (ENTRY_IS_SPACE | ENTRY_IS_PUNCT)) {
            if (n_chars) {
                normalized_word(w, word, at, n_chars, w->norm.end[at - 1]);
            }
            if (!(e & ENTRY_IS_SPACE)) {
                normalized_word(w, at, next, 1, w->norm.end[next - 1]);
            }
            word = next;
            n_chars = 0;
        } else {
            n_chars++;
        }
        at = next;
    }
    if (n_chars) {
        normalized_word(w, word, end, n_chars, w->norm.end[end - 1]);
    }
}

static void push_added(struct walk *w, const struct added_token *token, int32_t start,
                       int32_t end) {
    struct token *out = reserve(w, 1);
    if (out) {
        *out = (struct token){token->id, start, end};
        w->n++;
    }
}

static void added_in_normalized(void *self, const struct added_token *token, size_t start,
                                size_t end) {
    struct walk *w = self;
    push_added(w, token, w->norm.start[start], w->norm.end[end - 1]);
}

static void added_in_source(void *self, const struct added_token *token, size_t start, size_t end) {
    push_added(self, token, (int32_t)start, (int32_t)end);
}

static void between_in_source(void *self, size_t begin, size_t end) {
    struct walk *w = self;
    if (!w->t->in_normalized.n) {
        piece_to_words(w, begin, end);
        return;
    }
    const struct norm_sink sink = {norm_push, &w->norm};
    const struct added_visitor visitor = {normalized_to_words, added_in_normalized, w};
    w->norm.n = 0;
    for (size_t at = begin; at < end;) {
        at = normalize_at(&w->t->chars, w->text, begin, at, end, &sink);
    }
    added_split(w->t, &w->t->in_normalized, w->norm.bytes, w->norm.n, &visitor);
    w->norm.n = 0;
}

void walk_text(struct walk *w, const struct text *text) {
    const struct added_visitor visitor = {between_in_source, added_in_source, w};
    w->text = (const uint8_t *)text->bytes;
    w->n = w->norm.n = w->n_word_chars = 0;
    added_split(w->t, &w->t->in_source, w->text, text->len, &visitor);
}
