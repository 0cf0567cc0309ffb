/* added.c - finds added tokens ("[MASK]", "<user>") in a text.
 * A trie of them is tried wherever one may begin; the longest that matches wins and the search goes
 * on behind it. Time is bytes times the length of the longest added token, in practice one memchr
 * over the text, as special tokens begin with the same byte. The order of the rules (single_word,
 * then lstrip, then rstrip) is the reference's. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/internal.h"

static enum status set_init(struct tokenizer *t, struct added_set *s, bool normalized,
                            char *const *texts, const char *file, struct error *err) {
    struct trie_entry *entries = xcalloc((size_t)t->n_added, sizeof(*entries));
    enum status status = STATUS_OK;
    s->only_first = -1;
    for (int i = 0; i < t->n_added && !status; i++) {
        if (t->added[i].normalized != normalized) {
            continue;
        }
        const size_t len = strlen(texts[i]);
        if (!len) {
            status = error_set(err, STATUS_INVALID,
                               "%s: added_tokens: nothing is left of \"%s\" once it is normalized",
                               file, t->added[i].content);
            break;
        }
        for (int j = 0; j < s->n && !status; j++) {
            if (entries[j].len == len && !memcmp(entries[j].bytes, texts[i], len)) {
                status = error_set(err, STATUS_INVALID,
                                   "%s: added_tokens: \"%s\" and \"%s\" are the same once they are "
                                   "normalized",
                                   file, t->added[entries[j].id].content, t->added[i].content);
            }
        }
        s->first[(uint8_t)texts[i][0]] = 1;
        s->only_first =
            s->n == 0 || s->only_first == (uint8_t)texts[i][0] ? (uint8_t)texts[i][0] : -1;
        entries[s->n++] = (struct trie_entry){.bytes = texts[i], .len = len, .id = i};
    }
    if (!status && s->n) {
        trie_init(&s->trie, entries, (size_t)s->n);
    }
    free(entries);
    return status;
}

struct buffer {
    char *bytes;
    size_t n;
};
static void buffer_push(void *self, uint32_t cp, size_t start, size_t end) {
    struct buffer *b = self;
    b->n += utf8_write((uint8_t *)b->bytes + b->n, cp);
}

static char *normalized_copy(const struct charmap *m, const char *text) {
    const size_t len = strlen(text);
    struct buffer b = {.bytes = xcalloc(len * m->max_growth + 1, 1)};
    const struct norm_sink sink = {buffer_push, &b};
    for (size_t at = 0; at < len;) {
        at = normalize_at(m, (const uint8_t *)text, 0, at, len, &sink);
    }
    return b.bytes;
}

enum status added_init(struct tokenizer *t, const char *file, struct error *err) {
    char **texts = xcalloc((size_t)t->n_added, sizeof(*texts));
    for (int i = 0; i < t->n_added; i++) {
        texts[i] = t->added[i].normalized ? normalized_copy(&t->chars, t->added[i].content)
                                          : xstrdup(t->added[i].content);
    }
    enum status s = set_init(t, &t->in_source, false, texts, file, err);
    if (!s) {
        s = set_init(t, &t->in_normalized, true, texts, file, err);
    }
    for (int i = 0; i < t->n_added; i++) {
        free(texts[i]);
    }
    free(texts);
    return s;
}

void added_set_finish(struct added_set *s) {
    trie_finish(&s->trie);
}

/* The longest token that begins at text[at]; 0: none. */
static size_t match_at(const struct added_set *s, const uint8_t *text, size_t at, size_t len,
                       int32_t *index) {
    uint32_t state = TRIE_ROOT;
    size_t match = 0;
    for (size_t i = at; i < len; i++) {
        state = trie_step(&s->trie, state, text[i]);
        if (state == TRIE_NONE) {
            break;
        }
        if (trie_is_entry(&s->trie, state)) {
            match = i + 1 - at;
            *index = s->trie.ids[state];
        }
    }
    return match;
}

static bool find_next(const struct tokenizer *t, const struct added_set *s, const uint8_t *text,
                      size_t from, size_t len, struct added_match *m) {
    for (size_t at = from; at < len; at++) {
        if (s->only_first >= 0) {
            const uint8_t *p = memchr(text + at, s->only_first, len - at);
            if (!p) {
                return false;
            }
            at = (size_t)(p - text);
        } else if (!s->first[text[at]]) {
            continue;
        }
        int32_t index;
        const size_t n = match_at(s, text, at, len, &index);
        if (n) {
            *m = (struct added_match){.start = at, .end = at + n, .token = &t->added[index]};
            return true;
        }
    }
    return false;
}

static bool has_flag(const struct tokenizer *t, const uint8_t *text, size_t at, size_t len,
                     uint32_t flag) {
    uint32_t cp;
    utf8_read(&cp, text + at, text + len);
    return entry_of(&t->chars, cp) & flag;
}

static size_t before(const uint8_t *text, size_t at) {
    do {
        at--;
    } while (at && (text[at] & 0xC0) == 0x80);
    return at;
}

static bool stands_alone(const struct tokenizer *t, const uint8_t *text, size_t len,
                         const struct added_match *m) {
    return (m->start == 0 || !has_flag(t, text, before(text, m->start), len, ENTRY_IS_WORD)) &&
           (m->end == len || !has_flag(t, text, m->end, len, ENTRY_IS_WORD));
}

static size_t skip_space_left(const struct tokenizer *t, const uint8_t *text, size_t at,
                              size_t stop, size_t len) {
    while (at > stop && has_flag(t, text, before(text, at), len, ENTRY_IS_SPACE)) {
        at = before(text, at);
    }
    return at;
}

/* Spaces that end at `known_end` were skipped before: a text of spaces that are tokens themselves
 * must not be walked again from each. */
static size_t skip_space_right(const struct tokenizer *t, const uint8_t *text, size_t at,
                               size_t len, size_t *known_end) {
    uint32_t cp;
    if (at < *known_end) {
        return *known_end;
    }
    while (at < len) {
        const size_t n = utf8_read(&cp, text + at, text + len);
        if (!(entry_of(&t->chars, cp) & ENTRY_IS_SPACE)) {
            break;
        }
        at += n;
    }
    *known_end = at;
    return at;
}

void added_split(const struct tokenizer *t, const struct added_set *set, const uint8_t *text,
                 size_t len, const struct added_visitor *visitor) {
    struct added_match m = {.end = 0};
    size_t done = 0, space_end = 0;
    while (set->n && find_next(t, set, text, m.end, len, &m)) {
        size_t start = m.start, end = m.end;
        if (m.token->single_word && !stands_alone(t, text, len, &m)) {
            continue;
        }
        if (m.token->lstrip) {
            const size_t left = skip_space_left(t, text, start, done < start ? done : start, len);
            start = left > done ? left : done;
        }
        if (m.token->rstrip) {
            end = skip_space_right(t, text, end, len, &space_end);
        }
        if (done < start) {
            visitor->between(visitor->self, done, start);
        }
        if (start < end) {
            visitor->token(visitor->self, m.token, start, end);
        }
        done = end;
    }
    if (done < len) {
        visitor->between(visitor->self, done, len);
    }
}
