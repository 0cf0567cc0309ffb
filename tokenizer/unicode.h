/* unicode.h - what the tokenizer needs to know about one code point, as the reference sees it.
 * Facts come from utf8proc; unicode_delta.h wins where the reference's tables are of another age.
 * Threads: pure functions. */
#ifndef BERTH_TOKENIZER_UNICODE_H
#define BERTH_TOKENIZER_UNICODE_H
#include <stddef.h>
#include <stdint.h>

enum { N_CODE_POINTS = 0x110000, MAX_DECOMPOSED = 8 };

enum unicode_fact {
    UNICODE_DROP = 1,       // clean_text removes it
    UNICODE_SPACE = 2,      // White_Space
    UNICODE_PUNCT = 4,      // a word of its own
    UNICODE_MARK = 8,       // strip_accents removes it (category Mn)
    UNICODE_WORD = 16,      // \w, for single_word added tokens
    UNICODE_DECOMPOSES = 32 // in a row: utf8proc's decomposition holds
};
struct unicode_row { // facts of the code points first..last
    uint32_t first, last;
    uint8_t facts, combining_class;
    int32_t to_lower; // distance to the lower case
};
/* Fills `out`; first and last bound the code points around `cp` that are known to be like it. */
void unicode_facts(struct unicode_row *out, uint32_t cp);
/* The full canonical decomposition of a code point with these facts, at most MAX_DECOMPOSED code
 * points; returns how many. */
size_t unicode_decompose(uint32_t out[MAX_DECOMPOSED], uint32_t cp,
                         const struct unicode_row *facts);
/* The lower case of a code point with these facts, one or two; returns how many. */
size_t unicode_lower(uint32_t out[2], uint32_t cp, const struct unicode_row *facts);

/* Reads the code point at p < end into *cp and returns its bytes; never reads past `end`. What is
 * not UTF-8 counts as U+FFFD: the caller has checked, this only keeps memory safe. */
static inline size_t utf8_read(uint32_t *cp, const uint8_t *p, const uint8_t *end) {
    const uint32_t b = p[0];
    if (b < 0x80) {
        *cp = b;
        return 1;
    }
    if (b < 0xE0 && end - p >= 2) {
        *cp = (b & 0x1F) << 6 | (p[1] & 0x3F);
        return 2;
    }
    if (b >= 0xE0 && b < 0xF0 && end - p >= 3) {
        *cp = (b & 0xF) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
        return 3;
    }
    if (b >= 0xF0 && b < 0xF4 && end - p >= 4) {
        *cp = (b & 7) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
              (p[3] & 0x3F);
        return 4;
    }
    const int last_plane = b == 0xF4 && end - p >= 4 && p[1] < 0x90;
    *cp = last_plane ? 0x100000 | (uint32_t)(p[1] & 0xF) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
                           (p[3] & 0x3F)
                     : 0xFFFD;
    return last_plane ? 4 : 1;
}
static inline size_t utf8_write(uint8_t out[4], uint32_t cp) {
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (cp & 0x3F));
    return 4;
}
#endif
