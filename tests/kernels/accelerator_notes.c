/* accelerator_notes.c - what was timed once is not timed again, as long as it still holds. Products
 * are counted by the simulated library itself, so on a real device only the notes are looked at. */
#include "tests/kernels/accelerator.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOTES = 64, MAX_VALUES = 8, KEY_BYTES = 241 };

struct store {
    char keys[MAX_NOTES][KEY_BYTES];
    double values[MAX_NOTES][MAX_VALUES];
    int n, n_asked, n_given;
};
static int place_of(const struct store *s, const char *key) {
    int i = 0;
    while (i < s->n && strcmp(s->keys[i], key) != 0) {
        i++;
    }
    return i;
}
static bool get(void *arg, const char *key, double *values, int n) {
    struct store *s = arg;
    const int i = place_of(s, key);
    s->n_asked++;
    if (i < s->n) {
        memcpy(values, s->values[i], (size_t)n * sizeof(*values));
    }
    return i < s->n;
}
static void set(void *arg, const char *key, const double *values, int n) {
    struct store *s = arg;
    const int i = place_of(s, key);
    assert_true(i < MAX_NOTES && n <= MAX_VALUES && strlen(key) < KEY_BYTES);
    snprintf(s->keys[i], KEY_BYTES, "%s", key);
    memcpy(s->values[i], values, (size_t)n * sizeof(*values));
    s->n = i == s->n ? i + 1 : s->n;
    s->n_given++;
}

/* Products that the simulated library was ever given; 0 on a real device. */
static unsigned long products(void) {
    return accelerator_count("simt_products");
}
/* A backend's life of two passes: what products each took. */
struct life {
    unsigned long first, second;
};
static struct life live(struct store *store, const struct token_batch *batch,
                        enum precision precision, bool deterministic) {
    const struct choice_notes notes = {store, get, set};
    const struct accelerator_options opt = {.notes = &notes, .deterministic = deterministic};
    struct small_net s;
    float logits[SMALL_SEQS * SMALL_LABELS];
    small_net_init(&s, precision, &opt);
    const struct net_pass pass = {.net = &s.net, .logits = logits};
    const unsigned long before = products();
    check_run(s.pair.dev, batch, net_program, &pass);
    const unsigned long between = products();
    check_run(s.pair.dev, batch, net_program, &pass);
    const struct life l = {between - before, products() - between};
    small_net_finish(&s);
    return l;
}

static void test_second_life_times_nothing(void **unused) {
    struct store store = {.n = 0};
    struct batch b = check_batch(3, 9, 0);
    const struct life first = live(&store, &b.b, PRECISION_BFLOAT16, false);
    const int n = store.n;
    assert_true(n > 0 && store.n_given == n && store.n_asked == n);
    assert_true(first.first > first.second || !accelerator_is_simulated());
    store.n_asked = store.n_given = 0;
    const struct life second = live(&store, &b.b, PRECISION_BFLOAT16, false);
    assert_int_equal(store.n_asked, n);
    assert_int_equal(store.n_given, 0);
    assert_int_equal(second.first, first.second); // its products, each once
    assert_int_equal(second.second, first.second);
    check_batch_free(&b);
}
/* Marks that no proposal has: another build's, or made up. */
static void test_stale_notes_are_replaced(void **unused) {
    static const double wrong[] = {0, -1, 0.5, 1e300};
    struct store store = {.n = 0};
    struct batch b = check_batch(3, 9, 0);
    const struct life first = live(&store, &b.b, PRECISION_FLOAT32, false);
    const struct store good = store;
    for (int i = 0; i < store.n; i++) {
        store.values[i][0] = wrong[i % (int)N_ITEMS(wrong)];
    }
    store.n_given = 0;
    const struct life second = live(&store, &b.b, PRECISION_FLOAT32, false);
    assert_int_equal(store.n_given, good.n);
    assert_int_equal(store.n, good.n);
    assert_int_equal(second.first, first.first);
    const struct life third = live(&store, &b.b, PRECISION_FLOAT32, false);
    assert_int_equal(third.first, first.second);
    check_batch_free(&b);
}
/* Other types are other keys. */
static void test_types_have_notes_of_their_own(void **unused) {
    struct store store = {.n = 0};
    struct batch b = check_batch(3, 9, 0);
    (void)live(&store, &b.b, PRECISION_FLOAT16, false);
    const int n = store.n;
    store.n_given = 0;
    (void)live(&store, &b.b, PRECISION_BFLOAT16, false);
    assert_int_equal(store.n_given, n);
    assert_int_equal(store.n, 2 * n);
    check_batch_free(&b);
}
/* Where no timing may choose, neither may an earlier one. */
static void test_deterministic_asks_for_none(void **unused) {
    struct store store = {.n = 0};
    struct batch b = check_batch(3, 9, 0);
    const struct life l = live(&store, &b.b, PRECISION_FLOAT32, true);
    assert_int_equal(store.n_asked + store.n_given, 0);
    assert_int_equal(l.first, l.second);
    check_batch_free(&b);
}

int test_accelerator_notes(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_life_times_nothing),
        cmocka_unit_test(test_stale_notes_are_replaced),
        cmocka_unit_test(test_types_have_notes_of_their_own),
        cmocka_unit_test(test_deterministic_asks_for_none),
    };
    return cmocka_run_group_tests_name("accelerator notes", tests, NULL, NULL);
}
