/* charmap.h - the normalizer, worked out in advance for every code point, and its rare hard case.
 * BERT's normalizer cleans, spaces CJK, decomposes and strips accents, and lower-cases. For nearly
 * every code point the outcome does not depend on its neighbours, so it is one table entry.
 * Threads: read-only once built. */
#ifndef BERTH_TOKENIZER_CHARMAP_H
#define BERTH_TOKENIZER_CHARMAP_H
#include <stdbool.h>
#include <stdint.h>

#include "tokenizer/unicode.h"

enum char_kind {
    CHAR_TEXT,  // becomes one code point, part of a word
    CHAR_SPACE, // becomes one, which ends a word
    CHAR_PUNCT, // becomes one, a word of its own
    CHAR_CJK,   // the same, with spaces around
    CHAR_DROP,  // removed before anything else looks at it
    CHAR_EMPTY, // an accent that is stripped
    CHAR_SEQ,   // becomes several
    CHAR_RUN    // a mark stays, so that canonical order has to be made: normalize_run()
};
/* An entry, 32 bits: its kind, facts about the code point itself (not what it becomes), and above
 * them the distance to what it becomes, or for _EMPTY, _SEQ and _RUN an index into `items`. */
enum {
    ENTRY_KIND = 7,
    ENTRY_IS_SPACE = 8,
    ENTRY_IS_PUNCT = 16,
    ENTRY_IS_WORD = 32,
    ENTRY_SHIFT = 8
};
/* At `items[index]` is a count, then that many of these. */
enum {
    ITEM_CODE_POINT = 0x1FFFFF,
    ITEM_FOLLOWS = 1 << 21, // not the first of its character
    ITEM_STAYS = 1 << 22,   // not stripped
    ITEM_CLASS_SHIFT = 24   // combining class before lower-casing
};
struct norm_switches {
    bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};
struct charmap {
    struct norm_switches on;
    uint32_t *entries; // owns, [N_CODE_POINTS]
    uint32_t *items;   // owns
    size_t n_items, items_room;
    size_t max_growth; // bytes out for one byte in, at most
};
void charmap_init(struct charmap *m, struct norm_switches on); // start-up only
void charmap_finish(struct charmap *m);                        // takes a zeroed map too

static inline uint32_t entry_of(const struct charmap *m, uint32_t cp) {
    return m->entries[cp];
}
static inline enum char_kind entry_kind(uint32_t entry) {
    return (enum char_kind)(entry & ENTRY_KIND);
}
static inline uint32_t entry_becomes(uint32_t entry, uint32_t cp) {
    return (cp + (entry >> ENTRY_SHIFT)) & 0xFFFFFF;
}

/* Where normalized code points go, each with the bytes [start, end) that it stands for. */
struct norm_sink {
    void (*push)(void *self, uint32_t cp, size_t start, size_t end);
    void *self;
};
/* Pushes what the code point at `at` in text[begin, end) becomes. A run of marks is pushed as a
 * whole. Returns the position after what was pushed. */
size_t normalize_at(const struct charmap *m, const uint8_t *text, size_t begin, size_t at,
                    size_t end, const struct norm_sink *sink);
#endif
