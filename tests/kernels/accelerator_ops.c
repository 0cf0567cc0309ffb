/* accelerator_ops.c - each op of the CUDA table against the reference, in fp32, fp16 and bf16.
 * Both sides get the same numbers: inputs and weights are of the device's own type, so what is
 * left is what the kernel rounds: its result once, to the type (`rounding`, twice the half ulp),
 * and, in attention, each weight of softmax. fp32 keeps the contract's tolerance, and so do rows of
 * AXIS_SEQS, which are fp32 in every precision (`rounding_of`). Tensors that are
 * written hold more rows than the batch has: a graph fills them up to its bucket. */
#include "tests/kernels/accelerator.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct pass_limits limits = {.max_rows = 700,
                                          .max_seqs = 70,
                                          .max_seq_len = 400,
                                          .hidden = 1100,
                                          .intermediate = 1100,
                                          .n_heads = 8,
                                          .n_layers = 1};

/* In every precision, with graphs and without. */
static void each_device(void (*test)(const struct pair *p)) {
    for (int i = 0; i < 6; i++) {
        const struct accelerator_options opt = {.graph_max_rows = i % 2 ? 4096 : 0};
        struct pair p = accelerator_pair(accelerator_precisions[i / 2], &opt, &limits);
        test(&p);
        check_pair_finish(&p);
    }
}
/* Twice on the device: the second time it is a graph, where there are graphs. */
static void run(const struct pair *p, const struct batch *b, program_fn *program, const void *ref,
                const void *dev) {
    check_run(p->ref, &b->b, program, ref);
    check_run(p->dev, &b->b, program, dev);
    check_run(p->dev, &b->b, program, dev);
}
static struct batch batch_of_rows(int n_rows, enum row_axis axis) {
    int lens[70];
    int n_seqs = 0;
    if (axis == AXIS_SEQS) {
        for (; n_seqs < n_rows; n_seqs++) {
            lens[n_seqs] = check_rand(1, 9);
        }
    } else {
        for (int left = n_rows; left > 0; left -= lens[n_seqs++]) {
            lens[n_seqs] = left < 300 ? left : 300;
        }
    }
    return check_batch_of(lens, n_seqs, 0);
}

static double rounding_of(const struct pair *p, enum row_axis axis) {
    return axis == AXIS_SEQS ? 0 : accelerator_rounding(p->dev);
}

struct norm_case {
    struct tensor y, x;
    struct norm_weight *w;
};
static void run_norm(struct lane *ln, const void *arg) {
    const struct norm_case *c = arg;
    ln->be->fn->layernorm(ln, &c->y, &c->x, c->w);
}
static void make_norm(const struct pair *p, struct norm_weight *w[2], int n) {
    struct host_tensor gamma = check_host(1, n, 1, DTYPE_F32),
                       beta = check_host(1, n, 1, DTYPE_F16);
    struct error err;
    assert_int_equal(p->ref->fn->norm_create(p->ref, &w[0], &gamma, &beta, 1e-12f, &err), 0);
    assert_int_equal(p->dev->fn->norm_create(p->dev, &w[1], &gamma, &beta, 1e-12f, &err), 0);
    check_host_free(&gamma), check_host_free(&beta);
}
static void free_norm(const struct pair *p, struct norm_weight *w[2]) {
    p->ref->fn->norm_destroy(p->ref, w[0]), p->dev->fn->norm_destroy(p->dev, w[1]);
}
static void norm_shapes(const struct pair *p) {
    static const int cols[] = {1, 8, 31, 37, 256, 384, 768, 1024, 1100};
    for (size_t i = 0; i < N_ITEMS(cols); i++) {
        const enum row_axis axis = i % 2 ? AXIS_TOKENS : AXIS_SEQS;
        const int rows = check_rand(1, 40);
        check_case(p, "layernorm %dx%d, axis %d", rows, cols[i], axis);
        struct norm_weight *w[2];
        make_norm(p, w, cols[i]);
        struct batch b = batch_of_rows(rows, axis);
        struct matrix x = matrix_random(p, axis, 70, cols[i]);
        struct matrix y = matrix_empty(p, axis, 70, cols[i], false);
        const struct norm_case ref = {y.ref, x.ref, w[0]}, dev = {y.dev, x.dev, w[1]};
        run(p, &b, run_norm, &ref, &dev);
        matrix_compare(p, &y, rows, 2e-5, rounding_of(p, axis));
        matrix_free(p, &x), matrix_free(p, &y), free_norm(p, w), check_batch_free(&b);
    }
}
static void test_layernorm(void **unused) {
    each_device(norm_shapes);
}

struct embed_case {
    struct tensor y;
    struct embedding_weights w;
};
static void run_embed(struct lane *ln, const void *arg) {
    const struct embed_case *c = arg;
    ln->be->fn->embed_layernorm(ln, &c->y, &c->w);
}
static void make_table(const struct pair *p, struct table_weight **ref, struct table_weight **dev,
                       int rows, int cols) {
    struct host_tensor t = check_host(rows, cols, 1, p->dev->dtype);
    struct error err;
    assert_int_equal(p->ref->fn->table_create(p->ref, ref, &t, &err), STATUS_OK);
    assert_int_equal(p->dev->fn->table_create(p->dev, dev, &t, &err), STATUS_OK);
    check_host_free(&t);
}
static void free_tables(struct backend *be, struct embedding_weights *w) {
    be->fn->table_destroy(be, w->words), be->fn->table_destroy(be, w->positions);
    be->fn->table_destroy(be, w->types);
}
static void embed_shapes(const struct pair *p) {
    static const int hiddens[] = {8, 31, 384, 768, 1100};
    for (size_t i = 0; i < N_ITEMS(hiddens); i++) {
        struct batch b = check_batch(check_rand(1, 9), 1 + 9 * (int)i, i % 2 ? 4 : 0);
        check_case(p, "embed_layernorm %dx%d", b.b.n_rows, hiddens[i]);
        struct matrix y = matrix_empty(p, AXIS_TOKENS, 400, hiddens[i], false);
        struct embed_case ref = {.y = y.ref}, dev = {.y = y.dev};
        struct norm_weight *norm[2];
        make_norm(p, norm, hiddens[i]);
        ref.w.norm = norm[0], dev.w.norm = norm[1];
        make_table(p, &ref.w.words, &dev.w.words, 50, hiddens[i]);
        make_table(p, &ref.w.positions, &dev.w.positions, 60, hiddens[i]);
        make_table(p, &ref.w.types, &dev.w.types, 2, hiddens[i]);
        run(p, &b, run_embed, &ref, &dev);
        matrix_compare(p, &y, b.b.n_rows, 2e-5, accelerator_rounding(p->dev));
        free_tables(p->ref, &ref.w), free_tables(p->dev, &dev.w), free_norm(p, norm);
        matrix_free(p, &y), check_batch_free(&b);
    }
}
static void test_embed(void **unused) {
    each_device(embed_shapes);
}

struct linear_case {
    struct tensor y, x, residual;
    struct linear_weight *w;
    enum activation activation;
};
static void run_linear(struct lane *ln, const void *arg) {
    const struct linear_case *c = arg;
    ln->be->fn->linear(ln, &c->y, &c->x, c->w, c->activation,
                       c->residual.data ? &c->residual : NULL);
}
static void make_linear(const struct pair *p, struct linear_weight *w[2], int n, int k, int n_parts,
                        bool exact, enum row_axis axis) {
    const enum dtype dtype = exact ? DTYPE_F32 : p->dev->dtype;
    struct linear_part parts[3];
    struct error err;
    for (int i = 0; i < n_parts; i++) {
        parts[i] = (struct linear_part){check_host(n / n_parts, k, 1.5f / sqrtf((float)k), dtype),
                                        check_host(1, n / n_parts, 1, dtype), i ? 1 : 0.5f, exact,
                                        axis == AXIS_SEQS};
    }
    assert_int_equal(p->ref->fn->linear_create(p->ref, &w[0], parts, n_parts, &err), STATUS_OK);
    assert_int_equal(p->dev->fn->linear_create(p->dev, &w[1], parts, n_parts, &err), STATUS_OK);
    for (int i = 0; i < n_parts; i++) {
        check_host_free(&parts[i].weight), check_host_free(&parts[i].bias);
    }
}
/* GELU's tanh form stands for the exact one in 16 bits: they differ by 4.8e-4 at most. */
static void check_linear(const struct pair *p, int m, int n, int k, int option, bool exact) {
    const enum row_axis axis = (enum row_axis)check_rand(AXIS_TOKENS, AXIS_SEQS);
    const enum activation activation =
        exact ? (option ? ACT_TANH : ACT_NONE) : (enum activation)(option % (ACT_TANH + 1));
    const bool residual = !exact && activation == ACT_NONE && option % 2 == 0 && k > 5;
    struct linear_weight *w[2];
    check_case(p, "linear %dx%dx%d, activation %d, residual %d, exact %d", m, n, k, activation,
               residual, exact);
    make_linear(p, w, n, k, n % 3 ? 1 : 3, exact, axis);
    struct batch b = batch_of_rows(m, axis);
    struct matrix x = matrix_random(p, axis, 70, k);
    struct matrix y = matrix_empty(p, axis, 70, n, exact), r = matrix_random(p, axis, 70, n);
    struct linear_case ref = {y.ref, x.ref, {0}, w[0], activation};
    struct linear_case dev = {y.dev, x.dev, {0}, w[1], activation};
    if (residual) {
        ref.residual = r.ref, dev.residual = r.dev;
    }
    run(p, &b, run_linear, &ref, &dev);
    const double rounding = exact ? 0 : rounding_of(p, axis);
    const bool is_tanh = accelerator_rounding(p->dev) > 0;
    const double gelu = activation == ACT_GELU && is_tanh ? 4.8e-4 : 0;
    /* What is rounded twice, before and after an activation of its own kernel. */
    matrix_compare(p, &y, m, 1e-5 * sqrt(k) + gelu + rounding, 2 * rounding);
    matrix_free(p, &x), matrix_free(p, &y), matrix_free(p, &r), check_batch_free(&b);
    p->ref->fn->linear_destroy(p->ref, w[0]), p->dev->fn->linear_destroy(p->dev, w[1]);
}
static void linear_shapes(const struct pair *p) {
    static const int ms[] = {1, 5, 16, 37, 64}, ns[] = {1, 3, 16, 31, 48, 99};
    static const int ks[] = {1, 5, 31, 64, 384};
    for (int i = 0; i < 15; i++) {
        const int m = ms[(size_t)check_rand(0, 99) % N_ITEMS(ms)], n = ns[i % 6], k = ks[i % 5];
        check_linear(p, m, n, k, i, false);
        check_linear(p, m, n, k, i % 2, true);
    }
}
static void test_linear(void **unused) {
    each_device(linear_shapes);
}

struct attention_case {
    struct tensor ctx, qkv;
    int n_heads;
};
static void run_attention(struct lane *ln, const void *arg) {
    const struct attention_case *c = arg;
    ln->be->fn->barrier(ln);
    ln->be->fn->attention(ln, &c->ctx, &c->qkv, c->n_heads);
}
/* Padding holds NaN, which nothing may see. Q as the device wants it; the reference gets what the
 * device holds, with its own factor. */
static struct matrix make_qkv(const struct pair *p, const struct batch *b, int hidden,
                              int head_dim) {
    struct matrix m = matrix_empty(p, AXIS_TOKENS, b->b.n_rows, 3 * hidden, false);
    const float scale = p->dev->fn->query_scale(p->dev, head_dim);
    const float back = p->ref->fn->query_scale(p->ref, head_dim) / scale;
    for (int s = 0; s < b->b.n_seqs; s++) {
        for (int r = b->b.cu_seqlens[s]; r < b->b.cu_seqlens[s + 1]; r++) {
            const bool is_padding = r >= b->b.cu_seqlens[s] + b->b.seq_lens[s];
            for (int i = 0; i < 3 * hidden; i++) {
                m.host[r * 3 * hidden + i] =
                    is_padding ? NAN : check_normal() * (i < hidden ? scale : 1);
            }
        }
    }
    matrix_settle(p, &m);
    for (int r = 0; r < b->b.n_rows; r++) {
        for (int i = 0; i < hidden; i++) {
            m.host[r * 3 * hidden + i] *= back;
        }
    }
    return m;
}
static void check_attention(const struct pair *p, const struct batch *b, int n_heads, int head_dim,
                            enum row_axis axis) {
    const int rows = axis == AXIS_TOKENS ? b->b.n_rows : b->b.n_seqs;
    check_case(p, "attention %d heads of %d, %d sequences, %d rows, axis %d", n_heads, head_dim,
               b->b.n_seqs, b->b.n_rows, axis);
    struct matrix qkv = make_qkv(p, b, n_heads * head_dim, head_dim);
    struct matrix ctx = matrix_empty(p, axis, rows, n_heads * head_dim, false);
    const struct attention_case ref = {ctx.ref, qkv.ref, n_heads},
                                dev = {ctx.dev, qkv.dev, n_heads};
    run(p, b, run_attention, &ref, &dev);
    const double rounding = accelerator_rounding(p->dev);
    matrix_compare(p, &ctx, rows, 2e-5 + rounding, rounding);
    matrix_free(p, &qkv), matrix_free(p, &ctx);
}
static void attention_shapes(const struct pair *p) {
    static const int head_dims[] = {5, 32, 64, 128, 200};
    static const int shapes[][2] = {{1, 1}, {1, 9}, {5, 30}, {2, 65}, {3, 130}};
    for (size_t i = 0; i < N_ITEMS(head_dims); i++) {
        for (size_t j = 0; j < N_ITEMS(shapes); j++) {
            struct batch b = check_batch(shapes[j][0], shapes[j][1], (i + j) % 2 ? 5 : 0);
            check_attention(p, &b, check_rand(1, 2), head_dims[i],
                            (i + j) % 3 ? AXIS_TOKENS : AXIS_SEQS);
            check_batch_free(&b);
        }
    }
    const int long_ones[] = {130, 64, 197}; // of two, one and four tiles of keys
    struct batch b = check_batch_of(long_ones, 3, 70);
    for (size_t i = 1; i < 4; i++) {
        check_attention(p, &b, 2, head_dims[i], AXIS_TOKENS);
    }
    check_batch_free(&b);
}
static void test_attention(void **unused) {
    each_device(attention_shapes);
}

/* pool, head and fetch in one program. */
struct head_case {
    struct tensor x, pooled, scratch, logits;
    enum pool_mode mode;
    struct head_weights w;
    float *out;
};
static void run_head(struct lane *ln, const void *arg) {
    const struct head_case *c = arg;
    ln->be->fn->pool(ln, &c->pooled, &c->x, c->mode);
    ln->be->fn->head(ln, &c->logits, &c->pooled, &c->scratch, &c->w);
    ln->be->fn->fetch(ln, c->out, &c->logits);
}
static void check_head(const struct pair *p, const struct batch *b, int hidden, int n_labels,
                       enum pool_mode mode, bool dense) {
    check_case(p, "pool %d and head %d -> %d, dense %d, %d sequences", mode, hidden, n_labels,
               dense, b->b.n_seqs);
    struct linear_weight *wd[2] = {NULL, NULL}, *wc[2];
    if (dense) {
        make_linear(p, wd, hidden, hidden, 1, true, AXIS_SEQS);
    }
    make_linear(p, wc, n_labels, hidden, 1, true, AXIS_SEQS);
    const int n = b->b.n_seqs;
    struct matrix x = matrix_random(p, AXIS_TOKENS, b->b.n_rows, hidden);
    struct matrix pooled = matrix_empty(p, AXIS_SEQS, n, hidden, false);
    struct matrix scratch = matrix_empty(p, AXIS_SEQS, n, hidden, false);
    struct matrix logits = matrix_empty(p, AXIS_SEQS, n, n_labels, true);
    float *out = xcalloc((size_t)n * (size_t)n_labels, sizeof(*out));
    float *unused = xcalloc((size_t)logits.dev.rows * (size_t)n_labels, sizeof(*unused));
    struct error err;
    const struct head_case ref = {x.ref, pooled.ref,     scratch.ref, logits.ref,
                                  mode,  {wd[0], wc[0]}, unused};
    const struct head_case dev = {x.dev, pooled.dev,     scratch.dev, logits.dev,
                                  mode,  {wd[1], wc[1]}, out};
    assert_int_equal(p->dev->fn->reserve(p->dev, &limits, &err), STATUS_OK); // knows the logits now
    run(p, b, run_head, &ref, &dev);
    matrix_compare(p, &pooled, n, 2e-5, 0);
    matrix_compare(p, &logits, n, 5e-5, 0);
    assert_int_equal(p->dev->fn->tensor_read(p->dev, unused, &logits.dev, &err), STATUS_OK);
    check_same_bits(out, unused, (size_t)n * (size_t)n_labels, "fetched and computed");
    for (int side = 0; side < 2; side++) {
        struct backend *be = side ? p->dev : p->ref;
        be->fn->linear_destroy(be, wd[side]), be->fn->linear_destroy(be, wc[side]);
    }
    matrix_free(p, &x), matrix_free(p, &pooled), matrix_free(p, &scratch), matrix_free(p, &logits);
    free(out), free(unused);
}
static void head_shapes(const struct pair *p) {
    static const struct {
        int n_seqs, max_len, hidden, n_labels;
    } cases[] = {{1, 1, 8, 1}, {1, 70, 31, 2}, {5, 20, 384, 3}, {33, 6, 64, 5}};
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

int test_accelerator_ops(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm), cmocka_unit_test(test_embed),
        cmocka_unit_test(test_linear),    cmocka_unit_test(test_attention),
        cmocka_unit_test(test_head),
    };
    return cmocka_run_group_tests_name("accelerator ops", tests, NULL, NULL);
}
