/* promises.c - the experiments of bench/policy, short and with fixed seeds: a change of the policy
 * that breaks what the scheduling promises fails here. The simulation is deterministic; runs so
 * short are a sample all the same, so a median may pass its bound by TOLERANCE. The bounds as they
 * are hold over long runs: bench_policy. */
#include "base/timing.h"
#include "bench/policy/experiments.h"
#include "tests/unit/test.h"

#include <stdlib.h>

enum { N_SEEDS = 3, FIRST_SEED = 4 };
static const double TOLERANCE = 0.05, LENGTH = 0.2;

static struct setup setup_of(int seed) {
    struct setup s = {
        .ours = {.policy = {.mode = BATCH_PACKED,
                            .max_batch_ns = 100 * NS_PER_MS,
                            .rank_cost_factor = 4.5,
                            .n_keys = 1,
                            .key_weights = {1},
                            .n_buckets = 2,
                            .buckets = {{64, 256, 64, 0}, {512, 256, 64, 0}}},
                 .max_seq_len = 512,
                 .max_queued_jobs = 2048,
                 .max_queued_tokens = 262144,
                 .n_workers = 1},
        .coef = {680e3, 99e3, 68},
        .noise = 0.05,
        .n_layers = 6,
        .overhead_ns = 50000,
        .seed = (uint64_t)(FIRST_SEED + seed),
        .length = LENGTH,
    };
    return s;
}
static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static void check_line(const struct findings *seeds, int row) {
    struct finding f = seeds[0].rows[row];
    double values[N_SEEDS];
    for (int i = 0; i < N_SEEDS; i++) {
        values[i] = seeds[i].rows[row].figure;
    }
    qsort(values, N_SEEDS, sizeof(*values), by_value);
    f.figure = values[N_SEEDS / 2];
    print_message("  %-70s %6.3f, bound %.3f\n", f.name, f.figure, f.bound);
    f.bound *= f.at_least ? 1 - TOLERANCE : 1 + TOLERANCE;
    if (!finding_holds(&f)) {
        fail_msg("%s: %.3f", f.name, f.figure);
    }
}
static void check_promises(void **state) {
    const struct experiment *e = *state;
    static struct findings seeds[N_SEEDS];
    for (int i = 0; i < N_SEEDS; i++) {
        const struct setup s = setup_of(i);
        struct error err = {.text = ""};
        seeds[i].n = 0;
        if (e->run(&seeds[i], &s, &err)) {
            fail_msg("%s", err.text);
        }
    }
    assert_true(seeds[0].n > 0);
    for (int row = 0; row < seeds[0].n; row++) {
        check_line(seeds, row);
    }
}
int main(void) {
    struct CMUnitTest tests[N_EXPERIMENTS];
    for (int i = 0; i < N_EXPERIMENTS; i++) {
        tests[i] = (struct CMUnitTest){.name = experiments[i].name,
                                       .test_func = check_promises,
                                       .initial_state = (void *)&experiments[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
