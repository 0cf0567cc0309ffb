/* edges.c - whole passes where something is odd, in every precision of every level: head dims and
 * hidden sizes that no vector divides, few labels and many; and a sequence whose numbers overflow,
 * which spoils its own logits and no others. */
#include "tests/kernels/check.h"
#include "tests/kernels/net.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KINDS = 32, MAX_ROWS = 64, MAX_SEQS = 8, MAX_LEN = 16, STRANGE_ID = NET_VOCAB - 1 };

/* Every level in fp32, then every other precision. */
static int all_kinds(struct kind out[MAX_KINDS]) {
    int n = 0;
    for (const char *const *isa = check_isas(); *isa && n < MAX_KINDS; isa++) {
        out[n++] = (struct kind){*isa, PRECISION_FLOAT32};
    }
    for (const struct kind *k = check_kinds(); k->isa && n < MAX_KINDS; k++) {
        out[n++] = *k;
    }
    return n;
}

static void run_on(struct backend *be, const struct net_host *h, const struct token_batch *b,
                   float *hidden, float *logits) {
    struct net_weights w;
    struct net n;
    net_weights_make(&w, be, h);
    net_init(&n, be, h, &w, MAX_ROWS, MAX_SEQS, MAX_LEN);
    const struct net_pass whole = {.net = &n, .hidden = hidden};
    const struct net_pass classify = {.net = &n, .logits = logits};
    if (hidden) {
        check_run(be, b, net_program, &whole);
    }
    check_run(be, b, net_program, &classify);
    net_finish(&n);
    net_weights_finish(&w, be, h->shape.n_layers);
}

/* What a pass gave, beside the reference. LayerNorm over a handful of values makes much of a small
 * difference: fp32 is allowed more there, coarse precisions are compared where a row has 32. */
struct outcome {
    float *hidden, *logits;
    size_t n_hidden, n_logits;
};
static struct outcome outcome_make(const struct net_host *h, const struct token_batch *b) {
    struct outcome o = {.n_hidden = (size_t)b->n_rows * (size_t)h->hidden,
                        .n_logits = (size_t)b->n_seqs * (size_t)h->shape.n_labels};
    o.hidden = xcalloc(o.n_hidden, sizeof(float)), o.logits = xcalloc(o.n_logits, sizeof(float));
    return o;
}
static void outcome_free(struct outcome *o) {
    free(o->hidden), free(o->logits);
}
static double worst_difference(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        worst = d <= worst ? worst : d; // NaN too
    }
    return worst;
}
static void check_outcome(const struct pair *p, const struct net_host *h, const struct outcome *got,
                          const struct outcome *want) {
    static const double least[] = {[DTYPE_BF16] = 0.998, [DTYPE_I8] = 0.97};
    const double zeros = worst_difference(got->logits, got->logits, got->n_logits); // NaN: NaN
    const double cosine = check_worst_cosine(got->hidden, want->hidden,
                                             (int)(got->n_hidden / (size_t)h->hidden), h->hidden);
    const double off = fmax(worst_difference(got->hidden, want->hidden, got->n_hidden),
                            worst_difference(got->logits, want->logits, got->n_logits));
    const bool good = p->dev->dtype == DTYPE_F32 ? off <= (h->hidden < 8 ? 2e-2 : 2e-4)
                                                 : h->hidden < 32 || cosine >= least[p->dev->dtype];
    if (zeros != 0 || !good) {
        fail_msg("%s, %s, %d heads of %d, FFN %d, %d labels: off by %g, cosine %g", p->dev->detail,
                 dtype_name(p->dev->dtype), h->shape.n_heads, h->shape.head_dim,
                 h->shape.intermediate, h->shape.n_labels, off, cosine);
    }
}
/* One shape on every `step`-th kind, but on every one in fp32. */
static void try_shape(const struct net_shape *shape, const struct kind *kinds, int n_kinds,
                      int first, int step) {
    struct net_host h;
    net_host_init(&h, shape);
    struct batch b = check_batch(3, 9, check_rand(0, 1));
    struct outcome want = outcome_make(&h, &b.b), got = outcome_make(&h, &b.b);
    for (int i = 0; i < n_kinds; i++) {
        struct pair p = check_pair_in(kinds[i].isa, 1 + i % 2, kinds[i].precision);
        if (i == 0) {
            run_on(p.ref, &h, &b.b, want.hidden, want.logits);
        }
        if (kinds[i].precision == PRECISION_FLOAT32 || (i + first) % step == 0) {
            run_on(p.dev, &h, &b.b, got.hidden, got.logits);
            check_outcome(&p, &h, &got, &want);
        }
        check_pair_finish(&p);
    }
    outcome_free(&want), outcome_free(&got);
    check_batch_free(&b);
    net_host_finish(&h);
}

static void test_head_dims(void **unused) {
    struct kind kinds[MAX_KINDS];
    const int n = all_kinds(kinds);
    for (int head_dim = 1; head_dim <= 130; head_dim++) {
        const struct net_shape shape = {.n_heads = head_dim <= 40 ? 1 + head_dim % 3 : 1,
                                        .head_dim = head_dim,
                                        .intermediate = 1 + head_dim * 37 % 113,
                                        .n_layers = 2,
                                        .n_labels = 1 + head_dim % 7,
                                        .activation = ACT_GELU};
        try_shape(&shape, kinds, n, head_dim, 3);
    }
}
static void test_hidden_sizes(void **unused) {
    static const struct {
        int n_heads, head_dim;
    } sizes[] = {{4, 5}, {1, 20}, {12, 3}, {2, 18}, {10, 10}, {4, 25}, {1, 100}};
    struct kind kinds[MAX_KINDS];
    const int n = all_kinds(kinds);
    for (size_t i = 0; i < N_ITEMS(sizes); i++) {
        const struct net_shape shape = {.n_heads = sizes[i].n_heads,
                                        .head_dim = sizes[i].head_dim,
                                        .intermediate = check_rand(1, 500),
                                        .n_layers = 2,
                                        .n_labels = 1 + (int)i,
                                        .activation = ACT_GELU_TANH};
        try_shape(&shape, kinds, n, 0, 1);
    }
}

/* A token whose embedding's sum is infinite, in sequence 2 of 5. */
static void strange_sequence(const struct kind *kind, int n_lanes, const struct net_host *h) {
    static const int lens[] = {3, 9, 5, 1, 7};
    const size_t n_labels = (size_t)h->shape.n_labels, n = N_ITEMS(lens) * n_labels;
    struct pair p = check_pair_in(kind->isa, n_lanes, kind->precision);
    struct batch b = check_batch_of(lens, N_ITEMS(lens), 0);
    float *plain = xcalloc(n, sizeof(*plain)), *got = xcalloc(n, sizeof(*got));
    for (int r = 0; r < b.b.n_rows; r++) {
        b.ids[r] %= STRANGE_ID;
    }
    run_on(p.dev, h, &b.b, NULL, plain);
    b.ids[b.cu[2] + check_rand(0, lens[2] - 1)] = STRANGE_ID;
    run_on(p.dev, h, &b.b, NULL, got);
    check_case(&p, "a sequence that overflows");
    for (size_t i = 0; i < n; i++) {
        if (i / n_labels == 2) {
            assert_false(isfinite(got[i]));
        } else {
            check_same_bits(&got[i], &plain[i], 1, "another sequence's logits");
        }
    }
    free(plain), free(got);
    check_batch_free(&b);
    check_pair_finish(&p);
}
static void test_strange_sequences(void **unused) {
    static const struct net_shape shape = {.n_heads = 3,
                                           .head_dim = 12,
                                           .intermediate = 50,
                                           .n_layers = 2,
                                           .n_labels = 3,
                                           .activation = ACT_GELU};
    struct kind kinds[MAX_KINDS];
    const int n = all_kinds(kinds);
    struct net_host h;
    net_host_init(&h, &shape);
    for (int i = 0; i < h.hidden; i++) {
        ((float *)(uintptr_t)h.words.data)[STRANGE_ID * h.hidden + i] = 3e38f;
    }
    for (int i = 0; i < n; i++) {
        strange_sequence(&kinds[i], 1, &h);
        strange_sequence(&kinds[i], 3, &h);
    }
    net_host_finish(&h);
}

int test_edges(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_dims),
        cmocka_unit_test(test_hidden_sizes),
        cmocka_unit_test(test_strange_sequences),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
