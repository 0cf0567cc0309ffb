/* encoder.c - the forward pass as a list of ops, run by every lane of the backend.
 * One barrier a layer, before attention, which is the only op that reads other lanes' rows; QKV
 * has two buffers, because a lane may be done with a layer while another still attends in it. A
 * classifier reads the first token of each sequence alone, so of the last layer no other row is
 * computed: attention and what follows it then work on one row a sequence. Who asks for hidden
 * states gets the last layer whole. */
#include "model/encoder.h"

#include "kernels/kernels.h"
#include "model/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct encoder {
    struct backend *be;
    const struct model_config *cfg;
    const struct model_weights *weights;
    struct encoder_limits limits;
    struct tensor qkv[2];                // [tokens, 3 * hidden]
    struct layer_buffers tokens, firsts; // a row a token; a row a sequence
    struct tensor logits;                // [seqs, n_labels]
    struct pass_shape shape;             // of the latest pass
};
struct pass {
    const struct encoder *e;
    int layer;  // that a piece of the pass runs
    float *out; // logits, or hidden states
};

/* What one axis of buffers needs; qkv_next stays zeroed, it is chosen layer by layer. */
static enum status create_buffers(struct encoder *e, struct layer_buffers *b, enum row_axis axis,
                                  int rows, struct error *err) {
    const int hidden = e->cfg->hidden;
    const struct {
        struct tensor *tensor;
        int cols;
    } wanted[] = {
        {&b->x, hidden}, {&b->ctx, hidden}, {&b->y, hidden}, {&b->ffn, e->cfg->intermediate}};
    for (size_t i = 0; i < N_ITEMS(wanted); i++) {
        const enum status s = e->be->fn->tensor_create(e->be, wanted[i].tensor, axis, rows,
                                                       wanted[i].cols, false, err);
        if (s) {
            return s;
        }
    }
    return STATUS_OK;
}

static enum status create_all(struct encoder *e, struct error *err) {
    const struct backend_fn *fn = e->be->fn;
    const struct encoder_limits *l = &e->limits;
    const struct pass_limits pass = {.max_rows = l->max_rows,
                                     .max_seqs = l->max_seqs,
                                     .max_seq_len = l->max_seq_len,
                                     .hidden = e->cfg->hidden,
                                     .intermediate = e->cfg->intermediate,
                                     .n_heads = e->cfg->n_heads,
                                     .n_layers = e->cfg->n_layers};
    enum status s = create_buffers(e, &e->tokens, AXIS_TOKENS, l->max_rows, err);
    s = s ? s : create_buffers(e, &e->firsts, AXIS_SEQS, l->max_seqs, err);
    for (int i = 0; i < 2; i++) {
        s = s ? s
              : fn->tensor_create(e->be, &e->qkv[i], AXIS_TOKENS, l->max_rows, 3 * e->cfg->hidden,
                                  false, err);
    }
    s = s ? s
          : fn->tensor_create(e->be, &e->logits, AXIS_SEQS, l->max_seqs, e->cfg->n_labels, true,
                              err);
    return s ? s : fn->reserve(e->be, &pass, err);
}

enum status encoder_create(struct encoder **out, struct backend *be, const struct model_config *cfg,
                           const struct model_weights *w, const struct encoder_limits *limits,
                           struct error *err) {
    assert(limits->slot >= 0 && limits->slot < be->n_slots);
    if (limits->max_rows < 1 || limits->max_seqs < 1 || limits->max_seq_len < 1 ||
        limits->max_seq_len > cfg->max_position) {
        return error_set(err, STATUS_INVALID,
                         "an encoder for %d rows, %d sequences, %d tokens each: the model has %d "
                         "positions",
                         limits->max_rows, limits->max_seqs, limits->max_seq_len,
                         cfg->max_position);
    }
    struct encoder *e = xcalloc(1, sizeof(*e));
    e->be = be;
    e->cfg = cfg;
    e->weights = w;
    e->limits = *limits;
    const enum status s = create_all(e, err);
    if (s) {
        encoder_destroy(e);
        return s;
    }
    *out = e;
    return STATUS_OK;
}

static void destroy_buffers(struct backend *be, struct layer_buffers *b) {
    be->fn->tensor_destroy(be, &b->x);
    be->fn->tensor_destroy(be, &b->ctx);
    be->fn->tensor_destroy(be, &b->y);
    be->fn->tensor_destroy(be, &b->ffn);
}

void encoder_destroy(struct encoder *e) {
    if (e) {
        destroy_buffers(e->be, &e->tokens);
        destroy_buffers(e->be, &e->firsts);
        e->be->fn->tensor_destroy(e->be, &e->qkv[0]);
        e->be->fn->tensor_destroy(e->be, &e->qkv[1]);
        e->be->fn->tensor_destroy(e->be, &e->logits);
        free(e);
    }
}

static void embed(struct lane *ln, const struct encoder *e) {
    const struct model_weights *w = e->weights;
    const struct backend_fn *fn = e->be->fn;
    ln->layer = w->n_layers; // of no layer
    fn->embed_layernorm(ln, &e->tokens.x, &w->embedding);
    ln->layer = 0;
    fn->linear(ln, &e->qkv[0], &e->tokens.x, w->layers[0].qkv, ACT_NONE, NULL);
}

/* Layer `i`, whole, and the QKV of the one after it if there is one. */
static void run_layer(struct lane *ln, const struct encoder *e, int i) {
    const struct model_weights *w = e->weights;
    const struct backend_fn *fn = e->be->fn;
    struct layer_buffers b = e->tokens;
    b.qkv_next = e->qkv[(i + 1) & 1];
    ln->layer = i;
    fn->barrier(ln);
    fn->attention(ln, &b.ctx, &e->qkv[i & 1], e->cfg->n_heads);
    fn->layer_rest(ln, &b, &w->layers[i], i + 1 < w->n_layers ? w->layers[i + 1].qkv : NULL);
}

static void run_last(struct lane *ln, const struct pass *pass) {
    const struct encoder *e = pass->e;
    const struct model_weights *w = e->weights;
    const struct backend_fn *fn = e->be->fn;
    const int last = w->n_layers - 1;
    ln->layer = last;
    fn->barrier(ln);
    fn->attention(ln, &e->firsts.ctx, &e->qkv[last & 1], e->cfg->n_heads);
    ln->layer = w->n_layers;
    fn->pool(ln, &e->firsts.x, &e->tokens.x, POOL_FIRST);
    ln->layer = last;
    fn->layer_rest(ln, &e->firsts, &w->layers[last], NULL);
    ln->layer = w->n_layers;
    fn->head(ln, &e->logits, &e->firsts.x, &e->firsts.y, &w->head);
    fn->fetch(ln, pass->out, &e->logits);
}

static void classify(struct lane *ln, const void *arg) {
    const struct pass *pass = arg;
    embed(ln, pass->e);
    for (int i = 0; i < pass->e->weights->n_layers - 1; i++) {
        run_layer(ln, pass->e, i);
    }
    run_last(ln, pass);
}

/* One layer of classify(): what stands between two borders. */
static void classify_piece(struct lane *ln, const void *arg) {
    const struct pass *pass = arg;
    if (pass->layer == 0) {
        embed(ln, pass->e);
    }
    if (pass->layer < pass->e->weights->n_layers - 1) {
        run_layer(ln, pass->e, pass->layer);
    } else {
        run_last(ln, pass);
    }
}

static void all_rows(struct lane *ln, const void *arg) {
    const struct pass *pass = arg;
    embed(ln, pass->e);
    for (int i = 0; i < pass->e->weights->n_layers; i++) {
        run_layer(ln, pass->e, i);
    }
    ln->layer = pass->e->weights->n_layers;
    pass->e->be->fn->fetch(ln, pass->out, &pass->e->tokens.x);
}

/* What a batch promises. The tokenizer's vocabulary was compared with the model's at start-up, so
 * no client can bring an id that the tables do not have. */
static void check_batch(const struct encoder *e, const struct token_batch *b) {
    assert(b->n_seqs >= 1 && b->n_seqs <= e->limits.max_seqs);
    assert(b->n_rows <= e->limits.max_rows && b->max_seq_len <= e->limits.max_seq_len);
    assert(b->cu_seqlens[0] == 0 && b->cu_seqlens[b->n_seqs] == b->n_rows);
    for (int s = 0; s < b->n_seqs; s++) {
        const int rows = b->cu_seqlens[s + 1] - b->cu_seqlens[s];
        assert(b->seq_lens[s] >= 1 && b->seq_lens[s] <= rows && b->seq_lens[s] <= b->max_seq_len);
        assert(rows <= e->cfg->max_position);
    }
    for (int r = 0; r < b->n_rows; r++) {
        assert(b->token_ids[r] >= 0 && b->token_ids[r] < e->cfg->vocab_size);
        assert(b->token_type_ids[r] >= 0 && b->token_type_ids[r] < e->cfg->type_vocab_size);
    }
}

static enum status run_pass(struct encoder *e, program_fn *program, float *out,
                            const struct token_batch *batch, struct op_times *times,
                            struct error *err) {
    const struct backend_fn *fn = e->be->fn;
    const struct pass pass = {.e = e, .out = out};
    enum status s = STATUS_OK;
    check_batch(e, batch);
    e->shape = pass_shape_of(batch, program == classify);
    fn->batch_begin(e->be, e->limits.slot, batch);
    fn->batch_submit(e->be, e->limits.slot, program, &pass);
    fn->batch_end(e->be, e->limits.slot, true, &s, times, err);
    return s;
}

enum status encoder_forward(struct encoder *e, float *logits, const struct token_batch *batch,
                            struct op_times *times, struct error *err) {
    return run_pass(e, classify, logits, batch, times, err);
}

enum status encoder_forward_in_steps(struct encoder *e, float *logits,
                                     const struct token_batch *batch, border_fn *border,
                                     void *border_arg, struct op_times *times, struct error *err) {
    const struct backend_fn *fn = e->be->fn;
    const int slot = e->limits.slot, n_layers = e->weights->n_layers;
    struct pass pass = {.e = e, .out = logits};
    enum status s = STATUS_OK;
    check_batch(e, batch);
    e->shape = pass_shape_of(batch, true);
    fn->batch_begin(e->be, slot, batch);
    for (; pass.layer < n_layers; pass.layer++) {
        if (pass.layer > 0) {
            border(border_arg, n_layers - pass.layer, n_layers);
        }
        fn->batch_submit(e->be, slot, classify_piece, &pass);
    }
    fn->batch_end(e->be, slot, true, &s, times, err);
    return s;
}

enum status encoder_hidden(struct encoder *e, float *hidden, const struct token_batch *batch,
                           struct op_times *times, struct error *err) {
    return run_pass(e, all_rows, hidden, batch, times, err);
}

void encoder_profile(const struct encoder *e, struct op_profile *sum) {
    assert(sum->n_layers == e->cfg->n_layers && e->shape.n_seqs > 0);
    pass_count(sum, &e->shape, e->cfg, e->be->dtype);
    e->be->fn->profile(e->be, e->limits.slot, sum);
}
