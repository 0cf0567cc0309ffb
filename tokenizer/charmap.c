/* charmap.c - works the normalizer out for every code point, when a tokenizer is opened.
 * The steps are those of the reference, in its order: clean (drop, or make a space), mark CJK,
 * decompose and strip category Mn, lower-case; each later step sees what the earlier one left.
 * 4.4 MB, of which a text touches the few pages of its scripts. */
#include "tokenizer/charmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static bool is_cjk(uint32_t cp) {
    static const uint32_t blocks[][2] = {
        {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
        {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; i < N_ITEMS(blocks); i++) {
        if (cp >= blocks[i][0] && cp <= blocks[i][1]) {
            return true;
        }
    }
    return false;
}

/* What one code point becomes. */
struct outcome {
    uint32_t items[MAX_DECOMPOSED]; // as in struct charmap
    size_t n_items, n_stay;
    bool has_run; // a mark stays
};

static void outcome_add(struct outcome *o, uint32_t cp, unsigned class, bool stays) {
    if (o->n_items == MAX_DECOMPOSED) {
        return; // the longest canonical decomposition has four, so this is not reached
    }
    o->items[o->n_items] = cp | (uint32_t) class << ITEM_CLASS_SHIFT |
                           (o->n_items ? ITEM_FOLLOWS : 0U) | (stays ? ITEM_STAYS : 0U);
    o->n_items++;
    o->n_stay += stays;
    o->has_run |= stays && class;
}

static void decompose(struct outcome *o, const struct norm_switches *on, uint32_t cp,
                      const struct unicode_row *facts) {
    uint32_t parts[MAX_DECOMPOSED] = {cp}, low[2];
    const size_t n = on->strip_accents ? unicode_decompose(parts, cp, facts) : 1;
    for (size_t i = 0; i < n; i++) {
        struct unicode_row part = *facts;
        if (parts[i] != cp) {
            unicode_facts(&part, parts[i]);
        }
        const bool stays = !(on->strip_accents && (part.facts & UNICODE_MARK));
        const unsigned class = on->strip_accents ? part.combining_class : 0;
        const size_t n_low = on->lowercase ? unicode_lower(low, parts[i], &part) : 0;
        outcome_add(o, n_low ? low[0] : parts[i], class, stays);
        if (n_low == 2) {
            outcome_add(o, low[1], 0, stays);
        }
    }
}

static uint32_t add_items(struct charmap *m, const struct outcome *o) {
    if (m->n_items + o->n_items + 1 > m->items_room) {
        const size_t room = m->items_room * 2 + 4096;
        uint32_t *items = xcalloc(room, sizeof(*items));
        if (m->n_items) {
            memcpy(items, m->items, m->n_items * sizeof(*items));
        }
        free(m->items);
        m->items = items;
        m->items_room = room;
    }
    const uint32_t at = (uint32_t)m->n_items;
    m->items[at] = (uint32_t)o->n_items;
    memcpy(m->items + at + 1, o->items, o->n_items * sizeof(*o->items));
    m->n_items += o->n_items + 1;
    return at;
}

static enum char_kind kind_of_one(uint32_t becomes, uint32_t cp, struct unicode_row facts) {
    if (becomes != cp) {
        unicode_facts(&facts, becomes);
    }
    return facts.facts & UNICODE_SPACE   ? CHAR_SPACE
           : facts.facts & UNICODE_PUNCT ? CHAR_PUNCT
                                         : CHAR_TEXT;
}

static uint32_t entry_with(enum char_kind kind, uint32_t value) {
    return (uint32_t)kind | value << ENTRY_SHIFT;
}

static uint32_t work_out(struct charmap *m, uint32_t cp, const struct unicode_row *facts) {
    struct outcome o = {.n_items = 0};
    if (m->on.clean_text && (facts->facts & UNICODE_DROP)) {
        return entry_with(CHAR_DROP, 0);
    }
    if (m->on.clean_text && (facts->facts & UNICODE_SPACE)) {
        return entry_with(CHAR_SPACE, (uint32_t)' ' - cp);
    }
    decompose(&o, &m->on, cp, facts);
    if (o.has_run || o.n_stay != 1) {
        const enum char_kind kind = o.has_run ? CHAR_RUN : o.n_stay ? CHAR_SEQ : CHAR_EMPTY;
        return entry_with(kind, add_items(m, &o));
    }
    size_t i = 0;
    while (!(o.items[i] & ITEM_STAYS)) {
        i++;
    }
    const uint32_t becomes = o.items[i] & ITEM_CODE_POINT;
    const bool cjk = m->on.handle_chinese_chars && is_cjk(cp);
    return entry_with(cjk ? CHAR_CJK : kind_of_one(becomes, cp, *facts), becomes - cp);
}

static size_t bytes_out(const struct charmap *m, uint32_t entry, uint32_t cp) {
    uint8_t out[4];
    size_t bytes = 0;
    switch (entry_kind(entry)) {
    case CHAR_DROP:
    case CHAR_EMPTY: return 0;
    case CHAR_SEQ:
    case CHAR_RUN: break;
    default: return utf8_write(out, entry_becomes(entry, cp)) + 2 * (entry_kind(entry) == CHAR_CJK);
    }
    const uint32_t *items = m->items + (entry >> ENTRY_SHIFT);
    for (uint32_t i = 1; i <= items[0]; i++) {
        bytes += utf8_write(out, items[i] & ITEM_CODE_POINT);
    }
    return bytes;
}

static void note_growth(struct charmap *m, uint32_t cp) {
    uint8_t in[4];
    const size_t n_in = utf8_write(in, cp), n_out = bytes_out(m, m->entries[cp], cp);
    const size_t growth = (n_out + n_in - 1) / n_in;
    m->max_growth = growth > m->max_growth ? growth : m->max_growth;
}

/* Nine in ten code points stand for themselves, whatever is switched on. */
static bool is_plain(const struct unicode_row *facts) {
    const unsigned changed = UNICODE_DROP | UNICODE_SPACE | UNICODE_MARK | UNICODE_DECOMPOSES;
    return !(facts->facts & changed) && !facts->combining_class && !facts->to_lower;
}

static uint32_t plain_entry(const struct charmap *m, uint32_t cp, const struct unicode_row *facts) {
    if (m->on.handle_chinese_chars && is_cjk(cp)) {
        return entry_with(CHAR_CJK, 0);
    }
    return entry_with(facts->facts & UNICODE_PUNCT ? CHAR_PUNCT : CHAR_TEXT, 0);
}

/* Most of the code space is long rows of unassigned code points: what the first of a row becomes
 * holds for all, where it is a plain entry that does not name it. Returns the last one filled. */
static uint32_t fill_like(struct charmap *m, uint32_t cp, const struct unicode_row *facts) {
    const enum char_kind kind = entry_kind(m->entries[cp]);
    const bool plain =
        kind <= CHAR_DROP && !facts->to_lower && !(facts->facts & UNICODE_DECOMPOSES);
    const bool cjk = is_cjk(cp);
    while (plain && cp < facts->last && is_cjk(cp + 1) == cjk) {
        m->entries[cp + 1] = m->entries[cp];
        cp++;
    }
    return cp;
}

void charmap_init(struct charmap *m, struct norm_switches on) {
    *m = (struct charmap){.on = on, .max_growth = 1};
    m->entries = xcalloc(N_CODE_POINTS, sizeof(*m->entries));
    for (uint32_t cp = 0; cp < N_CODE_POINTS; cp++) {
        struct unicode_row facts;
        unicode_facts(&facts, cp);
        const bool plain = is_plain(&facts);
        m->entries[cp] = (plain ? plain_entry(m, cp, &facts) : work_out(m, cp, &facts)) |
                         (facts.facts & UNICODE_SPACE ? ENTRY_IS_SPACE : 0U) |
                         (facts.facts & UNICODE_PUNCT ? ENTRY_IS_PUNCT : 0U) |
                         (facts.facts & UNICODE_WORD ? ENTRY_IS_WORD : 0U);
        if (!plain || entry_kind(m->entries[cp]) == CHAR_CJK) {
            note_growth(m, cp);
        }
        cp = fill_like(m, cp, &facts);
    }
}

void charmap_finish(struct charmap *m) {
    free(m->entries);
    free(m->items);
    *m = (struct charmap){.entries = NULL};
}
