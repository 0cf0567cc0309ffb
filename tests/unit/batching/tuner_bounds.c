/* tuner_bounds.c - the dynamic programme against every choice there is. */
#include "batching/tuner.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_K = 5, MAX_DISTINCT = 40 };
/* Whole and small, so that sums of products are exact and equal whatever their order. */
static const double coefs[][COST_TERMS] = {{1000, 7, 0}, {0, 0, 1}, {50, 40, 1}, {9, 1000, 3}};

/* The histogram without its gaps, so that 80,000 choices take no time. */
struct pair {
    int len;
    int64_t count;
};
static int pairs_of(struct pair *out, const struct lengths *h) {
    int n = 0;
    for (int len = 1; len <= TRACE_MAX_TOKENS; len++) {
        if (h->count[len]) {
            out[n++] = (struct pair){len, h->count[len]};
        }
    }
    return n;
}
static int64_t cost_of(const struct pair *pairs, int n_pairs, const int *bounds, int n_bounds,
                       const double coef[COST_TERMS]) {
    const int64_t b = (int64_t)coef[1], c = (int64_t)coef[2];
    int64_t sum = 0;
    for (int p = 0, i = 0; p < n_pairs; p++) {
        while (i < n_bounds - 1 && bounds[i] < pairs[p].len) {
            i++;
        }
        sum += pairs[p].count * (b * bounds[i] + c * bounds[i] * bounds[i]);
    }
    return sum;
}
/* The least over all k - 1 of the candidates with `last` behind them, in odometer order. */
static int64_t brute_force(const struct lengths *h, const int *candidates, int n, int k, int last,
                           const double coef[COST_TERMS]) {
    static struct pair pairs[TRACE_MAX_TOKENS];
    int at[MAX_K] = {0}, bounds[MAX_K];
    int64_t least = INT64_MAX;
    const int n_pairs = pairs_of(pairs, h);
    const int free_bounds = k - 1 < n ? k - 1 : n;
    for (int i = 0; i < free_bounds; i++) {
        at[i] = i;
    }
    for (;;) {
        for (int i = 0; i < free_bounds; i++) {
            bounds[i] = candidates[at[i]];
        }
        bounds[free_bounds] = last;
        const int64_t cost = cost_of(pairs, n_pairs, bounds, free_bounds + 1, coef);
        least = cost < least ? cost : least;
        int i = free_bounds - 1;
        while (i >= 0 && at[i] == n - free_bounds + i) {
            i--;
        }
        if (i < 0) {
            return least;
        }
        at[i]++;
        for (int j = i + 1; j < free_bounds; j++) {
            at[j] = at[j - 1] + 1;
        }
    }
}

static int distinct(int *out, const struct lengths *h, int last) {
    int n = 0;
    for (int len = 1; len < last; len++) {
        if (h->count[len]) {
            out[n++] = len;
        }
    }
    return n;
}
static void check_bounds(const struct lengths *h, const int *candidates, int n, int k, int last,
                         const double coef[COST_TERMS]) {
    int bounds[MAX_K];
    double cost = -1;
    const int n_bounds = tuner_bounds(bounds, k, h, last, coef, &cost);
    assert_in_range(n_bounds, 1, k);
    assert_int_equal(bounds[n_bounds - 1], last);
    for (int i = 0; i < n_bounds; i++) {
        assert_true(bounds[i] > (i ? bounds[i - 1] : 0));
    }
    static struct pair pairs[TRACE_MAX_TOKENS];
    const int n_pairs = pairs_of(pairs, h);
    assert_true(cost == (double)cost_of(pairs, n_pairs, bounds, n_bounds, coef)); // as it says
    assert_true(cost == (double)brute_force(h, candidates, n, k, last, coef));
}

static void random_lengths(struct lengths *h, int n, int span, unsigned *seed) {
    memset(h, 0, sizeof(*h));
    for (int i = 0; i < n; i++) {
        h->count[1 + rand_r(seed) % span] = 1 + rand_r(seed) % (i % 3 ? 10 : 1000);
    }
}
static void test_equals_brute_force(void **state) {
    struct lengths h;
    int candidates[MAX_DISTINCT];
    (void)state;
    for (unsigned seed = 1; seed <= 120; seed++) {
        unsigned r = seed;
        const int n = seed % 12 ? 1 + rand_r(&r) % 16 : MAX_DISTINCT;
        const int span = 40 + rand_r(&r) % 472, last = span + (seed % 2 ? rand_r(&r) % 100 : 0);
        random_lengths(&h, n, span, &r);
        const int n_candidates = distinct(candidates, &h, last);
        const int most_k = seed % 12 ? MAX_K : 4 + (seed % 24 == 0);
        for (int k = 1; k <= most_k; k++) {
            check_bounds(&h, candidates, n_candidates, k, last, coefs[seed % N_ITEMS(coefs)]);
        }
    }
}
/* The five mixes with their lengths brought together into at most MAX_DISTINCT, of near equal
 * share; each of them as long as its longest. */
static void coarse_mix(struct lengths *out, const char *name, int last) {
    static struct lengths fine;
    struct error err = {.text = ""};
    int64_t total = 0, seen = 0, held = 0, n_closed = 0;
    assert_int_equal(lengths_named(&fine, name, 3, last, &err), STATUS_OK);
    for (int len = 1; len <= last; len++) {
        total += fine.count[len];
    }
    memset(out, 0, sizeof(*out));
    for (int len = 1; len <= last; len++) {
        seen += fine.count[len];
        held += fine.count[len];
        if (held > 0 && (seen * MAX_DISTINCT >= total * (n_closed + 1) || len == last)) {
            out->count[len] = held;
            held = 0;
            n_closed = seen * MAX_DISTINCT / total;
        }
    }
}
static void test_equals_brute_force_on_the_mixes(void **state) {
    static const char *const mixes[] = {"chat", "reviews", "queries", "documents", "bimodal"};
    enum { LAST = 512, FEWEST = 10 }; // queries are short: few lengths are most of them
    static struct lengths h;
    int candidates[LAST];
    (void)state;
    for (size_t m = 0; m < N_ITEMS(mixes); m++) {
        coarse_mix(&h, mixes[m], LAST);
        const int n = distinct(candidates, &h, LAST);
        assert_in_range(n + (h.count[LAST] > 0), FEWEST, MAX_DISTINCT);
        for (int k = 1; k <= MAX_K; k++) {
            check_bounds(&h, candidates, n, k, LAST, coefs[m % N_ITEMS(coefs)]);
            check_bounds(&h, candidates, n, k, LAST, coefs[2]);
        }
    }
}
/* Any bound may be chosen, not only lengths that occur: none of them is better. */
static void test_bounds_between_lengths_are_no_better(void **state) {
    struct lengths h;
    int candidates[MAX_DISTINCT];
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        unsigned r = seed;
        random_lengths(&h, 9, 25, &r);
        for (int i = 0; i < 29; i++) {
            candidates[i] = i + 1;
        }
        for (int k = 1; k <= 4; k++) {
            check_bounds(&h, candidates, 29, k, 30, coefs[seed % N_ITEMS(coefs)]);
        }
    }
}
static void test_few_lengths(void **state) {
    struct lengths h = {.count = {[10] = 3, [20] = 1}};
    int bounds[MAX_K];
    double cost = -1;
    (void)state;
    assert_int_equal(tuner_bounds(bounds, 5, &h, 20, coefs[0], &cost), 2);
    assert_int_equal(bounds[0], 10);
    assert_int_equal(bounds[1], 20);
    assert_true(cost == 3 * 70 + 140);
    assert_int_equal(tuner_bounds(bounds, 5, &h, 512, coefs[0], &cost), 3); // 512 holds nothing
    assert_int_equal(bounds[1], 20);
    assert_int_equal(bounds[2], 512);
    assert_true(cost == 3 * 70 + 140);
    assert_int_equal(tuner_bounds(bounds, 1, &h, 512, coefs[0], &cost), 1);
    assert_int_equal(bounds[0], 512);
    memset(&h, 0, sizeof(h));
    assert_int_equal(tuner_bounds(bounds, 3, &h, 512, coefs[0], &cost), 1);
    assert_int_equal(bounds[0], 512);
    assert_true(cost == 0);
    h.count[700] = 2; // longer than the last bound: cut there
    assert_int_equal(tuner_bounds(bounds, 3, &h, 512, coefs[0], &cost), 1);
    assert_true(cost == 2 * 7 * 512);
}
/* At full size every bound is used, and one more never costs more. */
static void test_many_lengths(void **state) {
    static struct lengths h;
    int bounds[32];
    double before = 1e300;
    unsigned r = 7;
    (void)state;
    for (int len = 1; len <= TRACE_MAX_TOKENS; len++) {
        h.count[len] = 1 + rand_r(&r) % 100;
    }
    static struct pair pairs[TRACE_MAX_TOKENS];
    const int n_pairs = pairs_of(pairs, &h);
    for (int k = 1; k <= 32; k++) {
        double cost = -1;
        assert_int_equal(tuner_bounds(bounds, k, &h, TRACE_MAX_TOKENS, coefs[2], &cost), k);
        assert_true(cost < before);
        assert_true(cost == (double)cost_of(pairs, n_pairs, bounds, k, coefs[2]));
        before = cost;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equals_brute_force),
        cmocka_unit_test(test_equals_brute_force_on_the_mixes),
        cmocka_unit_test(test_bounds_between_lengths_are_no_better),
        cmocka_unit_test(test_few_lengths),
        cmocka_unit_test(test_many_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
