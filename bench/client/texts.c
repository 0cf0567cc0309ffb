/* texts.c - two sources, one slice. A file's lines are escaped once, into one buffer. Drawn texts
 * are windows on one long stream of words: where a window begins and how long it is are hashes of
 * its index, so that hardly two texts are alike and none has to be built while the load runs. */
#include "bench/client/texts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/client/draw.h"
#include "bench/client/utf8.h"

enum { STREAM_WORDS = 1 << 16, WORD_MAX_BYTES = 8, HEX_ESCAPE_BYTES = 6, FIRST_BYTES = 1 << 16 };

/* Each is one token for a BERT vocabulary. */
static const char *const words[] = {
    "the",   "of",   "and",   "to",    "in",    "was",  "he",    "is",    "for",   "on",
    "as",    "with", "that",  "it",    "his",   "by",   "at",    "from",  "her",   "she",
    "you",   "had",  "an",    "were",  "but",   "be",   "this",  "are",   "not",   "my",
    "they",  "one",  "which", "or",    "have",  "him",  "me",    "first", "all",   "also",
    "their", "has",  "up",    "who",   "out",   "been", "when",  "after", "there", "into",
    "new",   "two",  "its",   "time",  "would", "no",   "what",  "about", "said",  "we",
    "over",  "then", "other", "so",    "more",  "can",  "if",    "like",  "back",  "them",
    "only",  "some", "could", "where", "just",  "film", "story", "music", "house", "water",
    "good",  "bad",  "great", "small", "long",  "old",  "young", "city",  "world", "night",
};
struct line {
    size_t begin;
    int len, n_words;
};
struct texts {
    char *bytes; // owned
    size_t n_bytes;
    struct line *lines; // of a file; NULL: drawn
    int n_lines, n_capacity;
    size_t *word_at; // [STREAM_WORDS + TRACE_MAX_TOKENS + 1], in `bytes`
    double cumulative[TRACE_MAX_TOKENS + 1];
    uint64_t seed;
};

void texts_destroy(struct texts *t) {
    if (t) {
        free(t->bytes);
        free(t->lines);
        free(t->word_at);
        free(t);
    }
}

static size_t escape(char *out, const char *text, size_t len) {
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < ' ') {
            const char escaped[HEX_ESCAPE_BYTES] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
            memcpy(out + n, escaped, sizeof(escaped));
            n += sizeof(escaped);
            continue;
        }
        if (c == '"' || c == '\\') {
            out[n++] = '\\';
        }
        out[n++] = (char)c;
    }
    return n;
}
static int count_words(const char *text, size_t len) {
    int n = 0;
    for (size_t i = 0; i < len; i++) {
        n += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
    }
    return n;
}
static enum status add_line(struct texts *t, const char *text, size_t len, struct error *err) {
    if (len == 0) {
        return error_set(err, STATUS_INVALID, "the line is empty");
    }
    if (len > TEXT_MAX_BYTES) {
        return error_set(err, STATUS_TOO_LONG, "longer than %d bytes", TEXT_MAX_BYTES);
    }
    if (memchr(text, '\0', len) || !utf8_is_valid(text, len)) {
        return error_set(err, STATUS_INVALID, "not UTF-8, or a NUL in it");
    }
    if (t->n_lines == TEXTS_MAX) {
        return error_set(err, STATUS_TOO_LONG, "more than %d texts", TEXTS_MAX);
    }
    if (t->n_lines == t->n_capacity) {
        t->n_capacity = t->n_capacity ? 2 * t->n_capacity : 1024;
        struct line *more = realloc(t->lines, (size_t)t->n_capacity * sizeof(*more));
        if (!more) {
            return error_set(err, STATUS_NO_MEMORY, "no memory for the texts");
        }
        t->lines = more;
    }
    const size_t n = escape(t->bytes + t->n_bytes, text, len);
    t->lines[t->n_lines++] = (struct line){t->n_bytes, (int)n, count_words(text, len)};
    t->n_bytes += n;
    return STATUS_OK;
}
static enum status add_lines(struct texts *t, const char *data, size_t len, const char *path,
                             struct error *err) {
    int number = 0;
    for (size_t at = 0; at < len;) {
        const char *newline = memchr(data + at, '\n', len - at);
        const size_t n = newline ? (size_t)(newline - data) - at : len - at;
        const bool has_cr = n > 0 && data[at + n - 1] == '\r';
        number++;
        const enum status s = add_line(t, data + at, n - has_cr, err);
        if (s) {
            return error_prefix(err, s, "%s, line %d", path, number);
        }
        at += n + 1;
    }
    return t->n_lines
               ? STATUS_OK
               : error_set(err, STATUS_INVALID, "%s: no text in it: expected a text a line", path);
}
/* Into a buffer that doubles, for pipes too; *data is the caller's. */
static enum status read_stream(char **data, size_t *len, FILE *f, const char *path,
                               struct error *err) {
    size_t capacity = FIRST_BYTES, n = 1;
    *data = xcalloc(capacity, 1);
    while (n > 0 && *len <= TEXTS_MAX_BYTES) {
        if (*len == capacity) {
            capacity *= 2;
            char *more = realloc(*data, capacity);
            if (!more) {
                return error_set(err, STATUS_NO_MEMORY, "%s: no memory for it", path);
            }
            *data = more;
        }
        n = fread(*data + *len, 1, capacity - *len, f);
        *len += n;
    }
    if (ferror(f)) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno ? errno : EIO));
    }
    return *len > TEXTS_MAX_BYTES
               ? error_set(err, STATUS_TOO_LONG, "%s: more than %d bytes", path, TEXTS_MAX_BYTES)
               : STATUS_OK;
}
static enum status read_file(char **data, size_t *len, const char *path, struct error *err) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    errno = 0;
    const enum status s = read_stream(data, len, f, path, err);
    fclose(f);
    return s;
}
enum status texts_read(struct texts **out, const char *path, struct error *err) {
    char *data = NULL;
    size_t len = 0;
    struct texts *t = xcalloc(1, sizeof(*t));
    enum status s = read_file(&data, &len, path, err);
    if (!s) {
        t->bytes = xcalloc(len * HEX_ESCAPE_BYTES + 1, 1);
        s = add_lines(t, data, len, path, err);
    }
    free(data);
    if (s) {
        texts_destroy(t);
        return s;
    }
    *out = t;
    return STATUS_OK;
}

static void fill_stream(struct texts *t) {
    const int n = STREAM_WORDS + TRACE_MAX_TOKENS;
    t->bytes = xcalloc((size_t)n, WORD_MAX_BYTES);
    t->word_at = xcalloc((size_t)n + 1, sizeof(*t->word_at));
    for (int i = 0; i < n; i++) {
        const char *word = words[draw_at(t->seed, i) % N_ITEMS(words)];
        const size_t len = strlen(word);
        t->word_at[i] = t->n_bytes;
        memcpy(t->bytes + t->n_bytes, word, len);
        t->bytes[t->n_bytes + len] = ' ';
        t->n_bytes += len + 1;
    }
    t->word_at[n] = t->n_bytes;
}
struct texts *texts_draw(const struct lengths *lengths, uint64_t seed) {
    struct texts *t = xcalloc(1, sizeof(*t));
    double sum = 0;
    t->seed = seed;
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        sum += (double)lengths->count[i];
        t->cumulative[i] = sum;
    }
    fill_stream(t);
    return t;
}
static int draw_length(const struct texts *t, int64_t index) {
    const double wanted = draw_unit_at(t->seed ^ 0x6c656e, index) * t->cumulative[TRACE_MAX_TOKENS];
    int low = 0, high = TRACE_MAX_TOKENS;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (t->cumulative[middle] > wanted) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}
struct text_slice texts_of_tokens(const struct texts *t, int64_t index, int n_tokens) {
    if (t->lines) {
        return texts_at(t, index);
    }
    const int n_words = n_tokens > TEXT_SPECIAL_TOKENS ? n_tokens - TEXT_SPECIAL_TOKENS : 1;
    const int first = (int)(draw_at(t->seed ^ 0x706c61, index) % STREAM_WORDS);
    const size_t begin = t->word_at[first];
    const size_t end = t->word_at[first + n_words] - 1; // without the last space
    return (struct text_slice){t->bytes + begin, (int)(end - begin), n_words};
}
struct text_slice texts_at(const struct texts *t, int64_t index) {
    if (!t->lines) {
        return texts_of_tokens(t, index, draw_length(t, index));
    }
    const struct line *l = &t->lines[index % t->n_lines];
    return (struct text_slice){t->bytes + l->begin, l->len, l->n_words};
}
