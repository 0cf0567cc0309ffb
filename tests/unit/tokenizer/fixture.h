/* fixture.h - a small tokenizer made from text in the test, and encodings to look at. */
#ifndef BERTH_TESTS_TOKENIZER_FIXTURE_H
#define BERTH_TESTS_TOKENIZER_FIXTURE_H
#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"
#include "tokenizer/spec.h"

#define VOCAB                                                                                       \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n!\nun\n##aff\n##able\ncafe\n世\na\n##" \
    "a\n"
enum { PAD, UNK, CLS, SEP, MASK, HELLO, WORLD, S, BANG, UN, AFF, ABLE, CAFE, SHI, A, AA, N_VOCAB };

static inline struct text text_of(const char *s) {
    return (struct text){s, strlen(s)};
}
static inline struct tokenizer *make(const char *config) {
    struct tokenizer *t = NULL;
    struct error err;
    const struct text vocab = text_of(VOCAB), c = text_of(config);
    if (tokenizer_from_vocab(&t, &vocab, &c, NULL, "m", &err)) {
        fail_msg("%s", err.text);
    }
    return t;
}
static inline enum status encode(const struct tokenizer *t, struct encoding *e, const char *first,
                                 const char *second, struct encode_options opt, struct arena *a) {
    const struct text x = text_of(first), y = text_of(second ? second : "");
    opt.want_spans = true;
    return tokenizer_encode(t, e, &x, second ? &y : NULL, &opt, a, NULL);
}
#define assert_ids(e, ...)                                                                         \
    do {                                                                                           \
        const int32_t want_[] = {__VA_ARGS__};                                                     \
        assert_int_equal((e).n_tokens, N_ITEMS(want_));                                            \
        assert_memory_equal((e).token_ids, want_, sizeof(want_));                                  \
    } while (0)
#define assert_span(e, i, from, to)                                                                \
    do {                                                                                           \
        assert_int_equal((e).spans[i].start, from);                                                \
        assert_int_equal((e).spans[i].end, to);                                                    \
    } while (0)
#endif
