/* accelerator_passes.c - whole passes of the CUDA table: near the reference's, the same with graphs
 * and without and in company, as many launches as promised, two at a time. */
#include "tests/kernels/accelerator.h"
#include "tests/kernels/net.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 300, MAX_SEQS = 20, MAX_LEN = 150 };
static const struct pass_limits none = {.max_rows = MAX_ROWS,
                                        .max_seqs = MAX_SEQS,
                                        .max_seq_len = MAX_LEN,
                                        .hidden = 8,
                                        .intermediate = 8,
                                        .n_heads = 1,
                                        .n_layers = 1};
/* Heads of the three dims that tensor cores have, and one of another. */
static const struct net_shape shapes[] = {
    {.n_heads = 2, .head_dim = 32, .intermediate = 256, .n_layers = 3, .n_labels = 2},
    {.n_heads = 1, .head_dim = 64, .intermediate = 100, .n_layers = 2, .n_labels = 7},
    {.n_heads = 1, .head_dim = 128, .intermediate = 256, .n_layers = 2, .n_labels = 3},
    {.n_heads = 3, .head_dim = 5, .intermediate = 41, .n_layers = 2, .n_labels = 1},
};

/* One network on the reference and the device. */
struct both {
    struct pair p;
    struct net_host host;
    struct net_weights w[2];
    struct net nets[2];
};
static void both_init(struct both *b, size_t shape, enum precision precision, int graph_max_rows) {
    struct net_shape s = shapes[shape];
    s.activation = shape % 2 ? ACT_GELU_TANH : ACT_GELU;
    // timing picks algorithms, whose sums differ: bits are the same only without it
    const struct accelerator_options opt = {.graph_max_rows = graph_max_rows,
                                            .deterministic = true};
    net_host_init(&b->host, &s);
    b->p = accelerator_pair(precision, &opt, &none);
    for (int i = 0; i < 2; i++) {
        struct backend *be = i ? b->p.dev : b->p.ref;
        net_weights_make(&b->w[i], be, &b->host);
        net_init(&b->nets[i], be, &b->host, &b->w[i], MAX_ROWS, MAX_SEQS, MAX_LEN);
    }
}
static void both_finish(struct both *b) {
    for (int i = 0; i < 2; i++) {
        net_finish(&b->nets[i]);
        net_weights_finish(&b->w[i], b->nets[i].be, b->host.shape.n_layers);
    }
    net_host_finish(&b->host);
    check_pair_finish(&b->p);
}

struct result {
    float *hidden, *logits;
};
static struct result result_of(const struct both *b, const struct token_batch *batch) {
    return (struct result){
        xcalloc((size_t)batch->n_rows * (size_t)b->host.hidden, sizeof(float)),
        xcalloc((size_t)batch->n_seqs * (size_t)b->host.shape.n_labels, sizeof(float))};
}
static struct result run(const struct both *b, int side, const struct token_batch *batch) {
    struct result r = result_of(b, batch);
    const struct net_pass whole = {.net = &b->nets[side], .hidden = r.hidden};
    const struct net_pass classify = {.net = &b->nets[side], .logits = r.logits};
    check_run(b->nets[side].be, batch, net_program, &whole);
    check_run(b->nets[side].be, batch, net_program, &classify);
    return r;
}
static void result_free(struct result *r) {
    free(r->hidden), free(r->logits);
}
static double cosine(const float *a, const float *b, size_t n) {
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}
static struct batch random_batch(int kind) {
    switch (kind) {
    case 0: return check_batch(1, 12, 0);
    case 1: return check_batch(4, 6, 2);
    case 2: return check_batch(13, 3, 0);
    default: return check_batch(2, 100, 9);
    }
}
enum { N_BATCH_KINDS = 4 };

/* By how much a state may be off, as a part of its length. In 16 bits a layer has ROUNDINGS
 * roundings: what seven launches give, the weights of four products, and softmax's. Each is off by
 * u / sqrt(3) at most on average, u half the type's step, and being independent they add up as
 * squares; residuals and LayerNorm keep that size. Three times it, for networks whose gammas, as
 * random as their weights, make more of a rounding than a model does; models are held to 0.9999 by
 * tests/golden. In fp32 it is what the last op alone is allowed. */
enum { ROUNDINGS = 12 };
static double state_error(const struct both *b) {
    const double u = accelerator_rounding(b->p.dev);
    return u > 0 ? 3 * u * sqrt(ROUNDINGS * b->host.shape.n_layers / 3.0) : 2e-5;
}
static void check_states(const struct both *b, const float *want, const float *got, size_t n) {
    const double c = cosine(want, got, n), error = state_error(b);
    if (!(c >= 1 - error * error / 2)) {
        check_fail("hidden states: cosine %.7f", c);
    }
}
static double length(const float *a, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)a[i] * a[i];
    }
    return sqrt(sum);
}
/* A logit is a sum of products that may cancel, and then what is left of it says nothing of the
 * error: that is measured by the lengths of what is multiplied. A state's error has no reason to
 * lie along the classifier's row, so of its length a logit gets 1 / sqrt(hidden) on average; three
 * times that is allowed. */
static void check_logits(const struct both *b, const struct token_batch *batch,
                         const struct result *want, const struct result *got) {
    const int hidden = b->host.hidden, n_labels = b->host.shape.n_labels;
    const float *w = b->host.head.weight.data;
    for (int s = 0; s < batch->n_seqs; s++) {
        const float *state = want->hidden + (size_t)batch->cu_seqlens[s] * (size_t)hidden;
        for (int j = 0; j < n_labels; j++) {
            const double most = 3 / sqrt(hidden) * state_error(b) * length(state, hidden) *
                                length(w + (size_t)j * (size_t)hidden, hidden);
            const double x = want->logits[s * n_labels + j], y = got->logits[s * n_labels + j];
            if (!(fabs(x - y) <= most)) {
                check_fail("logit %d of sequence %d is %.9g, not %.9g: %.2g may be lost", j, s, y,
                           x, most);
            }
        }
    }
}
static void near_reference(struct both *b) {
    for (int kind = 0; kind < N_BATCH_KINDS; kind++) {
        struct batch batch = random_batch(kind);
        struct result want = run(b, 0, &batch.b), got = run(b, 1, &batch.b);
        check_case(&b->p, "pass, %d heads of %d", b->host.shape.n_heads, b->host.shape.head_dim);
        check_states(b, want.hidden, got.hidden, (size_t)batch.b.n_rows * (size_t)b->host.hidden);
        check_logits(b, &batch.b, &want, &got);
        result_free(&want), result_free(&got), check_batch_free(&batch);
    }
}
static void test_near_reference(void **unused) {
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        for (int k = 0; k < 3; k++) {
            struct both b;
            both_init(&b, i, accelerator_precisions[k], i % 2 ? 4096 : 0);
            near_reference(&b);
            both_finish(&b);
        }
    }
}

/* Launched, timed call by call, and as a graph that rows and sequences were added to. */
static void test_graphs_same_bits(void **unused) {
    struct both plain, graphs;
    both_init(&plain, 0, PRECISION_BFLOAT16, 0);
    both_init(&graphs, 0, PRECISION_BFLOAT16, 4096);
    const size_t hidden = (size_t)plain.host.hidden;
    struct batch batch = check_batch(5, 20, 3);
    net_weights_finish(&graphs.w[1], graphs.p.dev, graphs.host.shape.n_layers);
    net_weights_make(&graphs.w[1], graphs.p.dev, &plain.host); // the same numbers
    struct result want = run(&plain, 1, &batch.b);
    for (int i = 0; i < 4; i++) {
        struct result got = run(&graphs, 1, &batch.b);
        check_case(&graphs.p, "pass %d", i);
        check_same_bits(got.hidden, want.hidden, (size_t)batch.b.n_rows * hidden, "hidden states");
        check_same_bits(got.logits, want.logits,
                        (size_t)batch.b.n_seqs * (size_t)plain.host.shape.n_labels, "logits");
        result_free(&got);
    }
    result_free(&want), check_batch_free(&batch);
    both_finish(&plain), both_finish(&graphs);
}

/* Embedding, seven a layer, pooling, and two of the head (these networks' head has no first). */
static int64_t launches(struct both *b, const struct token_batch *batch, int64_t *ns) {
    struct result r = result_of(b, batch);
    const struct net_pass pass = {.net = &b->nets[1], .logits = r.logits};
    const struct backend_fn *fn = b->p.dev->fn;
    struct op_times times;
    struct error err;
    enum status s = STATUS_OK;
    fn->batch_begin(b->p.dev, 0, batch);
    fn->batch_submit(b->p.dev, 0, net_program, &pass);
    assert_true(fn->batch_end(b->p.dev, 0, true, &s, &times, &err));
    assert_int_equal(s, STATUS_OK);
    *ns = 0;
    for (int k = 0; k < N_OP_KINDS; k++) {
        *ns += times.ns[k];
    }
    result_free(&r);
    return times.launches;
}
static void test_launches(void **unused) {
    struct both plain, graphs;
    struct batch batch = check_batch(3, 9, 0);
    int64_t ns = 0;
    both_init(&plain, 0, PRECISION_BFLOAT16, 0), both_init(&graphs, 0, PRECISION_BFLOAT16, 4096);
    const int once = 1 + 7 * plain.host.shape.n_layers + 1 + 1;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(launches(&plain, &batch.b, &ns), once);
        assert_true(ns > 0);
        assert_int_equal(launches(&graphs, &batch.b, &ns), i ? 1 : once);
        assert_true(ns > 0);
    }
    check_batch_free(&batch);
    both_finish(&plain), both_finish(&graphs);
}

/* Two passes under way, ended in the other order. */
static void test_two_slots(void **unused) {
    struct both b;
    both_init(&b, 1, PRECISION_FLOAT32, 0);
    const struct backend_fn *fn = b.p.dev->fn;
    struct batch one = check_batch(3, 20, 0), two = check_batch(2, 40, 4);
    struct result want[2] = {run(&b, 1, &one.b), run(&b, 1, &two.b)};
    struct net second = b.nets[1]; // activations of its own
    net_init(&second, b.p.dev, &b.host, &b.w[1], MAX_ROWS, MAX_SEQS, MAX_LEN);
    struct result got[2] = {result_of(&b, &one.b), result_of(&b, &two.b)};
    const struct net_pass passes[2] = {{&b.nets[1], NULL, got[0].logits},
                                       {&second, NULL, got[1].logits}};
    fn->batch_begin(b.p.dev, 0, &one.b);
    fn->batch_submit(b.p.dev, 0, net_program, &passes[0]);
    fn->batch_begin(b.p.dev, 1, &two.b);
    fn->batch_submit(b.p.dev, 1, net_program, &passes[1]);
    for (int slot = 1; slot >= 0; slot--) {
        struct error err;
        enum status s = STATUS_OK;
        assert_true(fn->batch_end(b.p.dev, slot, true, &s, NULL, &err));
        assert_int_equal(s, STATUS_OK);
    }
    check_case(&b.p, "two passes at once");
    const size_t n_labels = (size_t)b.host.shape.n_labels;
    check_same_bits(got[0].logits, want[0].logits, (size_t)one.b.n_seqs * n_labels, "the first");
    check_same_bits(got[1].logits, want[1].logits, (size_t)two.b.n_seqs * n_labels, "the second");
    for (int i = 0; i < 2; i++) {
        result_free(&want[i]), result_free(&got[i]);
    }
    net_finish(&second);
    check_batch_free(&one), check_batch_free(&two);
    both_finish(&b);
}

int test_accelerator_passes(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_reference),
        cmocka_unit_test(test_graphs_same_bits),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_two_slots),
    };
    return cmocka_run_group_tests_name("accelerator passes", tests, NULL, NULL);
}
