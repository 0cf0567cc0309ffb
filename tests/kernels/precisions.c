/* precisions.c - products in int8 and bf16: exact integers where inputs are such, near fp32 where
 * they are not; and what must hold in any precision: rows apart from each other, infinities seen,
 * `exact` weights in fp32. Kernels of ISAs that this machine lacks run with their instructions in
 * plain C ("wide": VNNI and BF16 on 16 lanes, "tiles": AMX). Equal bits and whole passes are in
 * layers.c. */
#include "kernels/cpu/isa.h"
#include "tests/kernels/check.h"
#include "tests/kernels/net.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct pass_limits limits = {.max_rows = 400,
                                          .max_seqs = 400,
                                          .max_seq_len = 400,
                                          .hidden = 512,
                                          .intermediate = 1024,
                                          .n_heads = 2};

/* Runs a test on every precision of every ISA, by rows and by columns. */
static void each_kind(void (*test)(const struct pair *p)) {
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        for (int n_lanes = 1; n_lanes <= 2; n_lanes++) {
            struct pair p = check_pair_in(k->isa, n_lanes, k->precision);
            struct error err;
            assert_int_equal(p.ref->fn->reserve(p.ref, &limits, &err), STATUS_OK);
            assert_int_equal(p.dev->fn->reserve(p.dev, &limits, &err), STATUS_OK);
            test(&p);
            check_pair_finish(&p);
        }
    }
}

struct product {
    struct tensor y, x, residual;
    const struct linear_weight *w;
    enum activation activation;
};
static void run_product(struct lane *ln, const void *arg) {
    const struct product *p = arg;
    ln->be->fn->linear(ln, &p->y, &p->x, p->w, p->activation,
                       p->residual.data ? &p->residual : NULL);
}
static struct linear_weight *make_weight(struct backend *be, const struct linear_part *part) {
    struct linear_weight *w = NULL;
    struct error err;
    assert_int_equal(be->fn->linear_create(be, &w, part, 1, &err), STATUS_OK);
    return w;
}
static struct linear_part random_part(int n, int k, float spread) {
    return (struct linear_part){.weight = check_host(n, k, spread, DTYPE_F32),
                                .bias = check_host(1, n, 1, DTYPE_F32),
                                .scale = 1};
}
static void free_part(struct linear_part *part) {
    check_host_free(&part->weight), check_host_free(&part->bias);
}
static float *floats_of(const struct host_tensor *t) {
    return (float *)(uintptr_t)t->data;
}

/* Integers that quantise to themselves: every group of values has its largest, so that its scale is
 * 1, and neighbours whose products meet in 16 bits stay within 128. In bf16 they need but 8 bits.
 */
static void integer_weights(const struct linear_part *part, const struct gemm_kernel *kn) {
    const int n = part->weight.rows, k = part->weight.cols;
    for (int j = 0; j < n; j++) {
        float *row = floats_of(&part->weight) + (size_t)j * (size_t)k;
        for (int i = 0; i < k; i++) {
            row[i] = (float)check_rand(-60, 60);
        }
        for (int i = 0; kn->dtype == DTYPE_I8 && i < k; i += kn->kc) {
            for (int at = i; at < k && at < i + kn->kc; at += kn->scaled) {
                row[at] = check_rand(0, 1) ? 127 : -127;
                if (at + kn->lanes < k) {
                    row[at + kn->lanes] = 0;
                }
            }
        }
        floats_of(&part->bias)[j] = (float)check_rand(-1000, 1000);
    }
}
static void integer_inputs(struct buf *x, int m, int k, const struct gemm_kernel *kn) {
    for (int r = 0; r < m; r++) {
        float *row = (float *)x->dev.data + r * x->dev.stride;
        for (int i = 0; i < k; i++) {
            row[i] = (float)check_rand(0, 255);
        }
        for (int i = 0; kn->dtype == DTYPE_I8 && i < k; i += kn->scaled) {
            row[i + check_rand(0, k - i < kn->scaled ? k - i - 1 : kn->scaled - 1)] = 255;
        }
    }
}
static void check_integers(const struct product *p, const struct linear_part *part, int m) {
    const int n = part->weight.rows, k = part->weight.cols;
    for (int r = 0; r < m; r++) {
        const float *x = (const float *)p->x.data + r * p->x.stride;
        for (int j = 0; j < n; j++) {
            const float *w = floats_of(&part->weight) + (size_t)j * (size_t)k;
            int64_t want = (int64_t)floats_of(&part->bias)[j];
            want += (int64_t)((const float *)p->residual.data)[r * p->residual.stride + j];
            for (int i = 0; i < k; i++) {
                want += (int64_t)x[i] * (int64_t)w[i];
            }
            const float got = ((const float *)p->y.data)[r * p->y.stride + j];
            assert_true(llabs(want) < 1 << 24); // a float holds it
            if ((int64_t)got != want || got != (float)want) {
                fail_msg("%d x %d x %d: [%d, %d] is %.9g, %lld is right", m, n, k, r, j, got,
                         (long long)want);
            }
        }
    }
}
static void exact_product(const struct pair *p, int m, int n, int k) {
    check_case(p, "integers %d x %d x %d", m, n, k);
    struct linear_part part = random_part(n, k, 1);
    struct linear_weight *probe = make_weight(p->dev, &part); // tells the kernel
    struct batch b = check_batch_of(&m, 1, 0);
    struct buf x = check_input(AXIS_TOKENS, m, k), y = check_output(AXIS_TOKENS, m, n);
    struct buf residual = check_input(AXIS_TOKENS, m, n);
    integer_weights(&part, probe->kernel);
    integer_inputs(&x, m, k, probe->kernel);
    for (int r = 0; r < m; r++) {
        for (int j = 0; j < n; j++) {
            ((float *)residual.dev.data)[r * residual.dev.stride + j] = (float)check_rand(-99, 99);
        }
    }
    struct linear_weight *w = make_weight(p->dev, &part);
    const struct product product = {y.dev, x.dev, residual.dev, w, ACT_NONE};
    check_run(p->dev, &b.b, run_product, &product);
    check_integers(&product, &part, m);
    p->dev->fn->linear_destroy(p->dev, w), p->dev->fn->linear_destroy(p->dev, probe);
    check_free(&x), check_free(&y), check_free(&residual);
    check_batch_free(&b), free_part(&part);
}
static void exact_products(const struct pair *p) {
    static const int ms[] = {1, 2, 5, 13, 16, 17, 24, 33, 37, 150};
    static const int ns[] = {1, 3, 15, 16, 17, 31, 32, 33, 48, 99};
    static const int ks[] = {1, 3, 5, 31, 64, 96, 97, 383, 384, 391, 768, 775};
    for (size_t i = 0; i < N_ITEMS(ks); i++) {
        exact_product(p, ms[(i + 3) % N_ITEMS(ms)], ns[i % N_ITEMS(ns)], ks[i]);
        exact_product(p, ms[check_rand(0, 8)], ns[check_rand(0, 9)], ks[i]);
    }
    exact_product(p, 150, 31, 450);
}
static void test_integers(void **unused) {
    each_kind(exact_products);
}

/* Beside fp32. Inputs and weights of unit variance: rounding adds an error of 0.014 (int8: both to
 * 1/255 of about 7, weights with half a bit less where pairs saturate) or 0.0023 (bf16) to each of
 * k products; five times its spread over a sum is allowed,
 * and what the largest values can do where there are few. */
static void near_product(const struct pair *p, int m, int n, int k, enum activation activation) {
    check_case(p, "near fp32 %d x %d x %d, activation %d", m, n, k, activation);
    const double each = p->dev->dtype == DTYPE_I8 ? 0.07 : 0.012;
    const float spread = activation == ACT_NONE ? 1 : 1 / sqrtf((float)k);
    struct linear_part part = random_part(n, k, spread);
    struct linear_weight *ref = make_weight(p->ref, &part), *dev = make_weight(p->dev, &part);
    struct batch b = check_batch_of(&m, 1, 0);
    struct buf x = check_input(AXIS_TOKENS, m, k), y = check_output(AXIS_TOKENS, m, n);
    const struct product on_ref = {.y = y.ref, .x = x.ref, .w = ref, .activation = activation};
    const struct product on_dev = {.y = y.dev, .x = x.dev, .w = dev, .activation = activation};
    check_run(p->ref, &b.b, run_product, &on_ref);
    check_run(p->dev, &b.b, run_product, &on_dev);
    check_close(&y, m, 1e-5 + each * sqrt(k + 35) * (double)spread * (activation ? 1.2 : 1));
    p->ref->fn->linear_destroy(p->ref, ref), p->dev->fn->linear_destroy(p->dev, dev);
    check_free(&x), check_free(&y), check_batch_free(&b), free_part(&part);
}
static void near_products(const struct pair *p) {
    static const int ks[] = {1, 7, 37, 96, 200, 384, 500, 1000};
    for (size_t i = 0; i < N_ITEMS(ks); i++) {
        near_product(p, check_rand(1, 60), check_rand(1, 70), ks[i], ACT_NONE);
        near_product(p, check_rand(1, 60), check_rand(1, 70), ks[i],
                     (enum activation)(1 + i % ACT_TANH));
    }
}
static void test_near_fp32(void **unused) {
    each_kind(near_products);
}

/* A row with a value that is no number has no number in its result; no other row knows of it. A row
 * of zeros is the bias. */
static void strange_rows(const struct pair *p) {
    enum { M = 20, N = 35, K = 100 };
    static const float strange[] = {NAN, INFINITY, -INFINITY};
    struct linear_part part = random_part(N, K, 1);
    struct linear_weight *w = make_weight(p->dev, &part);
    const int m = M;
    struct batch b = check_batch_of(&m, 1, 0);
    struct buf x = check_input(AXIS_TOKENS, M, K), y = check_output(AXIS_TOKENS, M, N);
    struct buf plain = check_copy(&y);
    const struct product before = {.y = plain.dev, .x = x.dev, .w = w};
    memset((float *)x.dev.data + 2 * x.dev.stride, 0, K * sizeof(float));
    check_run(p->dev, &b.b, run_product, &before);
    for (int i = 0; i < (int)N_ITEMS(strange); i++) {
        ((float *)x.dev.data)[(5 + i) * x.dev.stride + check_rand(0, K - 1)] = strange[i];
    }
    const struct product after = {.y = y.dev, .x = x.dev, .w = w};
    check_run(p->dev, &b.b, run_product, &after);
    check_case(p, "rows with values that are no numbers");
    for (int r = 0; r < M; r++) {
        const float *got = (const float *)y.dev.data + r * y.dev.stride;
        if (r >= 5 && r < 5 + (int)N_ITEMS(strange)) {
            for (int j = 0; j < N; j++) {
                assert_false(isfinite(got[j]));
            }
        } else {
            check_same_bits(got, (const float *)plain.dev.data + r * plain.dev.stride, N, "row");
        }
    }
    check_same_bits((const float *)y.dev.data + 2 * y.dev.stride, floats_of(&part.bias), N,
                    "zeros");
    p->dev->fn->linear_destroy(p->dev, w);
    check_free(&x), check_free(&y), check_free(&plain), check_batch_free(&b), free_part(&part);
}
static void test_strange_rows(void **unused) {
    each_kind(strange_rows);
}

/* `exact` weights give what the fp32 backend gives. */
static void exact_weights(const struct pair *p) {
    enum { M = 30, N = 35, K = 100 };
    struct linear_part part = random_part(N, K, 1);
    part.exact = true;
    struct linear_weight *ref = make_weight(p->ref, &part), *dev = make_weight(p->dev, &part);
    const int m = M;
    struct batch b = check_batch_of(&m, 1, 0);
    struct buf x = check_input(AXIS_TOKENS, M, K), y = check_output(AXIS_TOKENS, M, N);
    const struct product on_ref = {.y = y.ref, .x = x.ref, .w = ref};
    const struct product on_dev = {.y = y.dev, .x = x.dev, .w = dev};
    assert_int_equal(dev->kernel->dtype, DTYPE_F32);
    check_run(p->ref, &b.b, run_product, &on_ref);
    check_run(p->dev, &b.b, run_product, &on_dev);
    check_case(p, "an exact weight");
    check_close(&y, M, 1e-5 * sqrt(K));
    p->ref->fn->linear_destroy(p->ref, ref), p->dev->fn->linear_destroy(p->dev, dev);
    check_free(&x), check_free(&y), check_batch_free(&b), free_part(&part);
}
static void test_exact_weights(void **unused) {
    each_kind(exact_weights);
}

/* Whole passes beside fp32's: every row's hidden state points the same way. */
static void run_hidden(struct backend *be, const struct net_host *h, const struct token_batch *b,
                       float *out) {
    struct net_weights w;
    struct net n;
    net_weights_make(&w, be, h);
    net_init(&n, be, h, &w, 400, 400, 400);
    const struct net_pass pass = {.net = &n, .hidden = out};
    check_run(be, b, net_program, &pass);
    net_finish(&n);
    net_weights_finish(&w, be, h->shape.n_layers);
}
static void near_pass(const struct pair *p) {
    static const struct net_shape shape = {.n_heads = 4,
                                           .head_dim = 9,
                                           .intermediate = 144,
                                           .n_layers = 3,
                                           .n_labels = 2,
                                           .activation = ACT_GELU};
    struct net_host h;
    net_host_init(&h, &shape);
    for (int kind = 0; kind < 2; kind++) { // few rows, and many
        struct batch b = check_batch(kind ? 9 : 2, kind ? 40 : 8, kind ? 3 : 0);
        const size_t n = (size_t)b.b.n_rows * (size_t)h.hidden;
        float *want = xcalloc(n, sizeof(*want)), *got = xcalloc(n, sizeof(*got));
        run_hidden(p->ref, &h, &b.b, want);
        run_hidden(p->dev, &h, &b.b, got);
        const double worst = check_worst_cosine(got, want, b.b.n_rows, h.hidden);
        if (!(worst > (p->dev->dtype == DTYPE_I8 ? 0.98 : 0.998))) {
            fail_msg("%s, %s: cosine %.6f", p->dev->detail, dtype_name(p->dev->dtype), worst);
        }
        free(want), free(got);
        check_batch_free(&b);
    }
    net_host_finish(&h);
}
static void test_passes(void **unused) {
    each_kind(near_pass);
}

/* Without instructions for it, bf16 is fp32, and says so; AUTO takes bf16 with tiles alone. */
static void check_dtype(const char *isa, enum precision precision, enum dtype want) {
    const struct pair p = check_pair_in(isa, 1, precision);
    assert_int_equal(p.dev->dtype, want);
    struct pair done = p;
    check_pair_finish(&done);
}
static void test_dtypes(void **unused) {
    check_dtype("baseline", PRECISION_BFLOAT16, DTYPE_F32);
    check_dtype("baseline", PRECISION_INT8, DTYPE_I8);
    check_dtype("baseline", PRECISION_AUTO, DTYPE_F32);
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        check_dtype(k->isa, k->precision, k->precision == PRECISION_INT8 ? DTYPE_I8 : DTYPE_BF16);
        const bool has_tiles = !strcmp(k->isa, "tiles") || !strcmp(k->isa, "amx");
        check_dtype(k->isa, PRECISION_AUTO, has_tiles ? DTYPE_BF16 : DTYPE_F32);
    }
}

int test_precisions(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),     cmocka_unit_test(test_near_fp32),
        cmocka_unit_test(test_strange_rows), cmocka_unit_test(test_exact_weights),
        cmocka_unit_test(test_passes),       cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests_name("precisions", tests, NULL, NULL);
}
