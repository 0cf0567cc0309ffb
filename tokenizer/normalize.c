/* normalize.c - one code point, or one run of combining marks, to what the normalizer makes of it.
 * The hard case is a mark that accent stripping leaves (category Mc, or younger than the
 * reference's tables): canonical order then sorts the marks after a starter by combining class, and
 * the reference hands out source positions in the sorted order, one to each first part of a
 * decomposition. Both are done without a buffer: one pass over the run for each class present, so
 * a text that is nothing but marks takes linear time and no memory. */
#include "tokenizer/charmap.h"

struct run {
    const struct charmap *map;
    const uint8_t *text;
    size_t begin, end; // of the source bytes; the first character may be the starter
    bool has_starter;
};

static bool is_member(const struct charmap *m, uint32_t entry) { // begins with a combining mark
    const enum char_kind kind = entry_kind(entry);
    return (kind == CHAR_EMPTY || kind == CHAR_RUN) &&
           m->items[(entry >> ENTRY_SHIFT) + 1] >> ITEM_CLASS_SHIFT;
}

static size_t step_back(const uint8_t *text, size_t begin, size_t at) {
    do {
        at--;
    } while (at > begin && (text[at] & 0xC0) == 0x80);
    return at;
}

/* From the first mark that stays, back to the starter before it, over stripped ones. */
static void find_run(struct run *r, size_t begin, size_t at, size_t end) {
    uint32_t cp;
    r->begin = at;
    utf8_read(&cp, r->text + at, r->text + end);
    r->has_starter = !is_member(r->map, entry_of(r->map, cp));
    while (!r->has_starter && r->begin > begin) {
        r->begin = step_back(r->text, begin, r->begin);
        utf8_read(&cp, r->text + r->begin, r->text + end);
        const uint32_t e = entry_of(r->map, cp);
        r->has_starter = !is_member(r->map, e) && entry_kind(e) != CHAR_DROP;
    }
    for (r->end = at; r->end < end;) {
        const size_t n = utf8_read(&cp, r->text + r->end, r->text + end);
        const uint32_t e = entry_of(r->map, cp);
        if (r->end > at && !is_member(r->map, e) && entry_kind(e) != CHAR_DROP) {
            break;
        }
        r->end += n;
    }
}

/* The items of a character; `scratch` holds those that the map keeps no list of. */
static const uint32_t *items_of(const struct charmap *m, uint32_t cp, uint32_t *n,
                                uint32_t scratch[MAX_DECOMPOSED]) {
    const uint32_t e = entry_of(m, cp);
    const enum char_kind kind = entry_kind(e);
    if (kind == CHAR_EMPTY || kind == CHAR_SEQ || kind == CHAR_RUN) {
        *n = m->items[e >> ENTRY_SHIFT];
        return m->items + (e >> ENTRY_SHIFT) + 1;
    }
    struct unicode_row facts;
    unicode_facts(&facts, cp);
    *n = kind == CHAR_DROP || kind == CHAR_SPACE ? 0
                                                 : (uint32_t)unicode_decompose(scratch, cp, &facts);
    for (uint32_t i = 0; i < *n; i++) { // its marks are all stripped: only their classes count
        unicode_facts(&facts, scratch[i]);
        scratch[i] = (uint32_t)facts.combining_class << ITEM_CLASS_SHIFT | (i ? ITEM_FOLLOWS : 0U);
    }
    return scratch;
}

/* Source characters are handed out one by one, dropped ones left out. */
struct cursor {
    size_t start, next;
};
static void cursor_advance(struct cursor *c, const struct run *r) {
    uint32_t cp;
    do {
        c->start = c->next;
        c->next += utf8_read(&cp, r->text + c->start, r->text + r->end);
    } while (c->next < r->end && entry_kind(entry_of(r->map, cp)) == CHAR_DROP);
}

/* Calls for each combining item: pass 0 collects the classes; the others push one class. */
static void pass_over(const struct run *r, unsigned class, uint8_t present[256],
                      struct cursor *cursor, const struct norm_sink *sink) {
    for (size_t at = r->begin; at < r->end;) {
        uint32_t cp, n, scratch[MAX_DECOMPOSED];
        const size_t bytes = utf8_read(&cp, r->text + at, r->text + r->end);
        const uint32_t *items = items_of(r->map, cp, &n, scratch);
        for (uint32_t i = 0; i < n; i++) {
            const unsigned c = items[i] >> ITEM_CLASS_SHIFT;
            present[c] = 1;
            if (!class || c != class) {
                continue;
            }
            if (!(items[i] & ITEM_FOLLOWS)) {
                cursor_advance(cursor, r);
            }
            if (items[i] & ITEM_STAYS) {
                sink->push(sink->self, items[i] & ITEM_CODE_POINT, cursor->start, cursor->next);
            }
        }
        at += bytes;
    }
}

static size_t normalize_run(const struct charmap *m, const uint8_t *text, size_t begin, size_t at,
                            size_t end, const struct norm_sink *sink) {
    struct run r = {.map = m, .text = text};
    uint8_t present[256] = {0};
    find_run(&r, begin, at, end);
    struct cursor cursor = {r.begin, r.begin};
    if (r.has_starter) {
        cursor_advance(&cursor, &r);
    }
    if (r.has_starter && r.begin == at) { // its own starters have not been pushed yet
        uint32_t cp, n, scratch[MAX_DECOMPOSED];
        utf8_read(&cp, text + at, text + end);
        const uint32_t *items = items_of(m, cp, &n, scratch);
        for (uint32_t i = 0; i < n; i++) {
            if (!(items[i] >> ITEM_CLASS_SHIFT) && (items[i] & ITEM_STAYS)) {
                sink->push(sink->self, items[i] & ITEM_CODE_POINT, cursor.start, cursor.next);
            }
        }
    }
    pass_over(&r, 0, present, NULL, NULL);
    for (unsigned class = 1; class < 256; class ++) {
        if (present[class]) {
            pass_over(&r, class, present, &cursor, sink);
        }
    }
    return r.end;
}

size_t normalize_at(const struct charmap *m, const uint8_t *text, size_t begin, size_t at,
                    size_t end, const struct norm_sink *sink) {
    uint32_t cp;
    const size_t next = at + utf8_read(&cp, text + at, text + end);
    const uint32_t e = entry_of(m, cp);
    const uint32_t *items = m->items + (e >> ENTRY_SHIFT);
    switch (entry_kind(e)) {
    case CHAR_TEXT:
    case CHAR_SPACE:
    case CHAR_PUNCT: sink->push(sink->self, entry_becomes(e, cp), at, next); break;
    case CHAR_CJK:
        sink->push(sink->self, ' ', at, next);
        sink->push(sink->self, entry_becomes(e, cp), at, next);
        sink->push(sink->self, ' ', at, next);
        break;
    case CHAR_DROP:
    case CHAR_EMPTY: break;
    case CHAR_SEQ:
        for (uint32_t i = 1; i <= items[0]; i++) {
            if (items[i] & ITEM_STAYS) {
                sink->push(sink->self, items[i] & ITEM_CODE_POINT, at, next);
            }
        }
        break;
    case CHAR_RUN: return normalize_run(m, text, begin, at, end, sink);
    }
    return next;
}
