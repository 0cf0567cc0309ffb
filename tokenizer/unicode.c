/* unicode.c - facts about code points: utf8proc's tables, corrected by unicode_delta.h.
 * The reference takes each property from another library and another Unicode version; the rows list
 * every code point where that matters, and every one that the oldest supported utf8proc does not
 * know, so that ids do not depend on the installed version. Asked only while a tokenizer is opened:
 * charmap.c keeps the answers. */
#include "tokenizer/unicode.h"

#include <stdbool.h>
#include <utf8proc.h>

#include "base/status.h"
#include "tokenizer/unicode_delta.h"

static const struct unicode_row *row_find(uint32_t cp) {
    size_t low = 0, high = N_ITEMS(unicode_delta);
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (unicode_delta[mid].last < cp) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    const bool found = low < N_ITEMS(unicode_delta) && unicode_delta[low].first <= cp;
    return found ? &unicode_delta[low] : NULL;
}

static bool is_ascii_punct(uint32_t cp) {
    return (cp > 32 && cp < 48) || (cp > 57 && cp < 65) || (cp > 90 && cp < 97) ||
           (cp > 122 && cp < 127);
}

static unsigned facts_of(uint32_t cp, utf8proc_category_t cat) {
    unsigned facts = 0;
    switch (cat) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: facts = UNICODE_SPACE; break;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO: facts = UNICODE_DROP; break;
    case UTF8PROC_CATEGORY_MN: facts = UNICODE_MARK | UNICODE_WORD; break;
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL: facts = UNICODE_WORD; break;
    case UTF8PROC_CATEGORY_PC: facts = UNICODE_WORD | UNICODE_PUNCT; break;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: facts = UNICODE_PUNCT; break;
    default: break;
    }
    if (cp == '\t' || cp == '\n' || cp == '\r') {
        facts = UNICODE_SPACE; // control characters that clean_text keeps, as spaces
    } else if ((cp >= 9 && cp <= 13) || cp == 0x85) {
        facts |= UNICODE_SPACE;
    } else if (cp == 0xFFFD) {
        facts |= UNICODE_DROP;
    }
    return is_ascii_punct(cp) ? facts | UNICODE_PUNCT : facts;
}

/* Hangul syllables are decomposed by arithmetic, everything else by table. */
static bool may_decompose(uint32_t cp, const utf8proc_property_t *p) {
    return p->decomp_seqindex != UINT16_MAX || (cp >= 0xAC00 && cp <= 0xD7A3);
}

void unicode_facts(struct unicode_row *out, uint32_t cp) {
    const struct unicode_row *row = row_find(cp);
    if (row) {
        *out = *row;
        return;
    }
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    const bool has_case = p->lowercase_seqindex != UINT16_MAX;
    *out = (struct unicode_row){
        .first = cp,
        .last = cp,
        .facts = (uint8_t)(facts_of(cp, (utf8proc_category_t)p->category) |
                           (may_decompose(cp, p) ? UNICODE_DECOMPOSES : 0)),
        .combining_class = (uint8_t)p->combining_class,
        .to_lower = has_case ? utf8proc_tolower((utf8proc_int32_t)cp) - (utf8proc_int32_t)cp : 0,
    };
}

size_t unicode_decompose(uint32_t out[MAX_DECOMPOSED], uint32_t cp,
                         const struct unicode_row *facts) {
    utf8proc_int32_t parts[MAX_DECOMPOSED];
    int last_class = 0;
    out[0] = cp;
    if (!(facts->facts & UNICODE_DECOMPOSES)) {
        return 1;
    }
    const utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, MAX_DECOMPOSED,
                                                       UTF8PROC_DECOMPOSE, &last_class);
    if (n < 1 || n > MAX_DECOMPOSED) {
        return 1; // no canonical decomposition is that long
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        out[i] = (uint32_t)parts[i];
    }
    return (size_t)n;
}

size_t unicode_lower(uint32_t out[2], uint32_t cp, const struct unicode_row *facts) {
    out[0] = cp + (uint32_t)facts->to_lower;
    out[1] = 0x307;             // only U+0130, the dotted capital I, becomes two:
    return cp == 0x130 ? 2 : 1; // i and a combining dot (SpecialCasing.txt)
}
