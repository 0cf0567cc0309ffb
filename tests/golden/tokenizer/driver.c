/* driver.c - a tokenizer behind a pipe, for the equality test.
 * usage: tokenizer_driver MODEL_DIR
 * A record on stdin: int32 max_tokens, then uint32 options, length of the first text, length of the
 * second, then both texts. An answer on stdout: int32 status, int32 n, int64 n_tokens_uncut, then,
 * when the status is 0, token ids, type ids and spans (int32) and is_special and sequence (bytes),
 * n of each. A word of 0xFF bytes closes an answer. Little-endian, as is the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"

enum { TRUNCATE = 1, LEFT = 2, SPECIAL = 4, PAIR = 8 };
enum { MAX_TEXT = 8 << 20, ARENA_BYTES = 512 << 20 };

struct record {
    int32_t max_tokens;
    uint32_t options, len[2];
};

static int read_texts(struct text texts[2], char *buffer, const struct record *r) {
    if (r->len[0] > MAX_TEXT || r->len[1] > MAX_TEXT) {
        return 0;
    }
    const size_t n = (size_t)r->len[0] + r->len[1];
    texts[0] = (struct text){buffer, r->len[0]};
    texts[1] = (struct text){buffer + r->len[0], r->len[1]};
    return fread(buffer, 1, n, stdin) == n;
}

static void write_arrays(const struct encoding *e) {
    const size_t n = (size_t)e->n_tokens;
    fwrite(e->token_ids, sizeof(*e->token_ids), n, stdout);
    fwrite(e->token_type_ids, sizeof(*e->token_type_ids), n, stdout);
    fwrite(e->spans, sizeof(*e->spans), n, stdout);
    fwrite(e->is_special, 1, n, stdout);
    fwrite(e->sequence, 1, n, stdout);
}

static void answer(const struct tokenizer *t, const struct record *r, const struct text texts[2],
                   struct arena *arena) {
    static const uint8_t end[4] = {0xFF, 0xFF, 0xFF, 0xFF};
    const struct encode_options opt = {
        .max_tokens = r->max_tokens,
        .truncate = r->options & TRUNCATE,
        .side = r->options & LEFT ? TRUNCATE_LEFT : TRUNCATE_RIGHT,
        .add_special_tokens = r->options & SPECIAL,
        .want_spans = true,
    };
    struct encoding e;
    const int32_t status = (int32_t)tokenizer_encode(
        t, &e, &texts[0], r->options & PAIR ? &texts[1] : NULL, &opt, arena, NULL);
    const int32_t n = status ? 0 : e.n_tokens;
    fwrite(&status, sizeof(status), 1, stdout);
    fwrite(&n, sizeof(n), 1, stdout);
    fwrite(&e.n_tokens_uncut, sizeof(e.n_tokens_uncut), 1, stdout);
    if (!status) {
        write_arrays(&e);
    }
    fwrite(end, 1, sizeof(end), stdout);
}

int main(int argc, char **argv) {
    struct error err;
    struct tokenizer *t = NULL;
    struct arena arena;
    struct record r;
    struct text texts[2];
    if (argc != 2) {
        fprintf(stderr, "usage: tokenizer_driver MODEL_DIR\n");
        return 2;
    }
    char *buffer = malloc(2 * MAX_TEXT);
    if (!buffer || tokenizer_open(&t, argv[1], &err) || arena_init(&arena, ARENA_BYTES, &err)) {
        fprintf(stderr, "%s\n", buffer ? err.text : "no memory");
        return 1;
    }
    while (fread(&r, sizeof(r), 1, stdin) == 1 && read_texts(texts, buffer, &r)) {
        answer(t, &r, texts, &arena);
        arena_reset(&arena);
    }
    arena_finish(&arena);
    tokenizer_close(t);
    free(buffer);
    return 0;
}
