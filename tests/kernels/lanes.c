/* lanes.c - the threads and the plan, apart from arithmetic. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/plan.h"
#include "tests/kernels/check.h"
#include <stdlib.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 300, MAX_LANES = 5 };
struct counting {
    struct lanes *lanes;
    int n_lanes;
    int count[MAX_LANES]; // plain ints: what a barrier publishes
    int wrong[MAX_LANES];
};
static void count_all(void *arg, int index) {
    struct counting *c = arg;
    for (int round = 0; round < 3; round++) {
        c->count[index]++;
        lanes_barrier(c->lanes);
        for (int i = 0; i < c->n_lanes; i++) {
            c->wrong[index] += c->count[i] != c->count[index];
        }
        lanes_barrier(c->lanes);
    }
}
static void test_barriers(void **unused) {
    for (int n = 1; n <= MAX_LANES; n++) {
        struct counting c = {.n_lanes = n};
        struct error err;
        assert_int_equal(lanes_create(&c.lanes, n, -1, &err), STATUS_OK);
        for (int i = 0; i < ROUNDS / n; i++) {
            lanes_run(c.lanes, count_all, &c);
        }
        lanes_destroy(c.lanes);
        for (int i = 0; i < n; i++) {
            assert_int_equal(c.count[i], 3 * (ROUNDS / n));
            assert_int_equal(c.wrong[i], 0);
        }
    }
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
/* Also that lanes that fell asleep come back. */
static void test_idle_lanes_sleep(void **unused) {
    struct counting c = {.n_lanes = 3};
    struct error err;
    const struct timespec nap = {.tv_nsec = 100000000};
    assert_int_equal(lanes_create(&c.lanes, 3, -1, &err), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        lanes_run(c.lanes, count_all, &c);
        const double before = cpu_seconds();
        nanosleep(&nap, NULL);
        assert_true(cpu_seconds() - before < 0.05);
    }
    assert_int_equal(c.count[2], 9);
    lanes_destroy(c.lanes);
}

struct pinned {
    struct lanes *lanes;
    int last, n_allowed;
    bool on_last;
};
static void note_core(void *arg, int index) {
    struct pinned *p = arg;
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    p->n_allowed = CPU_COUNT(&set);
    p->on_last = CPU_ISSET(p->last, &set);
    lanes_barrier(p->lanes);
}
/* One lane on the last of the cores that this process may use, counted among those. */
static void test_pinning(void **unused) {
    struct pinned p = {.lanes = NULL};
    struct error err;
    cpu_set_t own;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    const int n = CPU_COUNT(&own);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        p.last = CPU_ISSET(core, &own) ? core : p.last;
    }
    assert_int_equal(lanes_create(&p.lanes, 2, n - 1, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "cores"));
    assert_null(p.lanes);
    assert_int_equal(lanes_create(&p.lanes, 1, n - 1, &err), STATUS_OK);
    lanes_run(p.lanes, note_core, &p);
    assert_int_equal(p.n_allowed, 1);
    assert_true(p.on_last);
    lanes_destroy(p.lanes);
    assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
}

static void test_isa_names(void **unused) {
    struct backend *be = NULL;
    struct error err;
    struct cpu_options opt = {.n_lanes = 1, .first_core = -1, .isa = "sse9"};
    assert_int_equal(cpu_backend_create(&be, &opt, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "sse9"));
    assert_non_null(strstr(err.text, "baseline"));
    opt.isa = NULL;
    setenv("BERTH_CPU_ISA", "baseline", 1);
    assert_int_equal(cpu_backend_create(&be, &opt, &err), STATUS_OK);
    unsetenv("BERTH_CPU_ISA");
    assert_string_equal(be->detail, "baseline, 1 lane");
    backend_destroy(be);
    opt.n_lanes = 0;
    assert_int_equal(cpu_backend_create(&be, &opt, &err), STATUS_INVALID);
}

enum { MOST_LANES = 7 };
static void check_plan(const struct plan *p, const struct token_batch *b, int n_lanes) {
    const int *rows = p->cut[AXIS_TOKENS], *seqs = p->cut[AXIS_SEQS];
    bool shared = false;
    assert_int_equal(rows[0], 0);
    assert_int_equal(rows[n_lanes], b->n_rows);
    assert_int_equal(seqs[0], 0);
    assert_int_equal(seqs[n_lanes], b->n_seqs);
    for (int i = 0; i < n_lanes; i++) {
        assert_true(rows[i] <= rows[i + 1]);
        for (int s = 0; s < b->n_seqs; s++) {
            const bool begins_here = b->cu_seqlens[s] >= rows[i] && b->cu_seqlens[s] < rows[i + 1];
            assert_int_equal(begins_here, s >= seqs[i] && s < seqs[i + 1]);
            shared |= rows[i] > b->cu_seqlens[s] && rows[i] < b->cu_seqlens[s + 1];
        }
    }
    assert_int_equal(shared, p->shared);
}
static void test_plans(void **unused) {
    int rows[MOST_LANES + 1], seqs[MOST_LANES + 1];
    struct plan p = {.cut = {[AXIS_TOKENS] = rows, [AXIS_SEQS] = seqs}};
    const struct plan_costs costs = {.row = 1000, .pair = 1};
    for (int i = 0; i < 500; i++) {
        struct batch b = check_batch(check_rand(1, 40), check_rand(1, 60), i % 2 ? 7 : 0);
        const int n_lanes = check_rand(1, MOST_LANES);
        plan_make(&p, &b.b, n_lanes, &costs);
        check_plan(&p, &b.b, n_lanes);
        check_batch_free(&b);
    }
}
static void test_plan_cuts(void **unused) {
    int rows[3], seqs[3];
    struct plan p = {.cut = {[AXIS_TOKENS] = rows, [AXIS_SEQS] = seqs}};
    const struct plan_costs costs = {.row = 1};
    static const int nearly_even[] = {50, 51, 49, 50}, uneven[] = {150, 50}, few[] = {10, 6};
    struct batch b = check_batch_of(nearly_even, 4, 0);
    plan_make(&p, &b.b, 2, &costs);
    assert_int_equal(rows[1], 101); // a border, one row off the middle
    assert_false(p.shared || p.columns[AXIS_TOKENS]);
    assert_true(p.columns[AXIS_SEQS]); // four rows only
    check_batch_free(&b);
    b = check_batch_of(uneven, 2, 0);
    plan_make(&p, &b.b, 2, &costs);
    assert_int_equal(rows[1], 100);
    assert_true(p.shared);
    check_batch_free(&b);
    b = check_batch_of(few, 2, 0);
    plan_make(&p, &b.b, 2, &costs);
    assert_true(p.columns[AXIS_TOKENS]);
    plan_make(&p, &b.b, 1, &costs);
    assert_false(p.columns[AXIS_TOKENS]); // nobody to share columns with
    check_batch_free(&b);
}

int test_lanes(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barriers), cmocka_unit_test(test_idle_lanes_sleep),
        cmocka_unit_test(test_pinning),  cmocka_unit_test(test_isa_names),
        cmocka_unit_test(test_plans),    cmocka_unit_test(test_plan_cuts),
    };
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
