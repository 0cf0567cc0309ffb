/* ops.c - each op of the CPU backend against the reference: every ISA, 1 to 3 lanes, few rows
 * (columns are cut) and many, shapes that no vector width divides. */
#include "tests/kernels/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LANES = 3 };
static const struct pass_limits limits = {.max_rows = 2000,
                                          .max_seqs = 200,
                                          .max_seq_len = 300,
                                          .hidden = 512,
                                          .intermediate = 1024,
                                          .n_heads = 2};

/* Runs a test of one op on every backend. */
static void each_device(void (*test)(const struct pair *p)) {
    for (const char *const *isa = check_isas(); *isa; isa++) {
        for (int n_lanes = 1; n_lanes <= MAX_LANES; n_lanes++) {
            struct pair p = check_pair(*isa, n_lanes);
            struct error err;
            assert_int_equal(p.ref->fn->reserve(p.ref, &limits, &err), STATUS_OK);
            assert_int_equal(p.dev->fn->reserve(p.dev, &limits, &err), STATUS_OK);
            test(&p);
            check_pair_finish(&p);
        }
    }
}
static struct batch batch_of_rows(int n_rows, enum row_axis axis) {
    int *lens = xcalloc((size_t)n_rows, sizeof(*lens));
    int n_seqs = 0, left = n_rows;
    if (axis == AXIS_SEQS) {
        for (n_seqs = 0; n_seqs < n_rows; n_seqs++) {
            lens[n_seqs] = check_rand(1, 9);
        }
    } else {
        for (; left > 0; left -= lens[n_seqs++]) {
            lens[n_seqs] = check_rand(1, left < 300 ? left : 300);
        }
    }
    const struct batch b = check_batch_of(lens, n_seqs, 0);
    free(lens);
    return b;
}

struct linear_case {
    const struct tensor *y, *x, *residual;
    const struct linear_weight *w;
    enum activation activation;
};
static void run_linear(struct lane *ln, const void *arg) {
    const struct linear_case *c = arg;
    ln->be->fn->linear(ln, c->y, c->x, c->w, c->activation, c->residual);
}
enum { MAX_PARTS = 3 };
static void make_weight(const struct pair *p, struct linear_weight *w[2],
                        const struct linear_part *parts, int n_parts) {
    struct error err;
    assert_int_equal(p->ref->fn->linear_create(p->ref, &w[0], parts, n_parts, &err), STATUS_OK);
    assert_int_equal(p->dev->fn->linear_create(p->dev, &w[1], parts, n_parts, &err), STATUS_OK);
}
static int random_parts(struct linear_part *parts, int n, int k, float spread) {
    const int n_parts = n % MAX_PARTS == 0 ? MAX_PARTS : 1;
    for (int i = 0; i < n_parts; i++) {
        const enum dtype dtype = (enum dtype)check_rand(DTYPE_F32, DTYPE_BF16);
        parts[i] = (struct linear_part){.weight = check_host(n / n_parts, k, spread, dtype),
                                        .scale = i == 0 ? 0.5f : 1};
        if (check_rand(0, 3)) {
            parts[i].bias = check_host(1, n / n_parts, 1, dtype);
        }
    }
    return n_parts;
}
static void free_parts(struct linear_part *parts, int n_parts) {
    for (int i = 0; i < n_parts; i++) {
        check_host_free(&parts[i].weight);
        check_host_free(&parts[i].bias);
    }
}

static void check_linear(const struct pair *p, int m, int n, int k, enum activation activation,
                         bool residual) {
    const enum row_axis axis = (enum row_axis)check_rand(AXIS_TOKENS, AXIS_SEQS);
    /* Without an activation weights have unit variance, as the tolerance says; with one, sums are
     * kept where it bends. */
    const float spread = activation == ACT_NONE ? 1 : 1.5f / sqrtf((float)k);
    check_case(p, "linear %dx%dx%d, activation %d, residual %d, axis %d", m, n, k, activation,
               residual, axis);
    struct linear_part parts[MAX_PARTS];
    struct linear_weight *w[2];
    const int n_parts = random_parts(parts, n, k, spread);
    make_weight(p, w, parts, n_parts);
    struct batch b = batch_of_rows(m, axis);
    struct buf x = check_input(axis, m, k), y = check_output(axis, m + 2, n);
    struct buf r = check_input(axis, m, n);
    const bool in_place = residual && check_rand(0, 1);
    struct buf *out = in_place ? &r : &y;
    const struct linear_case ref = {&out->ref, &x.ref, residual ? &r.ref : NULL, w[0], activation};
    const struct linear_case dev = {&out->dev, &x.dev, residual ? &r.dev : NULL, w[1], activation};
    check_run(p->ref, &b.b, run_linear, &ref);
    check_run(p->dev, &b.b, run_linear, &dev);
    check_close(out, m, 1e-5 * sqrt(k));
    check_free(&x), check_free(&y), check_free(&r);
    check_batch_free(&b);
    p->ref->fn->linear_destroy(p->ref, w[0]);
    p->dev->fn->linear_destroy(p->dev, w[1]);
    free_parts(parts, n_parts);
}
static void linear_shapes(const struct pair *p) {
    static const int ms[] = {1, 2, 5, 7, 13, 24, 25, 37, 150};
    static const int ns[] = {1, 2, 3, 15, 16, 17, 31, 37, 48, 99};
    static const int ks[] = {1, 5, 31, 37, 64, 383, 384, 391, 800};
    for (size_t i = 0; i < 12; i++) {
        const int m = ms[(size_t)check_rand(0, 1000) % N_ITEMS(ms)];
        const int n = ns[i % N_ITEMS(ns)], k = ks[i % N_ITEMS(ks)];
        check_linear(p, m, n, k, ACT_NONE, i % 2);
        check_linear(p, m, n, k, (enum activation)(1 + i % ACT_TANH), false);
    }
    check_linear(p, 3, 1000, 31, ACT_NONE, false); // many labels
    check_linear(p, 320, 48, 37, ACT_NONE, true);  // several panels of rows
}
static void test_linear(void **unused) {
    each_device(linear_shapes);
}

struct norm_case {
    const struct tensor *y, *x;
    const struct norm_weight *w;
};
static void run_norm(struct lane *ln, const void *arg) {
    const struct norm_case *c = arg;
    ln->be->fn->layernorm(ln, c->y, c->x, c->w);
}
static void make_norm(const struct pair *p, struct norm_weight *w[2], int n, enum dtype dtype) {
    struct host_tensor gamma = check_host(1, n, 1, dtype), beta = check_host(1, n, 1, dtype);
    struct error err;
    assert_int_equal(p->ref->fn->norm_create(p->ref, &w[0], &gamma, &beta, 1e-12f, &err), 0);
    assert_int_equal(p->dev->fn->norm_create(p->dev, &w[1], &gamma, &beta, 1e-12f, &err), 0);
    check_host_free(&gamma), check_host_free(&beta);
}
static void free_norm(const struct pair *p, struct norm_weight *w[2]) {
    p->ref->fn->norm_destroy(p->ref, w[0]);
    p->dev->fn->norm_destroy(p->dev, w[1]);
}
static void check_norm(const struct pair *p, int rows, int cols, bool in_place) {
    const enum row_axis axis = (enum row_axis)check_rand(AXIS_TOKENS, AXIS_SEQS);
    check_case(p, "layernorm %dx%d, in place %d, axis %d", rows, cols, in_place, axis);
    struct norm_weight *w[2];
    make_norm(p, w, cols, (enum dtype)check_rand(DTYPE_F32, DTYPE_BF16));
    struct batch b = batch_of_rows(rows, axis);
    struct buf x = check_input(axis, rows, cols), y = check_output(axis, rows, cols);
    struct buf *out = in_place ? &x : &y;
    const struct norm_case ref = {&out->ref, &x.ref, w[0]}, dev = {&out->dev, &x.dev, w[1]};
    check_run(p->ref, &b.b, run_norm, &ref);
    check_run(p->dev, &b.b, run_norm, &dev);
    check_close(out, rows, 2e-5);
    check_free(&x), check_free(&y);
    check_batch_free(&b);
    free_norm(p, w);
}
static void norm_shapes(const struct pair *p) {
    static const int cols[] = {1, 8, 15, 31, 37, 384, 768};
    for (size_t i = 0; i < N_ITEMS(cols); i++) {
        check_norm(p, check_rand(1, 40), cols[i], i % 2);
        check_norm(p, check_rand(1, 40), cols[i], !(i % 2));
    }
}
static void test_layernorm(void **unused) {
    each_device(norm_shapes);
}

struct attention_case {
    const struct tensor *ctx, *qkv;
    int n_heads;
};
static void run_attention(struct lane *ln, const void *arg) {
    const struct attention_case *c = arg;
    ln->be->fn->barrier(ln);
    ln->be->fn->attention(ln, c->ctx, c->qkv, c->n_heads);
}
/* Q as the backend wants it; rows of padding hold NaN, which nothing may see; without fusion they
 * are computed and masked, so there they hold something large. */
static void prepare_qkv(const struct backend *be, struct tensor *qkv, const struct token_batch *b,
                        int head_dim) {
    const float scale = be->fn->query_scale(be, head_dim);
    const float hidden_from_view = strstr(be->detail, "fusion off") ? 100 : NAN;
    for (int s = 0; s < b->n_seqs; s++) {
        for (int r = b->cu_seqlens[s]; r < b->cu_seqlens[s + 1]; r++) {
            float *row = (float *)qkv->data + r * qkv->stride;
            const bool padding = r >= b->cu_seqlens[s] + b->seq_lens[s];
            for (int i = 0; i < (padding ? qkv->cols : qkv->cols / 3); i++) {
                row[i] = padding ? hidden_from_view : row[i] * scale;
            }
        }
    }
}
static void check_attention(const struct pair *p, struct batch *b, int n_heads, int head_dim,
                            enum row_axis axis) {
    const int hidden = n_heads * head_dim;
    check_case(p, "attention %d heads of %d, %d sequences, %d rows, axis %d", n_heads, head_dim,
               b->b.n_seqs, b->b.n_rows, axis);
    struct buf qkv = check_input(AXIS_TOKENS, b->b.n_rows, 3 * hidden);
    const int rows = axis == AXIS_TOKENS ? b->b.n_rows : b->b.n_seqs;
    struct buf ctx = check_output(axis, rows, hidden);
    prepare_qkv(p->ref, &qkv.ref, &b->b, head_dim);
    prepare_qkv(p->dev, &qkv.dev, &b->b, head_dim);
    const struct attention_case ref = {&ctx.ref, &qkv.ref, n_heads};
    const struct attention_case dev = {&ctx.dev, &qkv.dev, n_heads};
    check_run(p->ref, &b->b, run_attention, &ref);
    check_run(p->dev, &b->b, run_attention, &dev);
    check_close(&ctx, rows, p->dev->dtype == DTYPE_F32 ? 2e-5 : 0.03); // bf16, 8 bits, of up to 4.5
    check_free(&qkv), check_free(&ctx);
}
static void attention_shapes(const struct pair *p) {
    static const int head_dims[] = {1, 5, 20, 32, 64, 128};
    static const int lens[][2] = {{1, 1}, {1, 9}, {6, 3}, {1, 65}, {9, 40}, {40, 4}, {1, 300}};
    for (size_t i = 0; i < N_ITEMS(head_dims); i++) {
        for (size_t j = 0; j < N_ITEMS(lens); j++) {
            struct batch b = check_batch(lens[j][0], lens[j][1], (i + j) % 2 ? 5 : 0);
            check_attention(p, &b, check_rand(1, 4), head_dims[i], AXIS_TOKENS);
            check_attention(p, &b, check_rand(1, 4), head_dims[i], AXIS_SEQS);
            check_batch_free(&b);
        }
    }
}
static void test_attention(void **unused) {
    each_device(attention_shapes);
}
static void test_attention_of_kinds(void **unused) { // bf16, where the level has it
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        struct pair p = check_pair_in(k->isa, 2, k->precision);
        struct error err;
        assert_int_equal(p.ref->fn->reserve(p.ref, &limits, &err), STATUS_OK);
        assert_int_equal(p.dev->fn->reserve(p.dev, &limits, &err), STATUS_OK);
        attention_shapes(&p);
        check_pair_finish(&p);
    }
}

struct embed_case {
    const struct tensor *y;
    struct embedding_weights w;
};
static void run_embed(struct lane *ln, const void *arg) {
    const struct embed_case *c = arg;
    ln->be->fn->embed_layernorm(ln, c->y, &c->w);
}
static void make_table(const struct pair *p, struct table_weight **ref, struct table_weight **dev,
                       const struct host_tensor *t) {
    struct error err;
    assert_int_equal(p->ref->fn->table_create(p->ref, ref, t, &err), STATUS_OK);
    assert_int_equal(p->dev->fn->table_create(p->dev, dev, t, &err), STATUS_OK);
}
static void free_tables(struct backend *be, struct embedding_weights *w) {
    be->fn->table_destroy(be, w->words);
    be->fn->table_destroy(be, w->positions);
    be->fn->table_destroy(be, w->types);
    be->fn->norm_destroy(be, w->norm);
}
static void check_embed(const struct pair *p, struct batch *b, int hidden, enum dtype dtype) {
    check_case(p, "embed_layernorm %dx%d, %s", b->b.n_rows, hidden, dtype_name(dtype));
    struct host_tensor words = check_host(50, hidden, 1, dtype);
    struct host_tensor positions = check_host(310, hidden, 1, dtype);
    struct host_tensor types = check_host(2, hidden, 1, dtype);
    struct buf y = check_output(AXIS_TOKENS, b->b.n_rows, hidden);
    struct embed_case ref = {.y = &y.ref}, dev = {.y = &y.dev};
    struct norm_weight *norm[2];
    make_norm(p, norm, hidden, dtype);
    ref.w.norm = norm[0], dev.w.norm = norm[1];
    make_table(p, &ref.w.words, &dev.w.words, &words);
    make_table(p, &ref.w.positions, &dev.w.positions, &positions);
    make_table(p, &ref.w.types, &dev.w.types, &types);
    check_run(p->ref, &b->b, run_embed, &ref);
    check_run(p->dev, &b->b, run_embed, &dev);
    check_close(&y, b->b.n_rows, 2e-5);
    check_free(&y);
    free_tables(p->ref, &ref.w), free_tables(p->dev, &dev.w);
    check_host_free(&words), check_host_free(&positions), check_host_free(&types);
}
static void embed_shapes(const struct pair *p) {
    static const int hiddens[] = {8, 31, 37, 384};
    for (size_t i = 0; i < N_ITEMS(hiddens); i++) {
        for (enum dtype t = DTYPE_F32; t <= DTYPE_BF16; t++) {
            struct batch b =
                check_batch(check_rand(1, 20), 1 + 12 * (int)i, t == DTYPE_F32 ? 4 : 0);
            check_embed(p, &b, hiddens[i], t);
            check_batch_free(&b);
        }
    }
}
static void test_embed(void **unused) {
    each_device(embed_shapes);
}

/* pool, head and fetch in one program: x -> pooled -> logits -> host. */
struct head_case {
    const struct tensor *x, *pooled, *scratch, *logits;
    enum pool_mode mode;
    struct head_weights w;
    float *out;
};
static void run_head(struct lane *ln, const void *arg) {
    const struct head_case *c = arg;
    ln->be->fn->pool(ln, c->pooled, c->x, c->mode);
    ln->be->fn->head(ln, c->logits, c->pooled, c->scratch, &c->w);
    ln->be->fn->fetch(ln, c->out, c->logits);
}
static void check_head(const struct pair *p, struct batch *b, int hidden, int n_labels,
                       enum pool_mode mode, bool dense) {
    check_case(p, "pool %d and head %d -> %d, dense %d, %d sequences, %d rows", mode, hidden,
               n_labels, dense, b->b.n_seqs, b->b.n_rows);
    const float spread = 1 / sqrtf((float)hidden);
    struct linear_part in = {check_host(hidden, hidden, spread, DTYPE_F32),
                             check_host(1, hidden, 1, DTYPE_F32), 1, false, false};
    struct linear_part last = {check_host(n_labels, hidden, spread, DTYPE_F32),
                               check_host(1, n_labels, 1, DTYPE_F32), 1, false, false};
    struct linear_weight *wd[2] = {NULL, NULL}, *wc[2];
    if (dense) {
        make_weight(p, wd, &in, 1);
    }
    make_weight(p, wc, &last, 1);
    const int n = b->b.n_seqs;
    struct buf x = check_input(AXIS_TOKENS, b->b.n_rows, hidden);
    struct buf pooled = check_output(AXIS_SEQS, n, hidden),
               logits = check_output(AXIS_SEQS, n, n_labels);
    struct buf scratch = check_output(AXIS_SEQS, n, hidden);
    float *out = xcalloc((size_t)n * (size_t)n_labels, sizeof(*out));
    float *want = xcalloc((size_t)n * (size_t)n_labels, sizeof(*want));
    const struct head_case ref = {&x.ref, &pooled.ref,    &scratch.ref, &logits.ref,
                                  mode,   {wd[0], wc[0]}, want};
    const struct head_case dev = {&x.dev, &pooled.dev,    &scratch.dev, &logits.dev,
                                  mode,   {wd[1], wc[1]}, out};
    check_run(p->ref, &b->b, run_head, &ref);
    check_run(p->dev, &b->b, run_head, &dev);
    check_close(&pooled, n, 2e-5), check_close(&logits, n, 2e-5);
    for (int i = 0; i < n; i++) {
        check_same_bits(out + (size_t)i * (size_t)n_labels,
                        (const float *)logits.dev.data + i * logits.dev.stride, (size_t)n_labels,
                        "fetched and computed");
    }
    for (int side = 0; side < 2; side++) {
        struct backend *be = side ? p->dev : p->ref;
        be->fn->linear_destroy(be, wd[side]), be->fn->linear_destroy(be, wc[side]);
    }
    free_parts(&in, 1), free_parts(&last, 1);
    check_free(&x), check_free(&pooled), check_free(&logits), check_free(&scratch);
    free(out), free(want);
}
static void head_shapes(const struct pair *p) {
    static const struct {
        int n_seqs, max_len, hidden, n_labels;
    } cases[] = {{1, 1, 8, 1}, {1, 70, 31, 2}, {5, 20, 37, 3}, {50, 6, 64, 5}, {3, 9, 40, 1000}};
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        for (int j = 0; j < 4; j++) {
            struct batch b = check_batch(cases[i].n_seqs, cases[i].max_len, j % 2 ? 3 : 0);
            check_head(p, &b, cases[i].hidden, cases[i].n_labels, (enum pool_mode)(j / 2), j % 2);
            check_batch_free(&b);
        }
    }
}
static void test_head(void **unused) {
    each_device(head_shapes);
}

int test_ops(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_of_kinds),
        cmocka_unit_test(test_embed),     cmocka_unit_test(test_head),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
