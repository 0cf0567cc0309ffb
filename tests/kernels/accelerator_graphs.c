/* accelerator_graphs.c - once a backend is warmed up and sealed, passes of any size make nothing:
 * no graph, no memory, no plan of a product; and their logits are the reference's. What is made is
 * counted by the simulated device, so on a real one only launches and logits are looked at. */
#include "tests/kernels/accelerator.h"
#include <math.h>
#include <stdlib.h>

enum { MAX_SIZES = 128, N_SLOTS = 2, N_PASSES = 60 };

/* One network on the device, with activations for each slot, and on the reference. */
struct served {
    struct small_net small; // slot 0's
    struct net second;      // slot 1's
    struct net_weights ref_weights;
    struct net ref;
};
static void served_init(struct served *s, enum precision precision, int graph_max_rows) {
    const struct accelerator_options opt = {.graph_max_rows = graph_max_rows};
    small_net_init(&s->small, precision, &opt);
    net_init(&s->second, s->small.pair.dev, &s->small.host, &s->small.weights, SMALL_ROWS,
             SMALL_SEQS, SMALL_LEN);
    net_weights_make(&s->ref_weights, s->small.pair.ref, &s->small.host);
    net_init(&s->ref, s->small.pair.ref, &s->small.host, &s->ref_weights, SMALL_ROWS, SMALL_SEQS,
             SMALL_LEN);
}
static void served_finish(struct served *s) {
    net_finish(&s->second), net_finish(&s->ref);
    net_weights_finish(&s->ref_weights, s->small.pair.ref, s->small.host.shape.n_layers);
    small_net_finish(&s->small);
}
static int64_t pass(const struct served *s, int slot, const struct batch *b, float *hidden,
                    float *logits) {
    struct backend *dev = s->small.pair.dev;
    const struct net_pass p = {slot ? &s->second : &s->small.net, hidden, logits};
    struct op_times times;
    struct error err;
    enum status status = STATUS_OK;
    dev->fn->batch_begin(dev, slot, &b->b);
    dev->fn->batch_submit(dev, slot, net_program, &p);
    assert_true(dev->fn->batch_end(dev, slot, true, &status, &times, &err));
    assert_int_equal(status, STATUS_OK);
    return times.launches;
}
/* As a server's start does it. */
static int warm_up(const struct served *s) {
    struct backend *dev = s->small.pair.dev;
    float logits[SMALL_SEQS * SMALL_LABELS];
    int lens[SMALL_SEQS], rows = 0, seqs = 0, n = 0;
    for (; dev->fn->warm_up_size(dev, n, &rows, &seqs); n++) {
        assert_true(seqs >= 1 && seqs <= SMALL_SEQS && rows >= seqs && rows <= SMALL_ROWS);
        for (int i = 0; i < seqs; i++) {
            lens[i] = rows / seqs + (i < rows % seqs);
            assert_true(lens[i] <= SMALL_LEN);
        }
        struct batch b = check_batch_of(lens, seqs, 0);
        for (int i = 0; i < 2 * N_SLOTS; i++) {
            (void)pass(s, i / 2, &b, NULL, logits);
        }
        check_batch_free(&b);
    }
    dev->fn->seal(dev);
    return n;
}
static struct batch any_batch(void) {
    int lens[SMALL_SEQS], n = 0, rows = 0;
    const int wanted = check_rand(1, SMALL_SEQS), longest = check_rand(1, SMALL_LEN);
    for (; n < wanted; n++) {
        lens[n] = check_rand(1, longest);
        if (rows + lens[n] > SMALL_ROWS) {
            break;
        }
        rows += lens[n];
    }
    return check_batch_of(lens, n, 0);
}

/* In fp32 sums differ in their order alone; a wrong row, or one that is stale, is off by about 1.
 */
static void check_logits(const struct served *s, const struct batch *b, const float *got) {
    float want[SMALL_SEQS * SMALL_LABELS];
    const struct net_pass p = {&s->ref, NULL, want};
    check_run(s->small.pair.ref, &b->b, net_program, &p);
    for (int i = 0; i < b->b.n_seqs * SMALL_LABELS; i++) {
        if (!(fabs((double)got[i] - want[i]) <= 1e-4 * (1 + fabs((double)want[i])))) {
            check_fail("logit %d is %.9g, the reference says %.9g", i, got[i], want[i]);
        }
    }
}
static void serve(const struct served *s, int graph_max_rows) {
    const int called = 1 + 7 * s->small.host.shape.n_layers + 1 + 1;
    const unsigned long made = accelerator_count("simt_made");
    for (int i = 0; i < N_PASSES; i++) {
        struct batch b = any_batch();
        float logits[SMALL_SEQS * SMALL_LABELS];
        const int64_t launches = pass(s, i % N_SLOTS, &b, NULL, logits);
        check_case(&s->small.pair, "pass %d, %d rows in %d sequences", i, b.b.n_rows, b.b.n_seqs);
        if (b.b.n_rows <= graph_max_rows) {
            assert_int_equal(launches, 1);
        } else {
            assert_in_range(launches, called, called + s->small.host.shape.n_layers);
        }
        check_logits(s, &b, logits);
        check_batch_free(&b);
    }
    assert_int_equal(accelerator_count("simt_made"), made);
}
static void test_nothing_is_made_after_the_seal(void **unused) {
    static const int most[] = {SMALL_ROWS, 40, 16, 0}; // 40: a bucket's end of its own
    for (size_t i = 0; i < N_ITEMS(most); i++) {
        struct served s;
        served_init(&s, PRECISION_FLOAT32, most[i]);
        const unsigned long before = accelerator_count("simt_made");
        assert_in_range(warm_up(&s), 1, MAX_SIZES);
        assert_true(accelerator_count("simt_made") > before || !accelerator_is_simulated());
        serve(&s, most[i]);
        served_finish(&s);
    }
}
/* A program that no start has seen: its graphs are missing, and stay so. */
static void test_without_a_graph_it_is_launched(void **unused) {
    struct served s;
    float *hidden = xcalloc(SMALL_ROWS * 32, sizeof(*hidden));
    float logits[SMALL_SEQS * SMALL_LABELS];
    served_init(&s, PRECISION_BFLOAT16, SMALL_ROWS);
    warm_up(&s);
    struct batch b = check_batch(3, 9, 0);
    (void)pass(&s, 0, &b, hidden, NULL); // the last layer's products of tokens are new
    const unsigned long made = accelerator_count("simt_made");
    for (int i = 0; i < 4; i++) {
        assert_true(pass(&s, 0, &b, hidden, NULL) > 1);
        assert_int_equal(pass(&s, 0, &b, NULL, logits), 1); // the others' are still there
    }
    assert_int_equal(accelerator_count("simt_made"), made);
    check_batch_free(&b);
    free(hidden);
    served_finish(&s);
}
/* More programs than there is room for graphs of: after the seal each still runs. */
static void test_seal_leaves_room_for_lists(void **unused) {
    struct served s;
    float *hidden = xcalloc(SMALL_ROWS * 32, sizeof(*hidden));
    float logits[SMALL_SEQS * SMALL_LABELS];
    served_init(&s, PRECISION_BFLOAT16, SMALL_ROWS);
    for (int i = 0; i < 2 * N_PASSES; i++) {
        struct batch b = any_batch();
        (void)pass(&s, i % N_SLOTS, &b, i & 2 ? hidden : NULL, logits);
        check_batch_free(&b);
    }
    s.small.pair.dev->fn->seal(s.small.pair.dev);
    for (int i = 0; i < N_PASSES; i++) {
        struct batch b = any_batch();
        assert_true(pass(&s, i % N_SLOTS, &b, i & 2 ? hidden : NULL, logits) >= 1);
        check_batch_free(&b);
    }
    free(hidden);
    served_finish(&s);
}

int test_accelerator_graphs(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_made_after_the_seal),
        cmocka_unit_test(test_without_a_graph_it_is_launched),
        cmocka_unit_test(test_seal_leaves_room_for_lists),
    };
    return cmocka_run_group_tests_name("accelerator graphs", tests, NULL, NULL);
}
