/* net.c - the list of ops of an encoder, over random weights of a size that keeps activations at
 * unit variance. */
#include "tests/kernels/net.h"
#include "tests/kernels/check.h"
#include <math.h>
#include <string.h>

static struct linear_part random_part(int n, int k) {
    return (struct linear_part){.weight = check_host(n, k, 1 / sqrtf((float)k), DTYPE_F32),
                                .bias = check_host(1, n, 0.1f, DTYPE_F32),
                                .scale = 1};
}
static void free_part(struct linear_part *p) {
    check_host_free(&p->weight), check_host_free(&p->bias);
}

void net_host_init(struct net_host *h, const struct net_shape *shape) {
    memset(h, 0, sizeof(*h));
    h->shape = *shape;
    const int hidden = h->hidden = shape->n_heads * shape->head_dim;
    h->words = check_host(NET_VOCAB, hidden, 1, DTYPE_F32);
    h->positions = check_host(NET_POSITIONS, hidden, 1, DTYPE_F32);
    h->types = check_host(2, hidden, 1, DTYPE_F32);
    for (int i = 0; i < 2 * shape->n_layers + 1; i++) {
        h->gamma[i] = check_host(1, hidden, 1, DTYPE_F32);
        h->beta[i] = check_host(1, hidden, 0.1f, DTYPE_F32);
    }
    for (int i = 0; i < shape->n_layers; i++) {
        for (int part = 0; part < 3; part++) {
            h->qkv[i][part] = random_part(hidden, hidden);
        }
        h->out[i] = random_part(hidden, hidden);
        h->up[i] = random_part(shape->intermediate, hidden);
        h->down[i] = random_part(hidden, shape->intermediate);
        h->out[i].by_seq = h->up[i].by_seq = h->down[i].by_seq = i == shape->n_layers - 1;
    }
    h->head = random_part(shape->n_labels, hidden);
    h->head.exact = true; // as models have it
}
void net_host_finish(struct net_host *h) {
    check_host_free(&h->words), check_host_free(&h->positions), check_host_free(&h->types);
    for (int i = 0; i < 2 * h->shape.n_layers + 1; i++) {
        check_host_free(&h->gamma[i]), check_host_free(&h->beta[i]);
    }
    for (int i = 0; i < h->shape.n_layers; i++) {
        for (int part = 0; part < 3; part++) {
            free_part(&h->qkv[i][part]);
        }
        free_part(&h->out[i]), free_part(&h->up[i]), free_part(&h->down[i]);
    }
    free_part(&h->head);
}

static void make_linear(struct linear_weight **w, struct backend *be,
                        const struct linear_part *parts, int n_parts) {
    struct error err;
    assert_int_equal(be->fn->linear_create(be, w, parts, n_parts, &err), STATUS_OK);
}
static void make_norm(struct norm_weight **w, struct backend *be, const struct net_host *h, int i) {
    struct error err;
    assert_int_equal(be->fn->norm_create(be, w, &h->gamma[i], &h->beta[i], 1e-12f, &err), 0);
}
static void make_table(struct table_weight **w, struct backend *be, const struct host_tensor *t) {
    struct error err;
    assert_int_equal(be->fn->table_create(be, w, t, &err), STATUS_OK);
}

void net_weights_make(struct net_weights *w, struct backend *be, const struct net_host *h) {
    make_table(&w->embedding.words, be, &h->words);
    make_table(&w->embedding.positions, be, &h->positions);
    make_table(&w->embedding.types, be, &h->types);
    make_norm(&w->embedding.norm, be, h, 0);
    for (int i = 0; i < h->shape.n_layers; i++) {
        struct layer_weights *l = &w->layers[i];
        struct linear_part qkv[3] = {h->qkv[i][0], h->qkv[i][1], h->qkv[i][2]};
        qkv[0].scale = be->fn->query_scale(be, h->shape.head_dim);
        make_linear(&l->qkv, be, qkv, 3);
        make_linear(&l->attention_out, be, &h->out[i], 1);
        make_linear(&l->intermediate, be, &h->up[i], 1);
        make_linear(&l->output, be, &h->down[i], 1);
        make_norm(&l->attention_norm, be, h, 2 * i + 1);
        make_norm(&l->output_norm, be, h, 2 * i + 2);
        l->activation = h->shape.activation;
    }
    w->head.dense = NULL;
    make_linear(&w->head.classifier, be, &h->head, 1);
}
void net_weights_finish(struct net_weights *w, struct backend *be, int n_layers) {
    be->fn->table_destroy(be, w->embedding.words);
    be->fn->table_destroy(be, w->embedding.positions);
    be->fn->table_destroy(be, w->embedding.types);
    be->fn->norm_destroy(be, w->embedding.norm);
    for (int i = 0; i < n_layers; i++) {
        struct layer_weights *l = &w->layers[i];
        be->fn->linear_destroy(be, l->qkv), be->fn->linear_destroy(be, l->attention_out);
        be->fn->linear_destroy(be, l->intermediate), be->fn->linear_destroy(be, l->output);
        be->fn->norm_destroy(be, l->attention_norm), be->fn->norm_destroy(be, l->output_norm);
    }
    be->fn->linear_destroy(be, w->head.classifier);
}

static void make_tensor(struct backend *be, struct tensor *t, enum row_axis axis, int rows,
                        int cols, bool exact) {
    struct error err;
    assert_int_equal(be->fn->tensor_create(be, t, axis, rows, cols, exact, &err), STATUS_OK);
}
static void make_buffers(struct backend *be, struct layer_buffers *b, const struct net_host *h,
                         enum row_axis axis, int rows) {
    make_tensor(be, &b->x, axis, rows, h->hidden, false);
    make_tensor(be, &b->ctx, axis, rows, h->hidden, false);
    make_tensor(be, &b->y, axis, rows, h->hidden, false);
    make_tensor(be, &b->ffn, axis, rows, h->shape.intermediate, false);
}
static void free_buffers(struct backend *be, struct layer_buffers *b) {
    be->fn->tensor_destroy(be, &b->x), be->fn->tensor_destroy(be, &b->ctx);
    be->fn->tensor_destroy(be, &b->y), be->fn->tensor_destroy(be, &b->ffn);
}

void net_init(struct net *n, struct backend *be, const struct net_host *h,
              const struct net_weights *w, int max_rows, int max_seqs, int max_seq_len) {
    const struct pass_limits limits = {
        max_rows,         max_seqs,         max_seq_len, h->hidden, h->shape.intermediate,
        h->shape.n_heads, h->shape.n_layers};
    struct error err;
    memset(n, 0, sizeof(*n));
    n->be = be, n->host = h, n->w = w;
    make_buffers(be, &n->tokens, h, AXIS_TOKENS, max_rows);
    make_buffers(be, &n->firsts, h, AXIS_SEQS, max_seqs);
    make_tensor(be, &n->qkv[0], AXIS_TOKENS, max_rows, 3 * h->hidden, false);
    make_tensor(be, &n->qkv[1], AXIS_TOKENS, max_rows, 3 * h->hidden, false);
    make_tensor(be, &n->logits, AXIS_SEQS, max_seqs, h->shape.n_labels, true);
    assert_int_equal(be->fn->reserve(be, &limits, &err), STATUS_OK);
}
void net_finish(struct net *n) {
    free_buffers(n->be, &n->tokens), free_buffers(n->be, &n->firsts);
    n->be->fn->tensor_destroy(n->be, &n->qkv[0]);
    n->be->fn->tensor_destroy(n->be, &n->qkv[1]);
    n->be->fn->tensor_destroy(n->be, &n->logits);
}

void net_program(struct lane *ln, const void *arg) {
    const struct net_pass *pass = arg;
    const struct net *n = pass->net;
    const struct net_shape *shape = &n->host->shape;
    const struct backend_fn *fn = ln->be->fn;
    const int n_whole = pass->hidden ? shape->n_layers : shape->n_layers - 1;
    ln->layer = shape->n_layers; // of no layer
    fn->embed_layernorm(ln, &n->tokens.x, &n->w->embedding);
    ln->layer = 0;
    fn->linear(ln, &n->qkv[0], &n->tokens.x, n->w->layers[0].qkv, ACT_NONE, NULL);
    for (int i = 0; i < n_whole; i++) {
        struct layer_buffers b = n->tokens;
        b.qkv_next = n->qkv[(i + 1) & 1];
        ln->layer = i;
        fn->barrier(ln);
        fn->attention(ln, &b.ctx, &n->qkv[i & 1], shape->n_heads);
        fn->layer_rest(ln, &b, &n->w->layers[i],
                       i + 1 < shape->n_layers ? n->w->layers[i + 1].qkv : NULL);
    }
    if (pass->hidden) {
        fn->fetch(ln, pass->hidden, &n->tokens.x);
        return;
    }
    ln->layer = n_whole;
    fn->barrier(ln);
    fn->attention(ln, &n->firsts.ctx, &n->qkv[n_whole & 1], shape->n_heads);
    fn->pool(ln, &n->firsts.x, &n->tokens.x, POOL_FIRST);
    fn->layer_rest(ln, &n->firsts, &n->w->layers[n_whole], NULL);
    ln->layer = shape->n_layers;
    fn->head(ln, &n->logits, &n->firsts.x, &n->firsts.y, &n->w->head);
    fn->fetch(ln, pass->logits, &n->logits);
}
