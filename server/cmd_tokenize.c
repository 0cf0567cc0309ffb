/* cmd_tokenize.c - texts in, JSON lines out: token ids, tokens and where they stood.
 * The tokenizer alone, on the main thread; nothing is cut but to model.max_input_tokens, when that
 * is set. Offsets are bytes of the text; special tokens have 0, 0. */
#include "server/commands.h"

#include <string.h>
#include <unistd.h>

#include "server/line_output.h"
#include "server/lines.h"

struct tokenize {
    const struct config *cfg;
    struct tokenizer *tokenizer;
    struct arena scratch, output;
    bool any_failed;
};

static void write_ids(struct json_writer *w, const struct encoding *e) {
    json_write_raw(w, ",\"ids\":[");
    for (int i = 0; i < e->n_tokens; i++) {
        json_write_raw(w, i ? "," : "");
        json_write_int(w, e->token_ids[i]);
    }
    json_write_raw(w, "]");
}
static void write_tokens(struct json_writer *w, const struct tokenizer *t,
                         const struct encoding *e) {
    json_write_raw(w, ",\"tokens\":[");
    for (int i = 0; i < e->n_tokens; i++) {
        const char *token = tokenizer_token(t, e->token_ids[i]);
        json_write_raw(w, i ? "," : "");
        json_write_string(w, token ? token : "", token ? strlen(token) : 0);
    }
    json_write_raw(w, "]");
}
static void write_offsets(struct json_writer *w, const struct encoding *e) {
    json_write_raw(w, ",\"offsets\":[");
    for (int i = 0; i < e->n_tokens; i++) {
        json_write_raw(w, i ? ",[" : "[");
        json_write_int(w, e->spans[i].start);
        json_write_raw(w, ",");
        json_write_int(w, e->spans[i].end);
        json_write_raw(w, "]");
    }
    json_write_raw(w, "]");
}
static enum status tokenize_text(struct tokenize *t, struct json_writer *w, const struct text *text,
                                 struct error *why) {
    const struct encode_options opt = {.max_tokens = t->cfg->model.max_input_tokens,
                                       .truncate = t->cfg->model.auto_truncate,
                                       .side = TRUNCATE_RIGHT,
                                       .add_special_tokens = true,
                                       .want_spans = true};
    struct encoding e = {0};
    const enum status s = tokenizer_encode(t->tokenizer, &e, text, NULL, &opt, &t->scratch, why);
    if (s) {
        return s;
    }
    json_write_raw(w, "{\"text\":");
    json_write_string(w, text->bytes, text->len);
    write_ids(w, &e);
    write_tokens(w, t->tokenizer, &e);
    write_offsets(w, &e);
    json_write_raw(w, "}\n");
    return STATUS_OK;
}
static enum status tokenize_next(struct tokenize *t, struct lines *in, bool *more,
                                 struct error *err) {
    struct text text = {NULL, 0};
    struct error why = {.text = ""};
    enum status s = lines_next(in, more, &text, &why);
    if (s == STATUS_IO) {
        return error_set(err, s, "%s", why.text);
    }
    if (!*more) {
        return STATUS_OK;
    }
    struct json_writer w;
    json_writer_init(&w, &t->output);
    if (!s) {
        s = tokenize_text(t, &w, &text, &why);
    }
    if (s) {
        line_write_error(&w, in->number, &why);
        t->any_failed = true;
    }
    s = line_put(&w, err);
    arena_reset(&t->scratch);
    arena_reset(&t->output);
    return s;
}
static enum status tokenize_all(struct tokenize *t, struct lines *in, struct error *err) {
    bool more = true;
    while (more) {
        enum status s = STATUS_OK;
        if (lines_would_wait(in)) {
            s = line_flush(err);
        }
        if (!s) {
            s = tokenize_next(t, in, &more, err);
        }
        if (s) {
            return s;
        }
    }
    return line_flush(err);
}
static enum status run(struct tokenize *t, const struct options *opt, struct error *err) {
    const size_t max_line = (size_t)t->cfg->server.max_body_bytes;
    enum status s = tokenizer_open(&t->tokenizer, t->cfg->model.dir, err);
    if (s) {
        return s;
    }
    s = line_arenas_init(&t->scratch, &t->output, max_line, err);
    if (s) {
        return s;
    }
    struct lines in;
    lines_init(&in, opt->texts, opt->n_texts, STDIN_FILENO, max_line);
    s = tokenize_all(t, &in, err);
    lines_finish(&in);
    return s;
}
int cmd_tokenize(const struct options *opt) {
    struct tokenize t = {.cfg = &opt->cfg};
    struct error err = {.text = ""};
    const enum status s = run(&t, opt, &err);
    tokenizer_close(t.tokenizer);
    arena_finish(&t.scratch);
    arena_finish(&t.output);
    if (s) {
        fprintf(stderr, "berth: tokenize: %s\n", err.text);
    }
    return s || t.any_failed ? EXIT_FAULT : 0;
}
