/* tokenize.c - fuzzes tokenizer_encode() with small vocabularies.
 * Input: a byte of options, a limit, where the second text begins, then text, whose bytes that are
 * not UTF-8 are replaced. What must hold for any text is checked, not only that nothing crashes. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(what)                                                                              \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const char vocab[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nab\n##b\n!\nb\n##c\nc\n世\ni\n";
static const char plain[] = "{}";
static const char cased[] =
    "{\"do_lower_case\":false,\"added_tokens_decoder\":{"
    "\"15\":{\"content\":\"aB\",\"normalized\":true,\"lstrip\":true,\"single_word\":true},"
    "\"16\":{\"content\":\" \",\"normalized\":false,\"rstrip\":true},"
    "\"17\":{\"content\":\"[x\",\"normalized\":true,\"rstrip\":true,\"lstrip\":true}}}";
static const char stripped[] =
    "{\"strip_accents\":true,\"added_tokens_decoder\":{"
    "\"15\":{\"content\":\"\\u00e9a\",\"normalized\":true,\"rstrip\":true},"
    "\"16\":{\"content\":\"b\",\"normalized\":false,\"single_word\":true,\"lstrip\":true}}}";

enum { N_TOKENIZERS = 3, ARENA_BYTES = 1 << 22 };
static struct {
    struct tokenizer *t[N_TOKENIZERS];
    struct arena arena;
} fixture; // made once, reached until the process ends

static void make_fixture(void) {
    static const char *const configs[N_TOKENIZERS] = {plain, cased, stripped};
    const struct text v = {vocab, sizeof(vocab) - 1};
    for (int i = 0; i < N_TOKENIZERS && !fixture.t[i]; i++) {
        const struct text c = {configs[i], strlen(configs[i])};
        REQUIRE(!tokenizer_from_vocab(&fixture.t[i], &v, &c, NULL, "fuzz", NULL));
    }
    if (!fixture.arena.data) {
        REQUIRE(!arena_init(&fixture.arena, ARENA_BYTES, NULL));
    }
}

/* Bytes of the code point at `at`, or 0 where there is none. */
static size_t valid_at(const uint8_t *p, size_t n) {
    uint8_t again[4];
    uint32_t cp;
    const size_t bytes = utf8_read(&cp, p, p + n);
    return utf8_write(again, cp) == bytes && !memcmp(again, p, bytes) &&
                   !(cp >= 0xD800 && cp < 0xE000)
               ? bytes
               : 0;
}

static void repair(uint8_t *text, size_t n) {
    for (size_t at = 0; at < n;) {
        const size_t bytes = valid_at(text + at, n - at);
        if (!bytes) {
            text[at] = '?';
        }
        at += bytes ? bytes : 1;
    }
}

static void check(const struct encoding *e, const struct text *const texts[2],
                  const struct encode_options *opt) {
    REQUIRE(!opt->max_tokens || e->n_tokens <= opt->max_tokens);
    REQUIRE(e->n_tokens <= e->n_tokens_uncut);
    for (int i = 0; i < e->n_tokens; i++) {
        REQUIRE(e->token_ids[i] >= 0 && e->token_type_ids[i] >= 0);
        if (!opt->want_spans) {
            continue;
        }
        const struct span s = e->spans[i];
        const size_t len = texts[e->sequence[i]] ? texts[e->sequence[i]]->len : 0;
        REQUIRE(s.start >= 0 && s.start <= s.end && (size_t)s.end <= len);
        REQUIRE(e->is_special[i] || s.start < s.end);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) {
        return 0;
    }
    make_fixture();
    const size_t n = size - 3, cut = n ? (size_t)data[2] * n / 256 : 0;
    const struct encode_options opt = {
        .max_tokens = data[1],
        .truncate = data[0] & 1,
        .side = data[0] & 2 ? TRUNCATE_LEFT : TRUNCATE_RIGHT,
        .add_special_tokens = data[0] & 4,
        .want_spans = data[0] & 8,
    };
    uint8_t *copy = malloc(n ? n : 1);
    REQUIRE(copy);
    memcpy(copy, data + 3, n);
    repair(copy, cut);
    repair(copy + cut, n - cut);
    const struct text first = {(const char *)copy, cut},
                      second = {(const char *)copy + cut, n - cut};
    const struct text *const texts[2] = {&first, data[0] & 16 ? &second : NULL};
    struct encoding e;
    const enum status s = tokenizer_encode(fixture.t[(data[0] >> 5) % N_TOKENIZERS], &e, texts[0],
                                           texts[1], &opt, &fixture.arena, NULL);
    if (!s) {
        check(&e, texts, &opt);
    }
    arena_reset(&fixture.arena);
    free(copy);
    return 0;
}
