/* simulator.c - the simulator against cases worked out by hand and the formulas of queueing theory.
 */
#include "batching/simulator.h"
#include "base/timing.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENDS = 16 };
static struct {
    struct sim_end ends[MAX_ENDS];
    int n_tokens[MAX_ENDS]; // the trace is gone by the time that they are looked at
    int n;
} seen;

static void remember(void *arg, const struct sim_end *end) {
    if (seen.n < MAX_ENDS) {
        seen.n_tokens[seen.n] = end->arrival->n_tokens;
        seen.ends[seen.n++] = *end;
    }
}
/* A pass takes 1 ms + 1 ms a row; nobody waits for company. */
static struct sim_config config_of(enum batch_mode mode) {
    struct sim_config c = {
        .kind = SIM_QUEUES,
        .queues = {.policy = {.mode = mode,
                              .n_keys = 1,
                              .key_weights = {1},
                              .n_buckets = 1,
                              .buckets = {{512, 512, 32, 0}}},
                   .max_seq_len = 512,
                   .max_queued_jobs = 100000,
                   .max_queued_tokens = INT64_C(1) << 40,
                   .n_workers = 1},
        .coef = {1e6, 1e6, 0},
        .seed = 1,
        .on_end = remember,
    };
    seen.n = 0;
    return c;
}
static void add(struct trace *t, int at_ms, int n_tokens) {
    trace_add(t, &(struct arrival){.at_ns = at_ms * NS_PER_MS, .n_tokens = n_tokens});
}
static struct sim_result run(const struct sim_config *c, struct trace *t, int64_t good_ms) {
    static const int classes[] = {10, 512};
    struct sim_result r;
    struct error err = {.text = ""};
    if (simulate(&r, c, t, classes, 2, good_ms * NS_PER_MS, &err)) {
        fail_msg("%s", err.text);
    }
    trace_finish(t);
    assert_int_equal(r.n_arrived, r.n_done + r.n_refused + r.n_expired + r.n_cancelled);
    assert_int_equal(r.n_expired_run, 0);
    return r;
}
static void assert_end(int i, int n_tokens, double begun_ms, double end_ms) {
    assert_int_equal(seen.n_tokens[i], n_tokens);
    assert_int_equal(seen.ends[i].begun_ns, llround(begun_ms * 1e6));
    assert_int_equal(seen.ends[i].end_ns, llround(end_ms * 1e6));
}

static void one_by_one(void **state) {
    struct sim_config c = config_of(BATCH_NONE);
    struct trace t = {0};
    c.overhead_ns = NS_PER_MS / 2;
    add(&t, 0, 9);
    add(&t, 4, 4);
    add(&t, 40, 20);
    const struct sim_result r = run(&c, &t, 11);
    assert_end(0, 9, 0, 10);
    assert_end(1, 4, 10.5, 15.5);
    assert_end(2, 20, 40, 61);
    assert_int_equal(r.n_batches, 3);
    assert_int_equal(r.n_good, 1);
    assert_int_equal(r.busy_ns, 36 * NS_PER_MS);
    assert_int_equal(r.end_ns, 61 * NS_PER_MS);
    assert_int_equal(r.classes[0].n_done, 2);
    assert_int_equal(r.classes[0].max_ns, 11500000);
    assert_int_equal(r.classes[1].p50_ns, 21 * NS_PER_MS);
    assert_int_equal(r.all.mean_ns, (10000000 + 11500000 + 21000000) / 3);
}
static void padding_is_computed(void **state) {
    struct sim_config c = config_of(BATCH_PADDED);
    struct trace t = {0};
    c.coef[2] = 1e4;
    add(&t, 0, 10);
    add(&t, 1, 5);
    add(&t, 2, 15);
    const struct sim_result r = run(&c, &t, 1);
    assert_end(0, 10, 0, 12); // 1 + 10 + 100 * 0.01
    assert_end(1, 5, 12, 12 + 1 + 30 + 4.5);
    assert_end(2, 15, 12, 12 + 1 + 30 + 4.5);
    assert_int_equal(r.rows, 40);
    assert_true(fabs(r.padding_ratio - 0.25) < 1e-12);
}
static void two_devices(void **state) {
    struct sim_config c = config_of(BATCH_NONE);
    struct trace t = {0};
    c.queues.n_workers = 2;
    for (int i = 0; i < 3; i++) {
        add(&t, 0, 9);
    }
    run(&c, &t, 1);
    assert_end(0, 9, 0, 10);
    assert_end(1, 9, 0, 10);
    assert_end(2, 9, 10, 20);
}
static void a_wait_for_company_ends(void **state) {
    struct sim_config c = config_of(BATCH_PACKED);
    struct trace t = {0};
    c.queues.policy.buckets[0].max_wait_ns = 5 * NS_PER_MS;
    add(&t, 0, 9);
    add(&t, 3, 9);
    run(&c, &t, 1);
    assert_end(0, 9, 5, 24);
    assert_end(1, 9, 5, 24);
}
static void a_long_pass_is_interrupted(void **state) {
    struct sim_config c = config_of(BATCH_PACKED);
    struct trace t = {0};
    c.queues.policy.interrupt = true;
    c.queues.policy.rank_cost_factor = 5;
    c.n_layers = 5;
    c.overhead_ns = NS_PER_MS;
    add(&t, 0, 499); // 100 ms a layer
    add(&t, 150, 4);
    const struct sim_result r = run(&c, &t, 1);
    assert_int_equal(r.n_interruptions, 1);
    assert_end(0, 4, 200, 205);
    assert_end(1, 499, 0, 500 + 5 + 1);
    assert_int_equal(r.busy_ns, 505 * NS_PER_MS);
}
static void clients_leave(void **state) {
    struct sim_config c = config_of(BATCH_NONE);
    struct trace t = {0};
    c.hang_up_share = 1;
    c.hang_up_ns = 1; // all at once: the first is computed for nobody, the others never
    add(&t, 0, 99);
    add(&t, 1, 99);
    add(&t, 2, 99);
    const struct sim_result r = run(&c, &t, 1);
    assert_int_equal(r.n_cancelled, 3);
    assert_int_equal(r.n_batches, 1);
    assert_int_equal(r.wasted_ns, 100 * NS_PER_MS);
    assert_int_equal(seen.ends[0].end_ns / NS_PER_MS, 51); // noticed 50 ms later
    assert_int_equal(seen.ends[0].begun_ns, 0);
    assert_int_equal(seen.ends[2].end_ns / NS_PER_MS, 100);
}
static void deadlines_end_the_wait(void **state) {
    struct sim_config c = config_of(BATCH_NONE);
    struct trace t = {0};
    c.timeout_ns = 150 * NS_PER_MS;
    for (int i = 0; i < 4; i++) {
        add(&t, 0, 99);
    }
    const struct sim_result r = run(&c, &t, 1000);
    assert_int_equal(r.n_done + r.n_late, 1); // the second would end at 200
    assert_int_equal(r.n_expired + r.n_refused, 3);
    assert_int_equal(r.wasted_ns, 0);
}
/* Best cut of {1, 1, 9, 9}: two and two; by 1 ms a launch it never pays to pad 1 to 9. */
static void the_dp_plans(void **state) {
    struct sim_config c = config_of(BATCH_PADDED);
    struct trace t = {0};
    c.kind = SIM_DP;
    add(&t, 0, 9);
    add(&t, 0, 1);
    add(&t, 0, 9);
    add(&t, 0, 1);
    const struct sim_result r = run(&c, &t, 1);
    assert_int_equal(r.n_batches, 2);
    assert_end(0, 1, 0, 3);
    assert_end(3, 9, 3, 3 + 19);
    c = config_of(BATCH_PADDED);
    c.kind = SIM_DP;
    c.coef[0] = 20e6; // a launch that costs more than all padding
    add(&t, 0, 9);
    add(&t, 0, 1);
    add(&t, 0, 9);
    add(&t, 0, 1);
    assert_int_equal(run(&c, &t, 1).n_batches, 1);
}

/* Mean wait of M/G/1, Pollaczek and Khinchine: rate * E[s^2] / (2 * (1 - load)). */
static void check_wait(const struct lengths *l, double load, double tolerance) {
    struct sim_config c = config_of(BATCH_NONE);
    struct trace t = {0};
    double n = 0, s = 0, s2 = 0;
    for (int i = 1; i <= 512; i++) {
        const double service = 1e-3 * (1 + i);
        n += (double)l->count[i];
        s += (double)l->count[i] * service;
        s2 += (double)l->count[i] * service * service;
    }
    const double rate = load / (s / n), wait = rate * s2 / n / (2 * (1 - load));
    c.on_end = NULL;
    trace_generate(&t, ARRIVE_POISSON, rate, 400000, l, 5);
    const struct sim_result r = run(&c, &t, 1);
    const double measured = (double)r.all.mean_ns / 1e9 - s / n;
    print_message("  wait at load %.1f: %.2f ms, in theory %.2f\n", load, measured * 1e3,
                  wait * 1e3);
    assert_true(fabs(measured / wait - 1) < tolerance);
    assert_true(fabs((double)r.busy_ns / (double)r.end_ns - load) < 0.02);
}
static void waits_follow_theory(void **state) {
    struct lengths *l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->count[9] = 1;
    check_wait(l, 0.3, 0.02);
    check_wait(l, 0.7, 0.03);
    l->count[199] = 1; // and M/G/1
    check_wait(l, 0.7, 0.05);
    free(l);
}
static void capacity_is_that_of_full_batches(void **state) {
    struct sim_config c = config_of(BATCH_PACKED);
    struct lengths *l = calloc(1, sizeof(*l));
    struct error err;
    double per_s = 0;
    assert_non_null(l);
    l->count[16] = 1; // 32 of them are a batch, 513 ms
    assert_int_equal(sim_capacity(&per_s, &c, l, 3200, &err), STATUS_OK);
    assert_true(fabs(per_s - 32 / 0.513) < 1e-6);
    free(l);
}

/* Everything at once, in every mode: the sum holds (run() asserts it), the same seed gives the same
 * result, another one does not. */
static void check_everything(enum sim_kind kind, enum batch_mode mode) {
    struct sim_config c = config_of(mode);
    struct lengths *l = calloc(1, sizeof(*l));
    struct trace first = {0}, again = {0}, other = {0};
    struct error err;
    assert_non_null(l);
    assert_int_equal(lengths_named(l, "mixed", 3, 512, &err), STATUS_OK);
    c.kind = kind;
    c.coef[1] = 1e5;
    c.coef[2] = 50;
    c.noise = 0.3;
    c.n_layers = 6;
    c.hang_up_share = 0.3;
    c.hang_up_ns = 200 * NS_PER_MS;
    c.timeout_ns = 700 * NS_PER_MS;
    c.queues.max_queued_jobs = 200;
    c.queues.n_workers = 2;
    c.queues.policy.interrupt = true;
    c.queues.policy.rank_cost_factor = 5;
    trace_generate(&first, ARRIVE_BURSTS, 600, 20000, l, 3);
    for (int i = 0; i < first.n; i++) {
        first.arrivals[i].priority = (enum priority)(i % N_PRIORITIES);
        first.arrivals[i].deadline_ns = i % 7 ? 0 : 300 * NS_PER_MS;
        trace_add(&again, &first.arrivals[i]);
        trace_add(&other, &first.arrivals[i]);
    }
    const struct sim_result a = run(&c, &first, 100), b = run(&c, &again, 100);
    assert_memory_equal(&a, &b, sizeof(a));
    c.seed = 2;
    const struct sim_result d = run(&c, &other, 100);
    assert_int_not_equal(a.busy_ns, d.busy_ns);
    assert_true(a.n_done > 0 && a.n_cancelled > 0 && a.wasted_ns > 0);
    assert_true(a.n_refused + a.n_expired > 0);
    free(l);
}
static void sums_hold_and_seeds_repeat(void **state) {
    for (int mode = 0; mode < N_BATCH_MODES; mode++) {
        check_everything(SIM_QUEUES, (enum batch_mode)mode);
    }
    check_everything(SIM_DP, BATCH_PADDED);
}
static void no_arrivals_and_wrong_settings(void **state) {
    struct sim_config c = config_of(BATCH_PACKED);
    struct trace t = {0};
    struct sim_result r = run(&c, &t, 1);
    assert_int_equal(r.n_done, 0);
    assert_true(r.padding_ratio == 0);
    c.queues.policy.buckets[0].up_to = 100;
    struct error err = {.text = ""};
    assert_int_equal(simulate(&r, &c, &t, NULL, 0, 0, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "up_to"));
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(padding_is_computed),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(a_wait_for_company_ends),
        cmocka_unit_test(a_long_pass_is_interrupted),
        cmocka_unit_test(clients_leave),
        cmocka_unit_test(deadlines_end_the_wait),
        cmocka_unit_test(the_dp_plans),
        cmocka_unit_test(waits_follow_theory),
        cmocka_unit_test(capacity_is_that_of_full_batches),
        cmocka_unit_test(sums_hold_and_seeds_repeat),
        cmocka_unit_test(no_arrivals_and_wrong_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
