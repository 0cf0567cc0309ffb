/* cmd_classify.c - texts in, JSON lines out, through the same batcher and workers as `serve`.
 * The main thread reads and tokenizes; up to N_SLOTS texts are on their way at once, in a ring, and
 * are written in the order they came. What is done is written at the latest when the input has
 * nothing more to give at the moment, so that a pipe which pauses sees its answers. */
#include "server/commands.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/head.h"
#include "server/engine.h"
#include "server/json.h"
#include "server/line_output.h"
#include "server/lines.h"

enum { N_SLOTS = 256 };

struct slot {
    struct arena arena; // the text and its token ids
    struct text text;
    struct job job;
    sem_t done;
    int64_t number; // of the line
    int64_t n_tokens_uncut;
    struct error error; // where status is not STATUS_OK
    enum status status; // before the job ran
};
struct classify {
    const struct config *cfg;
    struct engine *engine;
    struct slot *slots; // [n_slots], a ring
    int n_slots, first, n_used;
    float *logits, *scores; // [n_slots, n_labels], [n_labels]
    int *order;             // [n_labels]
    struct arena scratch;   // of the tokenizer
    struct arena output;    // one line
    bool any_failed;
};

static void on_done(struct job *job) {
    struct slot *slot = job->owner;
    sem_post(&slot->done);
}

static enum status init_slots(struct classify *c, struct error *err) {
    const int n_labels = engine_model(c->engine)->n_labels;
    const int max_tokens = engine_get_info(c->engine)->max_input_tokens;
    const size_t bytes = (size_t)c->cfg->server.max_body_bytes +
                         2 * (size_t)max_tokens * sizeof(int32_t) + 4 * ARENA_ALIGN;
    const int most = c->cfg->batching.max_queued_jobs;
    c->n_slots = most < N_SLOTS ? most : N_SLOTS;
    c->slots = xcalloc((size_t)c->n_slots, sizeof(*c->slots));
    c->logits = xcalloc((size_t)c->n_slots * (size_t)n_labels, sizeof(*c->logits));
    c->scores = xcalloc((size_t)n_labels, sizeof(*c->scores));
    c->order = xcalloc((size_t)n_labels, sizeof(*c->order));
    for (int i = 0; i < c->n_slots; i++) {
        const enum status s = arena_init(&c->slots[i].arena, bytes, err);
        if (s) {
            return s;
        }
        sem_init(&c->slots[i].done, 0, 0);
        c->slots[i].job.logits = c->logits + (size_t)i * (size_t)n_labels;
    }
    return STATUS_OK;
}
static void finish_slots(struct classify *c) {
    for (int i = 0; c->slots && i < c->n_slots; i++) {
        arena_finish(&c->slots[i].arena);
    }
    free(c->slots), free(c->logits), free(c->scores), free(c->order);
}

static void write_label(struct json_writer *w, const struct classify *c, int k) {
    const char *label = engine_model(c->engine)->labels[k];
    json_write_raw(w, "\"label\":");
    json_write_string(w, label, strlen(label));
    json_write_raw(w, ",\"score\":");
    json_write_float(w, c->scores[k]);
}
static void write_result(struct json_writer *w, const struct classify *c, const struct slot *slot) {
    const struct model_config *m = engine_model(c->engine);
    head_scores(c->scores, slot->job.logits, m->n_labels, m->score);
    head_sort(c->order, c->scores, m->n_labels);
    json_write_raw(w, "{\"text\":");
    json_write_string(w, slot->text.bytes, slot->text.len);
    json_write_raw(w, ",");
    write_label(w, c, c->order[0]);
    json_write_raw(w, ",\"scores\":[");
    for (int i = 0; i < m->n_labels; i++) {
        json_write_raw(w, i ? ",{" : "{");
        write_label(w, c, c->order[i]);
        json_write_raw(w, "}");
    }
    json_write_raw(w, "],\"tokens\":");
    json_write_int(w, slot->job.n_tokens);
    json_write_raw(w, slot->n_tokens_uncut > slot->job.n_tokens ? ",\"truncated\":true}\n"
                                                                : ",\"truncated\":false}\n");
}
/* Waits for the oldest text on its way and writes its line. */
static enum status finish_oldest(struct classify *c, struct error *err) {
    struct slot *slot = &c->slots[c->first];
    if (!slot->status) {
        while (sem_wait(&slot->done)) { // a signal came
        }
        slot->status = slot->job.status;
        (void)error_set(&slot->error, slot->status, "the model's result is faulty (%s)",
                        status_name(slot->status));
    }
    struct json_writer w;
    json_writer_init(&w, &c->output);
    if (slot->status) {
        line_write_error(&w, slot->number, &slot->error);
        c->any_failed = true;
    } else {
        write_result(&w, c, slot);
    }
    const enum status s = line_put(&w, err);
    arena_reset(&c->output);
    arena_reset(&slot->arena);
    c->first = (c->first + 1) % c->n_slots;
    c->n_used--;
    return s;
}
static enum status finish_all(struct classify *c, struct error *err) {
    while (c->n_used > 0) {
        const enum status s = finish_oldest(c, err);
        if (s) {
            return s;
        }
    }
    return line_flush(err);
}

/* Text and token ids to the slot's own memory: line buffer and scratch are used again. */
static enum status keep(struct slot *slot, const struct text *text, const struct encoding *enc) {
    char *copy = arena_alloc(&slot->arena, text->len, 1);
    int32_t *ids = arena_alloc(&slot->arena, (size_t)enc->n_tokens, sizeof(*ids));
    int32_t *types = arena_alloc(&slot->arena, (size_t)enc->n_tokens, sizeof(*types));
    if (!copy || !ids || !types) {
        return error_set(&slot->error, STATUS_NO_MEMORY, "no memory for the text");
    }
    memcpy(copy, text->bytes, text->len);
    memcpy(ids, enc->token_ids, (size_t)enc->n_tokens * sizeof(*ids));
    memcpy(types, enc->token_type_ids, (size_t)enc->n_tokens * sizeof(*types));
    slot->text = (struct text){copy, text->len};
    slot->n_tokens_uncut = enc->n_tokens_uncut;
    slot->job = (struct job){.token_ids = ids,
                             .token_type_ids = types,
                             .n_tokens = enc->n_tokens,
                             .logits = slot->job.logits,
                             .done = on_done,
                             .owner = slot,
                             .deadline_ns = INT64_MAX};
    return STATUS_OK;
}
static enum status encode(struct classify *c, struct slot *slot, const struct text *text) {
    const struct encode_options opt = {.max_tokens = engine_get_info(c->engine)->max_input_tokens,
                                       .truncate = c->cfg->model.auto_truncate,
                                       .side = TRUNCATE_RIGHT,
                                       .add_special_tokens = true};
    struct encoding enc = {0};
    enum status s = tokenizer_encode(engine_tokenizer(c->engine), &enc, text, NULL, &opt,
                                     &c->scratch, &slot->error);
    if (!s) {
        s = keep(slot, text, &enc);
    }
    arena_reset(&c->scratch);
    return s;
}
/* A full queue is waited for: our own texts fill it, and they end. */
static enum status submit(struct classify *c, struct slot *slot, struct error *err) {
    struct job *job = &slot->job;
    slot->status = batcher_submit(engine_batcher(c->engine), &job, 1, NULL);
    while (slot->status == STATUS_OVERLOADED && c->n_used > 0) {
        const enum status s = finish_oldest(c, err);
        if (s) {
            return s;
        }
        slot->status = batcher_submit(engine_batcher(c->engine), &job, 1, NULL);
    }
    if (slot->status) {
        (void)error_set(&slot->error, slot->status, "not taken (%s)", status_name(slot->status));
    }
    return STATUS_OK;
}
static enum status add_text(struct classify *c, struct slot *slot, const struct text *text,
                            struct error *err) {
    enum status s = STATUS_OK;
    if (!slot->status) {
        slot->status = encode(c, slot, text);
    }
    if (!slot->status) {
        s = submit(c, slot, err);
    }
    c->n_used++;
    return s;
}
static enum status classify_all(struct classify *c, struct lines *in, struct error *err) {
    for (;;) {
        if (c->n_used == c->n_slots) {
            const enum status s = finish_oldest(c, err);
            if (s) {
                return s;
            }
        }
        if (lines_would_wait(in)) {
            const enum status s = finish_all(c, err);
            if (s) {
                return s;
            }
        }
        struct slot *slot = &c->slots[(c->first + c->n_used) % c->n_slots];
        struct text text = {NULL, 0};
        bool more = false;
        slot->status = lines_next(in, &more, &text, &slot->error);
        slot->number = in->number;
        if (slot->status == STATUS_IO) {
            return error_set(err, STATUS_IO, "%s", slot->error.text);
        }
        if (!more) {
            return finish_all(c, err);
        }
        const enum status s = add_text(c, slot, &text, err);
        if (s) {
            return s;
        }
    }
}
static enum status run(struct classify *c, const struct options *opt, struct metrics *metrics,
                       struct error *err) {
    const size_t max_line = (size_t)c->cfg->server.max_body_bytes;
    enum status s = engine_open_unmeasured(&c->engine, c->cfg, metrics, err);
    if (s) {
        return s;
    }
    s = init_slots(c, err);
    if (s) {
        return s;
    }
    s = line_arenas_init(&c->scratch, &c->output, max_line, err);
    if (s) {
        return s;
    }
    struct lines in;
    lines_init(&in, opt->texts, opt->n_texts, STDIN_FILENO, max_line);
    s = classify_all(c, &in, err);
    lines_finish(&in);
    return s;
}
int cmd_classify(const struct options *opt) {
    struct classify c = {.cfg = &opt->cfg};
    struct metrics *metrics = xcalloc(1, sizeof(*metrics)); // the workers count; nobody asks
    struct error err = {.text = ""};
    const enum status s = run(&c, opt, metrics, &err);
    engine_close(c.engine); // first: after a fault jobs may still be on their way to the slots
    finish_slots(&c);
    arena_finish(&c.scratch);
    arena_finish(&c.output);
    free(metrics);
    if (s) {
        fprintf(stderr, "berth: classify: %s\n", err.text);
    }
    return s || c.any_failed ? EXIT_FAULT : 0;
}
