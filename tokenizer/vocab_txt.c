/* vocab_txt.c - the older form of a BERT tokenizer: one entry a line, the line's number its id,
 * with tokenizer_config.json beside it. White space at a line's end is not part of the entry, as in
 * the reference; an empty line takes an id all the same. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "tokenizer/config.h"
#include "tokenizer/spec.h"

static bool is_space(const char *from, const char *at, const char *end) {
    struct unicode_row facts;
    uint32_t cp;
    const size_t n = utf8_read(&cp, (const uint8_t *)at, (const uint8_t *)end);
    unicode_facts(&facts, cp);
    return at >= from && at + n == end && (facts.facts & UNICODE_SPACE);
}

static size_t trimmed(const char *line, size_t len) {
    while (len) {
        size_t last = len - 1;
        while (last && ((unsigned char)line[last] & 0xC0) == 0x80) {
            last--;
        }
        if (!is_space(line, line + last, line + len)) {
            break;
        }
        len = last;
    }
    return len;
}

static size_t count_lines(const struct text *vocab) {
    size_t n = 0;
    for (size_t i = 0; i < vocab->len; i++) {
        n += vocab->bytes[i] == '\n';
    }
    return n + (vocab->len && vocab->bytes[vocab->len - 1] != '\n');
}

static enum status read_vocab(struct tokenizer_spec *spec, const struct text *vocab,
                              const char *file, struct error *err) {
    const char *at = vocab->bytes, *end = vocab->bytes + vocab->len;
    const size_t n_lines = count_lines(vocab);
    if (n_lines > MAX_VOCAB_IDS) {
        return error_set(err, STATUS_INVALID, "%s: %zu lines, expected at most %d", file, n_lines,
                         MAX_VOCAB_IDS);
    }
    spec->pool = xcalloc(vocab->len + n_lines + 1, 1);
    spec->vocab = xcalloc(n_lines, sizeof(*spec->vocab));
    char *to = spec->pool;
    for (size_t i = 0; i < n_lines; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        const size_t len = trimmed(at, (size_t)(stop - at));
        if (memchr(at, 0, len)) {
            return error_set(err, STATUS_INVALID, "%s: line %zu: expected text, found a NUL byte",
                             file, i + 1);
        }
        memcpy(to, at, len); // the pool is zeroed: a NUL follows
        spec->vocab[spec->n_vocab++] = (struct vocab_entry){.text = to, .id = (int32_t)i};
        to += len + 1;
        at = stop + 1;
    }
    return STATUS_OK;
}

enum status tokenizer_from_vocab(struct tokenizer **out, const struct text *vocab,
                                 const struct text *config_json, const struct text *map_json,
                                 const char *dir, struct error *err) {
    struct tokenizer_spec spec = {.prefix = xstrdup("##"), .max_word_chars = 100};
    char file[256];
    snprintf(file, sizeof(file), "%s/vocab.txt", dir);
    enum status s = read_vocab(&spec, vocab, file, err);
    s = s ? s : tokenizer_config_all(&spec, config_json, map_json, dir, err);
    s = s ? s : tokenizer_build(out, &spec, file, err);
    spec_finish(&spec);
    return s;
}
