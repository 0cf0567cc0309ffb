/* routes_tei.c - the routes of text-embeddings-inference: /predict and /tokenize.
 * start() reads the body, then tokenizes straight into the request's arena, so the jobs it leaves
 * need nothing more; finish() runs when the last of them is done. A request is answered whole or
 * refused whole, unless it asked for errors in the places of the inputs that fail ("partial"). What
 * a step that failed had taken from the arena is given back first, so that there is room to say
 * why. */
#include "model/head.h"
#include "server/body.h"
#include "server/json.h"
#include "server/response.h"
#include "server/routes_internal.h"
#include "server/worker.h"

#include <stdio.h>
#include <string.h>

/* True: the input's place keeps the reason, and the rest goes on. */
static bool refuse_encoding(struct request *r, struct input *in, enum status s, const char *place,
                            const struct encoding *e, int limit, const struct error *err) {
    if (s == STATUS_TOO_LONG) {
        return reply_item_error(
            r, in, REFUSE_VALIDATION,
            "%s has %lld tokens, the limit is %d (\"truncate\": true would cut it)", place,
            (long long)e->n_tokens_uncut, limit);
    }
    if (s == STATUS_NO_MEMORY) {
        reply_error(r, REFUSE_TOO_LARGE,
                    "%s needs more memory than a request may take; send fewer or shorter inputs",
                    place);
    } else {
        reply_error(r, refusal_of_status(s), "%s: %s", place, err->text);
    }
    return false;
}

/* One input to its ids, or to its error; false with a reply. */
static bool encode_input(struct encoding *out, struct request *r, const struct text_body *b,
                         int index, const struct tokenizer *t, const struct encode_options *opt) {
    struct input *in = &b->inputs[index];
    struct error err = {""};
    memset(out, 0, sizeof(*out));
    const size_t before = r->arena.used;
    const enum status s = tokenizer_encode(t, out, &in->first, in->is_pair ? &in->second : NULL,
                                           opt, &r->arena, &err);
    if (s) {
        r->arena.used = before;
        return refuse_encoding(r, in, s, input_place(b->is_batch, index).text, out, opt->max_tokens,
                               &err);
    }
    in->n_tokens_uncut = out->n_tokens_uncut;
    return true;
}

/* One input to a job at r->jobs[r->n_jobs], or to its error; false with a reply. */
static bool add_job(struct request *r, const struct text_body *b, int index,
                    const struct tokenizer *t, const struct encode_options *opt) {
    struct input *in = &b->inputs[index];
    struct encoding e;
    in->job = -1;
    if (in->error) {
        return true; // empty: body.c has seen it
    }
    if (!encode_input(&e, r, b, index, t, opt)) {
        return false;
    }
    if (in->error) {
        return true;
    }
    if (e.n_tokens == 0) {
        return reply_item_error(r, in, REFUSE_EMPTY, "%s has no tokens",
                                input_place(b->is_batch, index).text);
    }
    in->job = r->n_jobs++;
    r->jobs[in->job] = (struct job){.token_ids = e.token_ids,
                                    .token_type_ids = e.token_type_ids,
                                    .n_tokens = e.n_tokens,
                                    .owner = r};
    r->n_truncated += e.n_tokens_uncut > e.n_tokens;
    return true;
}
static bool check_pairs(struct request *r, const struct text_body *b, bool takes_pairs) {
    for (int i = 0; i < b->n_inputs && !takes_pairs; i++) {
        if (b->inputs[i].is_pair) {
            reply_error(r, REFUSE_TASK, "%s is a pair, which this model does not take",
                        input_place(b->is_batch, i).text);
            return false;
        }
    }
    return true;
}
/* Room for every job's profile; a request that is too large for that goes without. */
static void add_profiles(struct request *r, int n_layers) {
    const size_t size = worker_profile_size(n_layers), n = (size_t)r->n_jobs;
    int64_t *ns = r->wants_profile ? arena_alloc(&r->arena, n * size, sizeof(*ns)) : NULL;
    if (ns) {
        memset(ns, 0, n * size * sizeof(*ns));
        r->n_profile_layers = n_layers;
    }
    for (size_t i = 0; i < n && ns; i++) {
        r->jobs[i].profile_ns = ns + i * size;
    }
}
/* All inputs to jobs; false with a reply, and then there are none. */
static bool make_jobs(struct server_context *ctx, struct request *r, const struct text_body *b) {
    const struct engine *engine = atomic_load(&ctx->engine);
    const struct engine_info *info = engine_get_info(engine);
    const size_t n_labels = (size_t)engine_model(engine)->n_labels, n = (size_t)b->n_inputs;
    const struct encode_options opt = {.max_tokens = info->max_input_tokens,
                                       .truncate = b->truncate,
                                       .side = b->side,
                                       .add_special_tokens = true};
    r->jobs = arena_alloc(&r->arena, n, sizeof(*r->jobs));
    float *logits = arena_alloc(&r->arena, n, n_labels * sizeof(*logits));
    if (!r->jobs || !logits) {
        reply_error(r, REFUSE_TOO_LARGE, "no room for %zu inputs", n);
        return false;
    }
    bool ok = check_pairs(r, b, info->takes_pairs);
    for (int i = 0; ok && i < b->n_inputs; i++) {
        ok = add_job(r, b, i, engine_tokenizer(engine), &opt);
    }
    r->n_jobs = ok ? r->n_jobs : 0;
    for (int i = 0; i < r->n_jobs; i++) {
        r->jobs[i].logits = logits + (size_t)i * n_labels;
    }
    add_profiles(r, engine_model(engine)->n_layers);
    return ok;
}

static int64_t tokens_cut(const struct request *r) {
    int64_t n = 0;
    for (int i = 0; i < r->n_inputs; i++) {
        const struct input *in = &r->inputs[i];
        n += in->job >= 0 ? in->n_tokens_uncut - r->jobs[in->job].n_tokens : 0;
    }
    return n;
}
static void count_inputs(struct metrics *m, const struct request *r) {
    for (int i = 0; i < r->n_jobs; i++) {
        histogram_record(&m->input_tokens, r->jobs[i].n_tokens);
    }
    atomic_fetch_add_explicit(&m->tokens_truncated, (uint_fast64_t)tokens_cut(r),
                              memory_order_relaxed);
}

void predict_start(struct server_context *ctx, struct request *r) {
    struct text_body body;
    const bool ok = body_read_predict(&body, r, ctx->cfg);
    stage_clock_end(&r->clock, STAGE_PARSE, time_now_ns());
    if (!ok) {
        return;
    }
    r->inputs = body.inputs;
    r->n_inputs = body.n_inputs;
    r->is_batch = body.is_batch;
    r->raw_scores = body.raw_scores;
    r->n_chars = body.n_chars;
    const bool are_made = make_jobs(ctx, r, &body);
    stage_clock_end(&r->clock, STAGE_TOKENIZE, time_now_ns());
    if (are_made) {
        count_inputs(ctx->metrics, r);
        recorder_note(ctx->recorder, r->jobs, r->n_jobs, time_now_ns());
        if (r->n_jobs == 0) { // every input has failed by itself
            predict_finish(ctx, r);
        }
    }
}

static enum status status_of(const struct request *r, const struct input *in) {
    return in->job >= 0 ? r->jobs[in->job].status : STATUS_OK;
}
/* True: the input's place keeps the reason. False: the request is refused for it. */
static bool fail_input(struct request *r, int index) {
    struct input *in = &r->inputs[index];
    const enum status s = status_of(r, in);
    const struct input_place place = input_place(r->is_batch, index);
    return reply_item_error(r, in, refusal_of_status(s),
                            s == STATUS_RESULT    ? "the model's result for %s is not finite"
                            : s == STATUS_BACKEND ? "the device failed at %s"
                            : s == STATUS_TIMEOUT ? "%s was not computed before its deadline"
                                                  : "%s was not computed",
                            place.text);
}
/* The input for which a request is refused whole; -1: none. A device that failed comes before a
 * result that is not finite, because trying again may help then. */
static int worst_input(const struct request *r) {
    int worst = -1;
    for (int i = 0; i < r->n_inputs; i++) {
        const enum status s = status_of(r, &r->inputs[i]);
        const bool is_first = worst < 0 || status_of(r, &r->inputs[worst]) == STATUS_RESULT;
        if (s && is_first && (worst < 0 || s != STATUS_RESULT)) {
            worst = i;
        }
    }
    return worst;
}
static bool check_jobs(struct request *r) {
    const int worst = worst_input(r);
    if (worst >= 0 && !r->is_partial) {
        return fail_input(r, worst);
    }
    for (int i = 0; worst >= 0 && i < r->n_inputs; i++) {
        if (status_of(r, &r->inputs[i]) && !fail_input(r, i)) {
            return false;
        }
    }
    return true;
}

static void write_labels(struct json_writer *w, const float *scores, const int *order,
                         const struct model_config *model) {
    json_write_raw(w, "[");
    for (int k = 0; k < model->n_labels; k++) {
        const char *label = model->labels[order[k]];
        json_write_raw(w, k ? ",{\"score\":" : "{\"score\":");
        json_write_float(w, scores[order[k]]);
        json_write_raw(w, ",\"label\":");
        json_write_string(w, label, strlen(label));
        json_write_raw(w, "}");
    }
    json_write_raw(w, "]");
}

/* `Berth-Truncated: inputs=1, tokens=188`. */
static void tell_truncation(struct request *r) {
    enum { BYTES = 64 };
    char *text = r->n_truncated > 0 ? arena_alloc(&r->arena, BYTES, 1) : NULL;
    if (text) {
        snprintf(text, BYTES, "inputs=%d, tokens=%lld", r->n_truncated, (long long)tokens_cut(r));
        reply_header(r, "Berth-Truncated", text);
    }
}

static void reply_written(struct request *r, struct json_writer *w) {
    if (w->failed) {
        if (w->data) {
            arena_resize_last(&r->arena, w->data, 0, 1);
        }
        reply_error(r, REFUSE_TOO_LARGE,
                    "the answer needs more memory than a request may take; send fewer inputs");
    } else {
        reply_json(r, 200, w->data, w->len);
    }
}

/* {"error":"inputs[1] is empty","error_type":"Empty"} */
static void write_item_error(struct json_writer *w, const struct input *in) {
    json_write_raw(w, "{\"error\":");
    json_write_string(w, in->error, strlen(in->error));
    json_write_raw(w, ",\"error_type\":");
    json_write_string(w, in->error_type, strlen(in->error_type));
    json_write_raw(w, "}");
}
static void write_answer(struct request *r, const float *scores, const int *order,
                         const struct model_config *model) {
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, r->is_batch ? "[" : "");
    for (int i = 0; i < r->n_inputs; i++) {
        const struct input *in = &r->inputs[i];
        const size_t at = (size_t)(in->job > 0 ? in->job : 0) * (size_t)model->n_labels;
        json_write_raw(&w, i ? "," : "");
        if (in->error) {
            write_item_error(&w, in);
        } else {
            write_labels(&w, scores + at, order + at, model);
        }
    }
    json_write_raw(&w, r->is_batch ? "]" : "");
    reply_written(r, &w);
}
static void count_failed_items(struct metrics *m, const struct request *r) {
    for (int i = 0; i < r->n_inputs; i++) {
        atomic_fetch_add_explicit(&m->items_failed, r->inputs[i].error != NULL,
                                  memory_order_relaxed);
    }
}
void predict_finish(struct server_context *ctx, struct request *r) {
    const struct model_config *model = engine_model(atomic_load(&ctx->engine));
    const size_t n_labels = (size_t)model->n_labels, n = (size_t)r->n_inputs;
    if (!check_jobs(r)) {
        return;
    }
    float *scores = arena_alloc(&r->arena, n, n_labels * sizeof(*scores));
    int *order = arena_alloc(&r->arena, n, n_labels * sizeof(*order));
    if (!scores || !order) {
        reply_error(r, REFUSE_TOO_LARGE, "no room for the scores of %d inputs", r->n_inputs);
        return;
    }
    for (size_t i = 0; i < (size_t)r->n_jobs; i++) {
        if (r->jobs[i].status) {
            continue; // there are no logits
        }
        head_scores(scores + i * n_labels, r->jobs[i].logits, model->n_labels,
                    r->raw_scores ? SCORE_NONE : model->score);
        head_sort(order + i * n_labels, scores + i * n_labels, model->n_labels);
    }
    stage_clock_end(&r->clock, STAGE_POST, time_now_ns());
    tell_truncation(r);
    count_failed_items(ctx->metrics, r);
    write_answer(r, scores, order, model);
}

static void write_token(struct json_writer *w, const struct tokenizer *t, const struct text *text,
                        const struct encoding *e, int i) {
    const struct span *span = &e->spans[i];
    json_write_raw(w, "{\"id\":");
    json_write_int(w, e->token_ids[i]);
    json_write_raw(w, ",\"text\":");
    if (e->is_special[i]) {
        const char *entry = tokenizer_token(t, e->token_ids[i]);
        json_write_string(w, entry ? entry : "", entry ? strlen(entry) : 0);
        json_write_raw(w, ",\"special\":true,\"start\":null,\"stop\":null}");
        return;
    }
    json_write_string(w, text->bytes + span->start, (size_t)(span->end - span->start));
    json_write_raw(w, ",\"special\":false,\"start\":");
    json_write_int(w, span->start);
    json_write_raw(w, ",\"stop\":");
    json_write_int(w, span->end);
    json_write_raw(w, "}");
}

/* Every input's encoding, in the arena; NULL with a reply. */
static const struct encoding *encode_all(struct request *r, const struct text_body *b,
                                         const struct tokenizer *t) {
    struct encoding *e = arena_alloc(&r->arena, (size_t)b->n_inputs, sizeof(*e));
    const struct encode_options opt = {.add_special_tokens = b->add_special_tokens,
                                       .want_spans = true};
    if (!e) {
        reply_error(r, REFUSE_TOO_LARGE, "no room for %d inputs", b->n_inputs);
    }
    for (int i = 0; e && i < b->n_inputs; i++) {
        e = encode_input(&e[i], r, b, i, t, &opt) ? e : NULL;
    }
    return e;
}

void tokenize_start(struct server_context *ctx, struct request *r) {
    const struct tokenizer *t = engine_tokenizer(atomic_load(&ctx->engine));
    struct text_body body;
    const bool ok = body_read_tokenize(&body, r, ctx->cfg);
    stage_clock_end(&r->clock, STAGE_PARSE, time_now_ns());
    if (!ok) {
        return;
    }
    r->n_chars = body.n_chars;
    const struct encoding *encodings = encode_all(r, &body, t);
    stage_clock_end(&r->clock, STAGE_TOKENIZE, time_now_ns());
    if (!encodings) {
        return;
    }
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    for (int i = 0; i < body.n_inputs; i++) {
        json_write_raw(&w, i ? "],[" : "[[");
        for (int k = 0; k < encodings[i].n_tokens; k++) {
            json_write_raw(&w, k ? "," : "");
            write_token(&w, t, &body.inputs[i].first, &encodings[i], k);
        }
    }
    json_write_raw(&w, "]]");
    reply_written(r, &w);
}
