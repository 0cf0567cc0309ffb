/* json_check.c - one pass over a document that decides whether it is JSON that we take.
 * Iterative: the open containers are a fixed stack, so nesting costs no C stack. The keys of all
 * open objects lie on one stack in the scratch arena, as a hash and an offset into the document;
 * when an object closes, its keys are heap-sorted by hash, then by decoded code points, and equal
 * neighbours refused: no choice of keys, nor of hashes, makes that quadratic. Numbers are judged
 * from their digits, without strtod. */
#include "server/json.h"

#include <string.h>

struct key {
    uint64_t hash; // of the decoded code points
    size_t offset; // of the first byte after the opening quote
};
struct container {
    bool is_object;
    size_t first_key; // where its keys begin on the key stack
};
struct checker {
    const char *bytes;
    size_t len, at; // at: the next byte to be read
    struct container open[JSON_MAX_DEPTH];
    int depth;
    struct arena *scratch;
    struct key *keys;
    size_t n_keys, key_capacity;
    struct error *err;
};

static enum status refuse(const struct checker *c, size_t at, const char *what) {
    return error_set(c->err, STATUS_INVALID, "invalid JSON at byte %zu: %s", at, what);
}
/* The byte at `at`, or -1 at the end. */
static int peek(const struct checker *c) {
    return c->at < c->len ? (unsigned char)c->bytes[c->at] : -1;
}
static void skip_space(struct checker *c) {
    for (int b = peek(c); b == ' ' || b == '\t' || b == '\n' || b == '\r'; b = peek(c)) {
        c->at++;
    }
}
static bool is_digit(int b) {
    return b >= '0' && b <= '9';
}

/* RFC 3629: the second byte's range keeps out overlong forms, surrogates and what is beyond
 * U+10FFFF. */
size_t json_utf8_sequence(const char *bytes, size_t left) {
    const unsigned char *b = (const unsigned char *)bytes;
    if (left > 0 && b[0] < 0x80) {
        return 1;
    }
    if (left < 2 || b[0] < 0xC2 || b[0] > 0xF4) {
        return 0;
    }
    const size_t n = b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    const unsigned low = b[0] == 0xE0 ? 0xA0 : b[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned high = b[0] == 0xED ? 0x9F : b[0] == 0xF4 ? 0x8F : 0xBF;
    if (left < n || b[1] < low || b[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((b[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return n;
}

/* Four hexadecimal digits at `p` (of which `left` are there); -1 when they are not. */
static int32_t read_hex4(const char *p, size_t left) {
    int32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        const int b = i < left ? p[i] : 0, lower = b | 0x20;
        if (is_digit(b)) {
            v = v * 16 + (b - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            v = v * 16 + (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return v;
}

/* At the backslash of \uXXXX. */
static enum status take_unicode_escape(struct checker *c) {
    const size_t from = c->at;
    const char *p = c->bytes + from;
    const size_t left = c->len - from;
    const int32_t unit = left > 2 ? read_hex4(p + 2, left - 2) : -1;
    if (unit < 0) {
        return refuse(c, from, "\\u needs four hexadecimal digits");
    }
    if (unit == 0) {
        return refuse(c, from, "\\u0000 is not accepted in a string");
    }
    c->at += 6;
    if (unit < 0xD800 || unit > 0xDFFF) {
        return STATUS_OK;
    }
    const bool pair = left > 8 && p[6] == '\\' && p[7] == 'u';
    const int32_t low = pair ? read_hex4(p + 8, left - 8) : -1;
    if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF) {
        return refuse(c, from, "half of a surrogate pair stands alone");
    }
    c->at += 6;
    return STATUS_OK;
}

static enum status take_escape(struct checker *c) {
    const int b = c->at + 1 < c->len ? c->bytes[c->at + 1] : 0;
    if (b == 'u') {
        return take_unicode_escape(c);
    }
    if (b == 0 || !strchr("\"\\/bfnrt", b)) {
        return refuse(c, c->at, "no escape sequence of JSON");
    }
    c->at += 2;
    return STATUS_OK;
}

/* At the byte after the opening quote. */
static enum status take_string(struct checker *c) {
    const size_t from = c->at - 1;
    for (;;) {
        const int b = peek(c);
        if (b == '"') {
            c->at++;
            return STATUS_OK;
        }
        if (b < 0) {
            return refuse(c, from, "the string that begins here does not end");
        }
        if (b < 0x20) {
            return refuse(c, c->at, "a control character in a string must be escaped");
        }
        if (b == '\\') {
            const enum status s = take_escape(c);
            if (s) {
                return s;
            }
            continue;
        }
        const size_t n = json_utf8_sequence(c->bytes + c->at, c->len - c->at);
        if (!n) {
            return refuse(c, c->at, "not valid UTF-8");
        }
        c->at += n;
    }
}

/* The next code point of a string that has passed take_string(); -1 at its closing quote. */
static int32_t next_code_point(const char **p) {
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    const unsigned char *b = (const unsigned char *)*p;
    if (*b == '"') {
        return -1;
    }
    if (*b != '\\') {
        const size_t n = json_utf8_sequence(*p, 4);
        int32_t v = n == 1 ? *b : *b & (0x7F >> n);
        for (size_t i = 1; i < n; i++) {
            v = v << 6 | (b[i] & 0x3F);
        }
        *p += n;
        return v;
    }
    if (b[1] != 'u') {
        const char *found = strchr(escapes, b[1]);
        *p += 2;
        return found ? found[1] : b[1];
    }
    const int32_t unit = read_hex4(*p + 2, 4);
    if (unit < 0xD800 || unit > 0xDFFF) {
        *p += 6;
        return unit;
    }
    const int32_t low = read_hex4(*p + 8, 4);
    *p += 12;
    return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
}

/* FNV-1a over code points. */
static uint64_t hash_text(const char *p) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (int32_t v = next_code_point(&p); v >= 0; v = next_code_point(&p)) {
        h = (h ^ (uint32_t)v) * UINT64_C(1099511628211);
    }
    return h;
}
static int compare_text(const struct checker *c, const struct key *a, const struct key *b) {
    if (a->hash != b->hash) {
        return a->hash < b->hash ? -1 : 1;
    }
    const char *p = c->bytes + a->offset, *q = c->bytes + b->offset;
    for (;;) {
        const int32_t x = next_code_point(&p), y = next_code_point(&q);
        if (x != y || x < 0) {
            return (x > y) - (x < y);
        }
    }
}
static bool is_before(const struct checker *c, const struct key *a, const struct key *b) {
    const int order = compare_text(c, a, b);
    return order ? order < 0 : a->offset < b->offset;
}

static void swap(struct key *a, struct key *b) {
    const struct key t = *a;
    *a = *b;
    *b = t;
}
static void sift_down(const struct checker *c, struct key *keys, size_t n, size_t i) {
    for (size_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(c, &keys[child], &keys[child + 1])) {
            child++;
        }
        if (!is_before(c, &keys[i], &keys[child])) {
            return;
        }
        swap(&keys[i], &keys[child]);
        i = child;
    }
}
/* Heap sort: in place, and n log n for any keys (the C library's qsort may allocate). */
static void sort_keys(const struct checker *c, struct key *keys, size_t n) {
    for (size_t i = n / 2; i-- > 0;) {
        sift_down(c, keys, n, i);
    }
    for (size_t end = n; end-- > 1;) {
        swap(&keys[0], &keys[end]);
        sift_down(c, keys, end, 0);
    }
}

/* Names the first repeated key of the object whose keys are on top of the stack. */
static enum status check_duplicates(struct checker *c, size_t first_key) {
    if (c->n_keys == first_key) {
        return STATUS_OK; // an empty object: there may be no array yet
    }
    struct key *keys = c->keys + first_key;
    const size_t n = c->n_keys - first_key;
    size_t repeated = c->len;
    sort_keys(c, keys, n);
    for (size_t i = 1; i < n; i++) {
        if (keys[i].offset < repeated && compare_text(c, &keys[i - 1], &keys[i]) == 0) {
            repeated = keys[i].offset;
        }
    }
    c->n_keys = first_key;
    return repeated < c->len ? refuse(c, repeated - 1, "a key that this object already has")
                             : STATUS_OK;
}

static enum status push_key(struct checker *c, size_t offset) {
    if (c->n_keys == c->key_capacity) {
        const size_t wanted = c->key_capacity ? 2 * c->key_capacity : 64;
        struct key *p = c->keys ? arena_resize_last(c->scratch, c->keys, wanted, sizeof(*p))
                                : arena_alloc(c->scratch, wanted, sizeof(*p));
        if (!p) {
            return error_set(c->err, STATUS_NO_MEMORY, "too many keys in the JSON document");
        }
        c->keys = p;
        c->key_capacity = wanted;
    }
    c->keys[c->n_keys++] = (struct key){hash_text(c->bytes + offset), offset};
    return STATUS_OK;
}

/* A key and its colon. */
static enum status take_key(struct checker *c) {
    skip_space(c);
    if (peek(c) != '"') {
        return refuse(c, c->at, "a key in double quotes was expected");
    }
    const size_t offset = ++c->at;
    enum status s = take_string(c);
    if (!s) {
        s = push_key(c, offset);
    }
    if (s) {
        return s;
    }
    skip_space(c);
    if (peek(c) != ':') {
        return refuse(c, c->at, "':' was expected after the key");
    }
    c->at++;
    return STATUS_OK;
}

static enum status close_container(struct checker *c) {
    const struct container *top = &c->open[--c->depth];
    c->at++;
    return top->is_object ? check_duplicates(c, top->first_key) : STATUS_OK;
}
static enum status open_container(struct checker *c, bool *value_follows) {
    const bool is_object = peek(c) == '{';
    if (c->depth == JSON_MAX_DEPTH) {
        return refuse(c, c->at, "nested deeper than the 32 levels that are allowed");
    }
    c->open[c->depth++] = (struct container){is_object, c->n_keys};
    c->at++;
    skip_space(c);
    *value_follows = peek(c) != (is_object ? '}' : ']');
    if (!*value_follows) {
        return close_container(c);
    }
    return is_object ? take_key(c) : STATUS_OK;
}

/* After a value inside a container. */
static enum status take_separator(struct checker *c, bool *value_follows) {
    const bool is_object = c->open[c->depth - 1].is_object;
    const int b = peek(c);
    if (b == (is_object ? '}' : ']')) {
        return close_container(c);
    }
    if (b != ',') {
        return refuse(c, c->at,
                      b < 0       ? "the document ends too early"
                      : is_object ? "',' or '}' was expected"
                                  : "',' or ']' was expected");
    }
    c->at++;
    *value_follows = true;
    return is_object ? take_key(c) : STATUS_OK;
}

/* The digits of a number, without leading zeros and dot, as 0.d1d2d3... times 10 to `exponent`. */
struct digits {
    const char *first; // the first digit that is not zero
    size_t len;        // bytes from there to the last digit, a dot among them
    int64_t exponent;
};
/* Whether rounding to the nearest double gives infinity: from 2^1024 - 2^970 on. */
static bool is_beyond_double(const struct digits *d) {
    static const char limit[] =
        "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490"
        "1797758720709633028641669288791094655554785194040263065748867150582068190890200070838367"
        "6273854845817711531764475730270069855571366959622842914819860834936475292719074168444365"
        "510704342711559699508093042880177904174497792";
    if (d->len == 0 || d->exponent != 309) {
        return d->len > 0 && d->exponent > 309;
    }
    size_t i = 0;
    for (size_t k = 0; k < d->len; k++) {
        if (d->first[k] == '.') {
            continue;
        }
        const char want = i < sizeof(limit) - 1 ? limit[i++] : '0';
        if (d->first[k] != want) {
            return d->first[k] > want;
        }
    }
    return i == sizeof(limit) - 1; // the limit's last digit is not zero
}

/* Decimal exponent after 'e'; beyond a billion its size no longer matters. */
static bool take_exponent(struct checker *c, int64_t *exponent) {
    int64_t v = 0;
    c->at++;
    const bool is_negative = peek(c) == '-';
    if (is_negative || peek(c) == '+') {
        c->at++;
    }
    if (!is_digit(peek(c))) {
        return false;
    }
    for (; is_digit(peek(c)); c->at++) {
        v = v < 1000000000 ? v * 10 + (peek(c) - '0') : v;
    }
    *exponent += is_negative ? -v : v;
    return true;
}

/* A run of digits; false when there is none. */
static bool take_digits(struct checker *c, struct digits *d, bool is_fraction) {
    const size_t from = c->at;
    for (; is_digit(peek(c)); c->at++) {
        if (!d->first && peek(c) != '0') {
            d->first = c->bytes + c->at;
        }
        if (is_fraction) {
            d->exponent -= d->first == NULL;
        } else {
            d->exponent += d->first != NULL;
        }
    }
    d->len = d->first ? (size_t)(c->bytes + c->at - d->first) : 0;
    return c->at > from;
}

static enum status take_number(struct checker *c) {
    const size_t from = c->at;
    struct digits d = {0};
    if (peek(c) == '-') {
        c->at++;
    }
    const size_t whole = c->at;
    if (!take_digits(c, &d, false)) {
        return refuse(c, from, "a number needs a digit here");
    }
    if (c->bytes[whole] == '0' && c->at > whole + 1) {
        return refuse(c, from, "a number must not begin with 0");
    }
    if (peek(c) == '.') {
        c->at++;
        if (!take_digits(c, &d, true)) {
            return refuse(c, from, "a number needs a digit after the dot");
        }
    }
    if ((peek(c) == 'e' || peek(c) == 'E') && !take_exponent(c, &d.exponent)) {
        return refuse(c, from, "a number needs a digit in its exponent");
    }
    return is_beyond_double(&d) ? refuse(c, from, "a number too large for a double") : STATUS_OK;
}

static enum status take_word(struct checker *c, const char *word) {
    const size_t n = strlen(word);
    if (c->len - c->at < n || memcmp(c->bytes + c->at, word, n) != 0) {
        return refuse(c, c->at, "a value was expected");
    }
    c->at += n;
    return STATUS_OK;
}

static enum status take_value(struct checker *c, bool *value_follows) {
    *value_follows = false;
    const int b = peek(c);
    switch (b) {
    case '{':
    case '[': return open_container(c, value_follows);
    case '"': c->at++; return take_string(c);
    case 't': return take_word(c, "true");
    case 'f': return take_word(c, "false");
    case 'n': return take_word(c, "null");
    case -1: return refuse(c, c->at, "the document ends too early");
    default:
        return b == '-' || is_digit(b) ? take_number(c) : refuse(c, c->at, "a value was expected");
    }
}

static enum status check_document(struct checker *c) {
    enum status s = STATUS_OK;
    bool value_follows = true;
    if (c->len == 0) {
        return refuse(c, 0, "the document is empty");
    }
    if (c->len >= 3 && memcmp(c->bytes, "\xEF\xBB\xBF", 3) == 0) {
        return refuse(c, 0, "a byte order mark is not accepted");
    }
    while (!s && (value_follows || c->depth > 0)) {
        skip_space(c);
        s = value_follows ? take_value(c, &value_follows) : take_separator(c, &value_follows);
    }
    skip_space(c);
    if (!s && c->at < c->len) {
        s = refuse(c, c->at, "nothing may follow the value");
    }
    return s;
}

enum status json_check(const char *bytes, size_t len, struct arena *scratch, struct error *err) {
    struct checker c = {.bytes = bytes, .len = len, .scratch = scratch, .err = err};
    const enum status s = check_document(&c);
    if (c.keys) {
        arena_resize_last(scratch, c.keys, 0, 1);
    }
    return s;
}
