/* tokenizer_json.c - fuzzes the loaders: a tokenizer.json, or a vocab.txt with its config. What
 * loads must encode. Input: a byte that chooses, then the file; a vocab.txt's config begins behind
 * its first NUL. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode_something(const struct tokenizer *t) {
    static const char text[] = "Hello [CLS] w\xC3\xB6rld\xCC\x81 a\xE4\xB8\x96 <x>  \xE2\x80\x8D!";
    const struct text x = {text, sizeof(text) - 1};
    const struct encode_options opt = {
        .add_special_tokens = true, .want_spans = true, .max_tokens = 9, .truncate = true};
    struct arena arena;
    struct encoding e;
    if (arena_init(&arena, 1 << 20, NULL)) {
        abort();
    }
    const enum status s = tokenizer_encode(t, &e, &x, &x, &opt, &arena, NULL);
    for (int i = 0; i < (s ? 0 : e.n_tokens); i++) {
        if (e.token_ids[i] < 0 || e.token_ids[i] >= tokenizer_vocab_size(t)) {
            abort();
        }
    }
    arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer *t = NULL;
    struct error err = {""};
    enum status s;
    if (!size) {
        return 0;
    }
    const char *bytes = (const char *)data + 1;
    const struct text all = {bytes, size - 1};
    if (data[0] & 1) {
        s = tokenizer_from_json(&t, &all, data[0] & 2 ? &all : NULL, "fuzz", &err);
    } else {
        const char *nul = memchr(bytes, 0, size - 1);
        const size_t n = nul ? (size_t)(nul - bytes) : size - 1;
        const struct text vocab = {bytes, n}, config = {bytes + n + 1, nul ? size - n - 2 : 0};
        s = tokenizer_from_vocab(&t, &vocab, nul ? &config : NULL, NULL, "fuzz", &err);
    }
    if (!s) {
        encode_something(t);
        tokenizer_close(t);
    } else if (!err.text[0] || t) {
        abort(); // a refusal has a reason, and gives nothing
    }
    return 0;
}
