/* layers.c - whole passes: against the reference, in both plans; and the promise of equal bits: a
 * sequence's result alone is its result in any batch, padded or packed, on any number of lanes, by
 * panel walk or by the small ops. */
#include "tests/kernels/check.h"
#include "tests/kernels/net.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 2000, MAX_SEQS = 130, MAX_LEN = 300 };

/* head counts and dims that fit no vector; k of two blocks, the last one short. */
static const struct net_shape shapes[] = {
    {.n_heads = 1, .head_dim = 37, .intermediate = 31, .n_layers = 2, .n_labels = 2},
    {.n_heads = 3, .head_dim = 5, .intermediate = 410, .n_layers = 3, .n_labels = 1},
    {.n_heads = 4, .head_dim = 16, .intermediate = 96, .n_layers = 3, .n_labels = 7},
    {.n_heads = 10, .head_dim = 39, .intermediate = 100, .n_layers = 2, .n_labels = 3},
};
static const int n_lanes_tried[] = {1, 2, 3, 5};

static struct net_host random_host(size_t i) {
    struct net_shape shape = shapes[i];
    shape.activation = i == 2 ? ACT_GELU_TANH : ACT_GELU;
    struct net_host h;
    net_host_init(&h, &shape);
    return h;
}
/* Few rows, few and padded, many sequences, very many short ones, two long ones. `wide` networks
 * get less of each: the reference is slow. */
static struct batch random_batch(int kind, bool wide) {
    switch (kind) {
    case 0: return check_batch(1, 12, 0);
    case 1: return check_batch(4, 6, 2);
    case 2: return check_batch(wide ? 3 : 9, wide ? 15 : 40, 0);
    case 3: return check_batch(wide ? 26 : 70, wide ? 1 : 5, wide ? 1 : 3);
    default: return check_batch(wide ? 1 : 2, wide ? 60 : 150, 0);
    }
}
enum { N_BATCH_KINDS = 5 };

/* Both programs; the caller frees. */
struct result {
    float *hidden, *logits;
};
static struct result run_net(const struct net *n, const struct token_batch *b) {
    struct result r = {xcalloc((size_t)b->n_rows * (size_t)n->host->hidden, sizeof(float)),
                       xcalloc((size_t)b->n_seqs * (size_t)n->host->shape.n_labels, sizeof(float))};
    const struct net_pass whole = {.net = n, .hidden = r.hidden};
    const struct net_pass classify = {.net = n, .logits = r.logits};
    check_run(n->be, b, net_program, &whole);
    check_run(n->be, b, net_program, &classify);
    return r;
}
static void free_result(struct result *r) {
    free(r->hidden), free(r->logits);
}

static void check_near(const float *got, const float *want, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - want[i];
        if (!(d <= 1e-4 && d >= -1e-4)) {
            fail_msg("%s: float %zu is %.9g, the reference says %.9g", what, i, got[i], want[i]);
        }
    }
}
static void compare_nets(const struct net *dev, const struct net *ref) {
    for (int kind = 0; kind < N_BATCH_KINDS; kind++) {
        struct batch b = random_batch(kind, dev->host->hidden > 100);
        struct result got = run_net(dev, &b.b), want = run_net(ref, &b.b);
        check_near(got.hidden, want.hidden, (size_t)b.b.n_rows * (size_t)dev->host->hidden,
                   dev->be->detail);
        check_near(got.logits, want.logits, (size_t)b.b.n_seqs * (size_t)dev->host->shape.n_labels,
                   dev->be->detail);
        free_result(&got), free_result(&want);
        check_batch_free(&b);
    }
}
static void test_reference(void **unused) {
    for (const char *const *isa = check_isas(); *isa; isa++) {
        for (size_t i = 0; i < N_ITEMS(shapes); i++) {
            struct pair p = check_pair(*isa, n_lanes_tried[i]);
            struct net_host h = random_host(i);
            struct net_weights w[2];
            struct net nets[2];
            net_weights_make(&w[0], p.ref, &h), net_weights_make(&w[1], p.dev, &h);
            net_init(&nets[0], p.ref, &h, &w[0], MAX_ROWS, MAX_SEQS, MAX_LEN);
            net_init(&nets[1], p.dev, &h, &w[1], MAX_ROWS, MAX_SEQS, MAX_LEN);
            compare_nets(&nets[1], &nets[0]);
            net_finish(&nets[0]), net_finish(&nets[1]);
            net_weights_finish(&w[0], p.ref, h.shape.n_layers);
            net_weights_finish(&w[1], p.dev, h.shape.n_layers);
            net_host_finish(&h);
            check_pair_finish(&p);
        }
    }
}

/* Every sequence of the batch alone, on one lane; what a batch of them all should give. */
static struct result run_alone(const struct net *one_lane, const struct token_batch *b) {
    const size_t hidden = (size_t)one_lane->host->hidden;
    const size_t n_labels = (size_t)one_lane->host->shape.n_labels;
    struct result all = {xcalloc((size_t)b->n_rows * hidden, sizeof(float)),
                         xcalloc((size_t)b->n_seqs * n_labels, sizeof(float))};
    for (int s = 0; s < b->n_seqs; s++) {
        const int first = b->cu_seqlens[s], len = b->seq_lens[s];
        const int32_t cu[2] = {0, len};
        const struct token_batch alone = {
            b->token_ids + first, b->token_type_ids + first, cu, &len, 1, len, len};
        struct result r = run_net(one_lane, &alone);
        memcpy(all.hidden + (size_t)first * hidden, r.hidden, (size_t)len * hidden * sizeof(float));
        memcpy(all.logits + (size_t)s * n_labels, r.logits, n_labels * sizeof(float));
        free_result(&r);
    }
    return all;
}
static void check_same(const struct net *n, const struct token_batch *b, const struct result *got,
                       const struct result *want) {
    const size_t hidden = (size_t)n->host->hidden;
    for (int s = 0; s < b->n_seqs; s++) {
        const size_t first = (size_t)b->cu_seqlens[s] * hidden;
        check_same_bits(got->hidden + first, want->hidden + first, (size_t)b->seq_lens[s] * hidden,
                        "hidden in a batch and alone");
    }
    check_same_bits(got->logits, want->logits, (size_t)b->n_seqs * (size_t)n->host->shape.n_labels,
                    "logits in a batch and alone");
}
static void check_bits(const char *isa, enum precision precision, size_t shape) {
    enum { N_LANES = N_ITEMS(n_lanes_tried) };
    struct pair p[N_LANES];
    struct net nets[N_LANES];
    struct net_weights w;
    struct net_host h = random_host(shape);
    for (size_t i = 0; i < N_LANES; i++) {
        p[i] = check_pair_in(isa, n_lanes_tried[i], precision);
        if (i == 0) { // made by one backend, used by all of its ISA
            net_weights_make(&w, p[0].dev, &h);
        }
        net_init(&nets[i], p[i].dev, &h, &w, MAX_ROWS, MAX_SEQS, MAX_LEN);
    }
    for (int kind = 0; kind < N_BATCH_KINDS; kind++) {
        struct batch b = random_batch(kind, h.hidden > 100);
        struct result alone = run_alone(&nets[0], &b.b);
        for (size_t i = 0; i < N_LANES; i++) {
            check_case(&p[i], "%d sequences, %d rows, shape %zu", b.b.n_seqs, b.b.n_rows, shape);
            struct result all = run_net(&nets[i], &b.b);
            check_same(&nets[i], &b.b, &all, &alone);
            free_result(&all);
        }
        free_result(&alone);
        check_batch_free(&b);
    }
    for (size_t i = 0; i < N_LANES; i++) {
        net_finish(&nets[i]);
    }
    net_weights_finish(&w, p[0].dev, h.shape.n_layers);
    net_host_finish(&h);
    for (size_t i = 0; i < N_LANES; i++) {
        check_pair_finish(&p[i]);
    }
}
static void test_bits(void **unused) {
    for (const char *const *isa = check_isas(); *isa; isa++) {
        for (size_t i = 0; i < N_ITEMS(shapes); i++) {
            check_bits(*isa, PRECISION_FLOAT32, i);
        }
    }
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        for (size_t i = 0; i < N_ITEMS(shapes) - 1; i++) { // the last is slow, emulated
            check_bits(k->isa, k->precision, i);
        }
    }
}

struct rest_case {
    struct layer_buffers b;
    const struct layer_weights *w;
    const struct linear_weight *next_qkv;
    bool composite;
};
static void run_rest(struct lane *ln, const void *arg) {
    const struct rest_case *c = arg;
    if (c->composite) {
        layer_rest_default(ln, &c->b, c->w, c->next_qkv);
    } else {
        ln->be->fn->layer_rest(ln, &c->b, c->w, c->next_qkv);
    }
}
/* The panel walk and the small ops on one device, in guarded buffers: .ref holds the composite's.
 */
static void check_rest(const struct pair *p, const struct net_host *h, const struct net_weights *w,
                       int rows, enum row_axis axis, bool next) {
    check_case(p, "layer_rest of %d rows of %d, axis %d, next %d", rows, h->hidden, axis, next);
    struct batch b = check_batch(rows, 1, 0);
    struct buf x = check_input(axis, rows, h->hidden), ctx = check_input(axis, rows, h->hidden);
    struct buf y = check_output(axis, rows, h->hidden);
    struct buf ffn = check_output(axis, rows, h->shape.intermediate);
    struct buf qkv = check_output(axis, rows, 3 * h->hidden);
    struct rest_case c = {.b = {x.ref, ctx.ref, y.ref, ffn.ref, qkv.ref},
                          .w = &w->layers[0],
                          .next_qkv = next ? w->layers[1].qkv : NULL,
                          .composite = true};
    check_run(p->dev, &b.b, run_rest, &c);
    c.b = (struct layer_buffers){x.dev, ctx.dev, y.dev, ffn.dev, qkv.dev};
    c.composite = false;
    check_run(p->dev, &b.b, run_rest, &c);
    check_close(&x, rows, 0);
    check_close(&y, rows, 0);
    check_close(&qkv, next ? rows : 0, 0);
    check_free(&x), check_free(&ctx), check_free(&y), check_free(&ffn), check_free(&qkv);
    check_batch_free(&b);
}
static void check_rests(const char *isa, enum precision precision) {
    static const int rows[] = {1, 2, 7, 24, 25, 150, 310};
    const size_t n_shapes = N_ITEMS(shapes) - (precision != PRECISION_FLOAT32);
    for (size_t i = 0; i < n_shapes; i++) {
        struct pair p = check_pair_in(isa, n_lanes_tried[i], precision);
        struct net_host h = random_host(i);
        struct net_weights w;
        struct net n; // for its reserve()
        net_weights_make(&w, p.dev, &h);
        net_init(&n, p.dev, &h, &w, MAX_ROWS, MAX_SEQS, MAX_LEN);
        for (size_t r = 0; r < N_ITEMS(rows); r++) {
            check_rest(&p, &h, &w, rows[r], AXIS_TOKENS, r % 2);
            check_rest(&p, &h, &w, rows[r], AXIS_SEQS, !(r % 2));
        }
        net_finish(&n);
        net_weights_finish(&w, p.dev, h.shape.n_layers);
        net_host_finish(&h);
        check_pair_finish(&p);
    }
}
static void test_layer_rest(void **unused) {
    for (const char *const *isa = check_isas(); *isa; isa++) {
        check_rests(*isa, PRECISION_FLOAT32);
    }
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        check_rests(k->isa, k->precision);
    }
}

int test_layers(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_layer_rest),
    };
    return cmocka_run_group_tests_name("layers", tests, NULL, NULL);
}
