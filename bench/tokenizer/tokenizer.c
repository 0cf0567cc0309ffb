/* tokenizer.c - encodes texts on command, so that a script can time that in turn with another
 * tokenizer's; special tokens and spans are wanted, nothing is cut:
 *   load FILE     texts in UTF-8, one a line
 *   time SECONDS  all texts, one after the other, again and again: milliseconds of each pass
 *   output FILE   int32: for each text its number of tokens, their ids, and their spans' two ends
 * A pass encodes each text by a call of its own into an arena that is reset before it, which is how
 * the server does it. One thread. */
#include "tokenizer/tokenizer.h"

#include "base/timing.h"
#include "bench/common/commands.h"
#include "bench/common/timed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 2000, MAX_FILE_BYTES = 1 << 28, ARENA_BYTES = 1 << 28 };
struct bench {
    struct tokenizer *tokenizer;
    struct arena arena;
    char *bytes; // of the file
    struct text *texts;
    int n_texts;
    int64_t n_tokens; // of the last pass
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench_tokenizer: %s: %s\n", what, why);
    exit(1);
}

static void encode(struct bench *b, struct encoding *out, const struct text *text) {
    static const struct encode_options options = {.add_special_tokens = true, .want_spans = true};
    struct error err;
    arena_reset(&b->arena);
    if (tokenizer_encode(b->tokenizer, out, text, NULL, &options, &b->arena, &err)) {
        die("a text", err.text);
    }
}

static double time_pass(void *arg) {
    struct bench *b = arg;
    struct encoding e;
    const int64_t start = time_now_ns();
    b->n_tokens = 0;
    for (int i = 0; i < b->n_texts; i++) {
        encode(b, &e, &b->texts[i]);
        b->n_tokens += e.n_tokens;
    }
    return (double)(time_now_ns() - start) / NS_PER_MS;
}

static void cut_lines(struct bench *b, size_t len) {
    int n = 0;
    for (size_t i = 0; i < len; i++) {
        n += b->bytes[i] == '\n';
    }
    b->texts = xcalloc((size_t)n + 1, sizeof(*b->texts));
    b->n_texts = 0;
    for (char *at = b->bytes, *end; (end = memchr(at, '\n', len - (size_t)(at - b->bytes)));
         at = end + 1) {
        b->texts[b->n_texts++] = (struct text){at, (size_t)(end - at)};
    }
}
static void forget_texts(struct bench *b) {
    free(b->bytes);
    free(b->texts);
    b->bytes = NULL, b->texts = NULL, b->n_texts = 0;
}
static void load_file(struct bench *b, const char *path) {
    FILE *f = fopen(path, "rb");
    forget_texts(b);
    b->bytes = xcalloc(1, MAX_FILE_BYTES);
    const size_t len = f ? fread(b->bytes, 1, MAX_FILE_BYTES, f) : 0;
    if (f) {
        fclose(f);
    }
    cut_lines(b, len);
    if (!b->n_texts) {
        command_refuse("%s: holds no lines", path);
    } else {
        command_answer("%d texts, %zu bytes", b->n_texts, len);
    }
}

static bool write_encoding(FILE *f, const struct encoding *e) {
    const int32_t n = e->n_tokens;
    const size_t count = (size_t)n;
    return fwrite(&n, sizeof(n), 1, f) == 1 &&
           fwrite(e->token_ids, sizeof(*e->token_ids), count, f) == count &&
           fwrite(e->spans, sizeof(*e->spans), count, f) == count;
}
static void write_output(struct bench *b, const char *path) {
    struct encoding e;
    FILE *f = fopen(path, "wb");
    bool good = f != NULL;
    for (int i = 0; good && i < b->n_texts; i++) {
        encode(b, &e, &b->texts[i]);
        good = write_encoding(f, &e);
    }
    good = f && !fclose(f) && good;
    if (!good) {
        command_refuse("%s: cannot be written", path);
    } else {
        command_answer("%d texts", b->n_texts);
    }
}

static void run_command(struct bench *b, const struct command *c) {
    double ms[MAX_CALLS];
    if (command_is(c, "load")) {
        load_file(b, c->words[1]);
    } else if (!b->n_texts) {
        command_refuse("nothing is loaded");
    } else if (command_is(c, "time")) {
        const int n = time_calls(ms, MAX_CALLS, strtod(c->words[1], NULL), time_pass, b);
        command_answer_times(ms, n);
    } else if (command_is(c, "output")) {
        write_output(b, c->words[1]);
    } else {
        command_refuse("%s: load, time or output is expected", c->words[0]);
    }
}

int main(int argc, char **argv) {
    struct bench b = {0};
    struct command c;
    struct error err;
    if (argc != 2) {
        fputs("usage: bench_tokenizer MODEL_DIR; commands on standard input\n", stderr);
        return 2;
    }
    if (tokenizer_open(&b.tokenizer, argv[1], &err) || arena_init(&b.arena, ARENA_BYTES, &err)) {
        die(argv[1], err.text);
    }
    command_answer("%s", argv[1]);
    while (command_read(&c)) {
        run_command(&b, &c);
    }
    forget_texts(&b);
    arena_finish(&b.arena);
    tokenizer_close(b.tokenizer);
    return 0;
}
