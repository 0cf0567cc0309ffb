#include "batching/cost.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64, so that a failure comes again. */
static uint64_t seed;
static double uniform(void) {
    uint64_t z = (seed += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}
static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}
static int between(int lo, int hi) {
    return lo + (int)(uniform() * (hi - lo + 1));
}
static const double true_coef[COST_TERMS] = {250e3, 130e3, 80};

static double time_of(const double coef[COST_TERMS], struct cost_shape s) {
    return coef[0] + coef[1] * (double)s.rows + coef[2] * (double)s.sum_len2;
}
static struct cost_sample sample_of(struct cost_shape s, double ns) {
    return (struct cost_sample){s, (int64_t)llround(ns)};
}
static struct cost_shape shape_of(int n_seqs, int len) {
    return (struct cost_shape){(int64_t)n_seqs * len, (int64_t)n_seqs * len * len};
}
/* A packed batch of mixed lengths. */
static struct cost_shape random_batch(void) {
    struct cost_shape s = {0, 0};
    const int max_rows = between(8, 256);
    while (s.rows < max_rows) {
        const int len = (int)fmin(fmax(3, exp(3.2 + 1.1 * normal())), 512);
        s.rows += len, s.sum_len2 += (int64_t)len * len;
    }
    return s;
}
/* The worst relative error over shapes from one short text to a long one. */
static double worst_error(const struct cost_model *m, const double coef[COST_TERMS]) {
    static const int shapes[][2] = {{1, 8}, {4, 16}, {8, 32}, {1, 128}, {1, 256}, {1, 512}};
    double worst = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct cost_shape s = shape_of(shapes[i][0], shapes[i][1]);
        worst = fmax(worst, fabs((double)cost_predict_ns(m, s) / time_of(coef, s) - 1));
    }
    return worst;
}
static void assert_sane(const struct cost_model *m) {
    for (int i = 0; i < COST_TERMS; i++) {
        assert_true(isfinite(m->coef[i]) && m->coef[i] >= 0);
        for (int j = 0; j < COST_TERMS; j++) {
            assert_true(isfinite(m->information[i][j]));
            assert_true(m->information[i][j] == m->information[j][i]);
        }
    }
    assert_true(fabs(m->drift) <= 1);
}
static void fit_truth(struct cost_model *m, const double coef[COST_TERMS]) {
    static const int shapes[][2] = {{1, 8}, {4, 16}, {8, 32}, {1, 128}, {1, 512}};
    struct cost_sample s[5];
    for (int i = 0; i < 5; i++) {
        const struct cost_shape shape = shape_of(shapes[i][0], shapes[i][1]);
        s[i] = sample_of(shape, time_of(coef, shape));
    }
    cost_fit(m, s, 5);
}

static void fit_finds_the_truth(void **state) {
    struct cost_model m;
    fit_truth(&m, true_coef);
    for (int i = 0; i < COST_TERMS; i++) {
        assert_true(fabs(m.coef[i] / true_coef[i] - 1) < 1e-4);
    }
    assert_true(worst_error(&m, true_coef) < 1e-5);
    assert_int_equal(m.n_updates, 0);
    assert_true(cost_error(&m) == 0);
    assert_sane(&m);
}
static double loss(const struct cost_sample *s, int n, const double coef[COST_TERMS]) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double e = time_of(coef, s[i].shape) / (double)s[i].ns - 1;
        sum += e * e;
    }
    return sum;
}
/* By coordinate descent, which cannot miss: the loss is convex and the bounds are a box. */
static double least_loss(const struct cost_sample *s, int n) {
    double coef[COST_TERMS] = {0};
    for (int step = 0; step < 100000; step++) {
        for (int k = 0; k < COST_TERMS; k++) {
            double up = 0, down = 0;
            const double old = coef[k];
            coef[k] = 0;
            for (int i = 0; i < n; i++) {
                const double terms[] = {1, (double)s[i].shape.rows, (double)s[i].shape.sum_len2};
                const double z = terms[k] / (double)s[i].ns;
                up += z * (1 - time_of(coef, s[i].shape) / (double)s[i].ns);
                down += z * z;
            }
            coef[k] = fmax(0, old + 1.5 * (up / down - old)); // over-relaxed
        }
    }
    return loss(s, n, coef);
}
static void fit_is_the_best_that_is_not_negative(void **state) {
    int n_held = 0;
    for (int round = 1; round < 40; round++) {
        seed = (uint64_t)round;
        struct cost_sample s[12];
        struct cost_model m;
        for (int i = 0; i < 12; i++) { // times that no such model explains
            s[i].shape = random_batch();
            const double power = (round % 3 == 0 ? 0.6 : round % 3 == 1 ? 1.4 : 1);
            s[i].ns = (int64_t)(2e4 * pow((double)s[i].shape.rows, power) * exp(0.3 * normal()));
        }
        cost_fit(&m, s, 12);
        const double best = least_loss(s, 12), found = loss(s, 12, m.coef);
        assert_true(found <= best * (1 + 1e-6));
        for (int k = 0; k < COST_TERMS; k++) {
            assert_true(m.coef[k] >= 0);
            n_held += m.coef[k] == 0;
        }
    }
    assert_true(n_held > 10); // or the bounds were never tried
}
static void fit_of_alike_samples_is_simple(void **state) {
    struct cost_sample s[4];
    struct cost_model m;
    for (int i = 0; i < 4; i++) {
        s[i] = sample_of(shape_of(2, 50), 5e6);
    }
    cost_fit(&m, s, 4); // one shape: so much a row
    assert_true(fabs(m.coef[1] - 50e3) < 1 && m.coef[0] == 0 && m.coef[2] == 0);
    for (int i = 0; i < 2; i++) {
        s[i] = sample_of(shape_of(1, 64), 1e6 + 64e4);
        s[i + 2] = sample_of(shape_of(4, 64), 1e6 + 256e4);
    }
    cost_fit(&m, s, 4); // sequences of one length: rows and squares say the same
    assert_true(fabs(m.coef[0] / 1e6 - 1) < 1e-6 && fabs(m.coef[1] / 1e4 - 1) < 1e-6);
    assert_true(m.coef[2] == 0);
    assert_sane(&m);
}
static void nothing_known_predicts_nothing_and_learns(void **state) {
    struct cost_model m, zeroed;
    memset(&zeroed, 0, sizeof(zeroed));
    cost_fit(&m, NULL, 0);
    assert_memory_equal(&m, &zeroed, sizeof(m));
    assert_int_equal(cost_predict_ns(&m, shape_of(1, 512)), 0);
    assert_int_equal(cost_job_ns(&m, 512), 0);
    const struct cost_sample nothing = {.shape = shape_of(1, 8), .ns = 0};
    cost_update(&m, &nothing);
    assert_memory_equal(&m, &zeroed, sizeof(m));
    seed = 7;
    for (int i = 0; i < 30; i++) {
        const struct cost_shape shape = random_batch();
        const struct cost_sample s = sample_of(shape, time_of(true_coef, shape));
        cost_update(&m, &s);
        assert_sane(&m);
        if (i == 0) {
            assert_true(fabs((double)cost_predict_ns(&m, shape) / (double)s.ns - 1) < 1e-6);
        }
    }
    assert_true(worst_error(&m, true_coef) < 0.10);
}

/* Median error of the last updates, beside what the noise alone makes. */
static void update_converges(void **state) {
    const double start[COST_TERMS] = {1e6, 40e3, 300};
    for (int round = 1; round < 20; round++) {
        seed = (uint64_t)round;
        struct cost_model m;
        cost_set(&m, start);
        for (int i = 0; i < 200; i++) {
            const struct cost_shape shape = random_batch();
            const struct cost_sample s =
                sample_of(shape, time_of(true_coef, shape) * exp(0.03 * normal()));
            cost_update(&m, &s);
        }
        assert_sane(&m);
        assert_true(cost_error(&m) < 0.04);
        assert_true(worst_error(&m, true_coef) < 0.15);
    }
}
static void outliers_are_pulled_in(void **state) {
    for (int round = 1; round < 20; round++) {
        seed = (uint64_t)round;
        struct cost_model m;
        fit_truth(&m, true_coef);
        double sum = 0;
        for (int i = 0; i < 2000; i++) {
            const struct cost_shape shape = random_batch();
            const double slow = uniform() < 0.2 ? 2 + 20 * uniform() : 1;
            const struct cost_sample s =
                sample_of(shape, time_of(true_coef, shape) * slow * exp(0.03 * normal()));
            sum += fabs((double)cost_predict_ns(&m, shape) / time_of(true_coef, shape) - 1);
            cost_update(&m, &s);
        }
        assert_sane(&m);
        assert_true(sum / 2000 < 0.02);
        assert_true(cost_error(&m) < 0.05);
    }
}
/* From now on the machine takes `factor` as long: batches until the prediction is within 10 %. */
static int batches_to_follow(double factor) {
    struct cost_model m;
    int n = 0;
    fit_truth(&m, true_coef);
    for (int i = 0; i < 600; i++) {
        const struct cost_shape shape = random_batch();
        const double now = i < 300 ? 1 : factor;
        const struct cost_sample s =
            sample_of(shape, time_of(true_coef, shape) * now * exp(0.03 * normal()));
        const double predicted = (double)cost_predict_ns(&m, shape);
        if (i >= 300 && fabs(predicted / (time_of(true_coef, shape) * factor) - 1) > 0.1) {
            n = i - 300 + 1;
        }
        cost_update(&m, &s);
    }
    assert_sane(&m);
    return n;
}
static void a_lasting_change_is_followed(void **state) {
    static const double factors[] = {2, 0.5, 1.3, 5};
    for (size_t f = 0; f < 4; f++) {
        for (int round = 1; round < 20; round++) {
            seed = (uint64_t)round;
            assert_true(batches_to_follow(factors[f]) <= 30);
        }
    }
}
static void a_change_is_followed_among_outliers(void **state) {
    for (int round = 1; round < 20; round++) {
        seed = (uint64_t)round;
        struct cost_model m;
        fit_truth(&m, true_coef);
        double sum = 0;
        for (int i = 0; i < 300; i++) {
            const struct cost_shape shape = random_batch();
            const double now = (i < 200 ? 1 : 2) * (uniform() < 0.2 ? 5 : 1);
            const struct cost_sample s =
                sample_of(shape, time_of(true_coef, shape) * now * exp(0.03 * normal()));
            if (i >= 240) {
                sum += (double)cost_predict_ns(&m, shape) / (2 * time_of(true_coef, shape)) - 1;
            }
            cost_update(&m, &s);
        }
        assert_true(fabs(sum / 60) < 0.05);
    }
}
/* One shape gets slower for all that is seen: the machine did, so the others did too. */
static void a_change_seen_in_one_shape_moves_all(void **state) {
    const struct cost_shape seen = shape_of(4, 32);
    struct cost_model m;
    fit_truth(&m, true_coef);
    for (int i = 0; i < 400; i++) {
        const struct cost_sample s = sample_of(seen, time_of(true_coef, seen) * (i < 200 ? 1 : 2));
        cost_update(&m, &s);
    }
    const double twice[COST_TERMS] = {2 * true_coef[0], 2 * true_coef[1], 2 * true_coef[2]};
    assert_true(worst_error(&m, twice) < 0.1);
}

static void one_shape_forever_winds_nothing_up(void **state) {
    const struct cost_shape same = shape_of(8, 32);
    struct cost_model m;
    seed = 3;
    fit_truth(&m, true_coef);
    for (int i = 0; i < 2000000; i++) {
        const struct cost_sample s =
            sample_of(same, time_of(true_coef, same) * exp(0.02 * normal()));
        cost_update(&m, &s);
    }
    assert_sane(&m);
    assert_int_equal(m.n_updates, 2000000);
    assert_true(worst_error(&m, true_coef) < 0.25); // of shapes that were not seen for so long
    for (int i = 0; i < 100; i++) {                 // and when they come they are learnt
        const struct cost_shape shape = random_batch();
        const struct cost_sample s =
            sample_of(shape, time_of(true_coef, shape) * exp(0.02 * normal()));
        cost_update(&m, &s);
        assert_true(fabs((double)cost_predict_ns(&m, shape) / (double)s.ns - 1) < 0.4);
    }
    assert_true(worst_error(&m, true_coef) < 0.08);
}
/* Whatever comes: times of a nanosecond and of years, huge shapes, models from nowhere. */
static void wild_samples_leave_it_sane(void **state) {
    struct cost_model m;
    memset(&m, 0, sizeof(m));
    seed = 5;
    while (m.n_updates < 1000000) {
        const struct cost_shape shape =
            uniform() < 0.5 ? random_batch() : shape_of(between(1, 4096), between(1, 8192));
        const struct cost_sample s = {shape, (int64_t)exp(43.6 * uniform())};
        cost_update(&m, &s);
        const int64_t ns = cost_predict_ns(&m, shape);
        assert_true(ns >= 0 && ns <= INT64_C(1) << 61);
        assert_true(cost_job_ns(&m, 1 << 20) >= 0);
        if (m.n_updates % 1024 == 0) {
            assert_sane(&m);
        }
    }
    for (int i = 0; i < 3000; i++) { // it comes back
        const struct cost_shape shape = random_batch();
        const struct cost_sample s = sample_of(shape, time_of(true_coef, shape));
        cost_update(&m, &s);
    }
    assert_sane(&m);
    assert_true(worst_error(&m, true_coef) < 0.05);
}
static void a_cache_that_is_far_off_is_left(void **state) {
    static const double factors[] = {1e-3, 1e-1, 1e1, 1e3};
    for (size_t f = 0; f < 4; f++) {
        struct cost_model m;
        double coef[COST_TERMS];
        for (int k = 0; k < COST_TERMS; k++) {
            coef[k] = true_coef[k] * factors[f];
        }
        seed = 11;
        cost_set(&m, coef);
        for (int i = 0; i < 250; i++) {
            const struct cost_shape shape = random_batch();
            const struct cost_sample s = sample_of(shape, time_of(true_coef, shape));
            cost_update(&m, &s);
        }
        assert_sane(&m);
        assert_true(cost_error(&m) < 0.05);
    }
}

static void a_job_costs_what_it_adds(void **state) {
    struct cost_model m;
    cost_set(&m, true_coef);
    assert_int_equal(cost_job_ns(&m, 100), 100 * 130000 + 100 * 100 * 80);
    assert_int_equal(cost_predict_ns(&m, shape_of(1, 100)), 250000 + cost_job_ns(&m, 100));
    assert_int_equal(cost_predict_ns(&m, shape_of(3, 100)), 250000 + 3 * cost_job_ns(&m, 100));
}
static void error_is_the_median_of_the_latest(void **state) {
    struct cost_model m;
    const struct cost_shape shape = shape_of(1, 100);
    cost_set(&m, true_coef);
    const double ns = time_of(true_coef, shape);
    struct cost_sample s = sample_of(shape, ns / 0.9); // 10 % below what was measured
    cost_update(&m, &s);
    assert_true(fabs(cost_error(&m) - 0.1) < 1e-4);
    s = sample_of(shape, (double)cost_predict_ns(&m, shape) / 0.7);
    cost_update(&m, &s);
    assert_true(fabs(cost_error(&m) - 0.2) < 1e-3); // of two, the mean
    for (int i = 0; i < 2 * COST_ERRORS; i++) {
        s = sample_of(shape, ns);
        cost_update(&m, &s);
    }
    assert_true(cost_error(&m) < 0.01); // the first have left the ring
}
static void a_batch_has_its_shape(void **state) {
    static const int32_t starts[] = {0, 5, 8, 20}, lens[] = {5, 2, 12}; // one has a row of padding
    const struct token_batch b = {
        .cu_seqlens = starts, .seq_lens = lens, .n_seqs = 3, .n_rows = 20, .max_seq_len = 12};
    const struct cost_shape s = cost_shape_of(&b);
    assert_int_equal(s.rows, 20);
    assert_int_equal(s.sum_len2, 25 + 9 + 144);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fit_finds_the_truth),
        cmocka_unit_test(fit_is_the_best_that_is_not_negative),
        cmocka_unit_test(fit_of_alike_samples_is_simple),
        cmocka_unit_test(nothing_known_predicts_nothing_and_learns),
        cmocka_unit_test(update_converges),
        cmocka_unit_test(outliers_are_pulled_in),
        cmocka_unit_test(a_lasting_change_is_followed),
        cmocka_unit_test(a_change_is_followed_among_outliers),
        cmocka_unit_test(a_change_seen_in_one_shape_moves_all),
        cmocka_unit_test(one_shape_forever_winds_nothing_up),
        cmocka_unit_test(wild_samples_leave_it_sane),
        cmocka_unit_test(a_cache_that_is_far_off_is_left),
        cmocka_unit_test(a_job_costs_what_it_adds),
        cmocka_unit_test(error_is_the_median_of_the_latest),
        cmocka_unit_test(a_batch_has_its_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
