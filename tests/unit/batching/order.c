/* order.c - rank orders and the heap of deadlines against the plainest structure there is: an
 * array, searched from end to end. */
#include "batching/order.h"
#include "batching/due.h"
#include "tests/unit/batching/rng.h"
#include "tests/unit/test.h"
#include <string.h>

enum { MAX_JOBS = 300 };
struct pool {
    struct job jobs[MAX_JOBS];
    bool inside[MAX_JOBS];
    uint64_t last_number;
    struct job_order order;
    struct due_heap due;
};
static const struct job *smallest_after(const struct pool *p, const struct job *after) {
    const struct job *best = NULL;
    for (int i = 0; i < MAX_JOBS; i++) {
        const struct job *job = &p->jobs[i];
        if (p->inside[i] && (!after || job_before(after, job)) &&
            (!best || job_before(job, best))) {
            best = job;
        }
    }
    return best;
}
static int64_t sum_up_to(const struct pool *p, int64_t rank) {
    int64_t sum = 0;
    for (int i = 0; i < MAX_JOBS; i++) {
        sum += p->inside[i] && p->jobs[i].rank <= rank ? p->jobs[i].cost_ns : 0;
    }
    return sum;
}
static int64_t first_start(const struct pool *p) {
    int64_t first = INT64_MAX;
    for (int i = 0; i < MAX_JOBS; i++) {
        if (p->inside[i] && p->jobs[i].start_ns < first) {
            first = p->jobs[i].start_ns;
        }
    }
    return first;
}
static void put(struct pool *p, struct rng *rng, int i, int64_t max_rank) {
    p->jobs[i].rank = rng_in(rng, -max_rank, max_rank);
    p->jobs[i].cost_ns = rng_in(rng, 0, 1000);
    p->jobs[i].start_ns = rng_in(rng, 0, 500);
    p->jobs[i].number = ++p->last_number;
    job_order_insert(&p->order, &p->jobs[i]);
    due_heap_insert(&p->due, &p->jobs[i]);
    p->inside[i] = true;
}
static void take(struct pool *p, int i) {
    job_order_remove(&p->order, &p->jobs[i]);
    due_heap_remove(&p->due, &p->jobs[i]);
    due_heap_remove(&p->due, &p->jobs[i]); // is not inside: nothing
    p->inside[i] = false;
}
static void check(const struct pool *p, struct rng *rng, int64_t max_rank) {
    const struct job *want = smallest_after(p, NULL), *got = p->order.first;
    for (; want; want = smallest_after(p, want), got = job_order_next(got)) {
        assert_ptr_equal(got, want);
    }
    assert_null(got);
    const int64_t rank = rng_in(rng, -max_rank - 1, max_rank + 1);
    assert_int_equal(job_order_ahead_ns(&p->order, rank), sum_up_to(p, rank));
    assert_int_equal(job_order_ahead_ns(&p->order, INT64_MAX), sum_up_to(p, INT64_MAX));
    assert_true(due_heap_first_ns(&p->due) == first_start(p));
}
static void equals_an_array(void **state) {
    static struct pool p;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rng rng = rng_of(seed);
        const int64_t max_rank = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 1000 : INT64_MAX / 4;
        memset(&p, 0, sizeof(p));
        due_heap_init(&p.due, MAX_JOBS);
        for (int step = 0; step < 3000; step++) {
            const int i = (int)rng_in(&rng, 0, MAX_JOBS - 1);
            const bool growing = step % 1000 < 500;
            if (!p.inside[i] && (growing || rng_in(&rng, 0, 3) == 0)) {
                put(&p, &rng, i, max_rank);
            } else if (p.inside[i] && (!growing || rng_in(&rng, 0, 3) == 0)) {
                take(&p, i);
            }
            if (step % 50 == 0) {
                check(&p, &rng, max_rank);
            }
        }
        for (int i = 0; i < MAX_JOBS; i++) {
            if (p.inside[i]) {
                take(&p, i);
            }
        }
        check(&p, &rng, max_rank);
        due_heap_finish(&p.due);
    }
}
static int depth_of(const struct job *job) {
    int depth = 0;
    for (; job; job = job->parent) {
        depth++;
    }
    return depth;
}
/* Rising, falling and equal ranks: what an unbalanced tree makes a list of. */
static void stays_shallow_whatever_the_ranks(void **state) {
    static struct job jobs[4096];
    for (int kind = 0; kind < 3; kind++) {
        struct job_order order = {.root = NULL};
        int deepest = 0;
        memset(jobs, 0, sizeof(jobs));
        for (int i = 0; i < (int)N_ITEMS(jobs); i++) {
            jobs[i].rank = kind == 0 ? i : kind == 1 ? -i : 7;
            jobs[i].number = (uint64_t)i + 1;
            job_order_insert(&order, &jobs[i]);
        }
        for (int i = 0; i < (int)N_ITEMS(jobs); i++) {
            const int depth = depth_of(&jobs[i]);
            deepest = depth > deepest ? depth : deepest;
        }
        assert_true(deepest <= 40); // 12 is perfect
        assert_ptr_equal(order.first, kind == 1 ? &jobs[N_ITEMS(jobs) - 1] : &jobs[0]);
    }
}
static void a_full_heap_gives_back_in_order(void **state) {
    static struct job jobs[1000];
    struct rng rng = rng_of(5);
    struct due_heap heap;
    memset(jobs, 0, sizeof(jobs));
    due_heap_init(&heap, (int)N_ITEMS(jobs));
    for (size_t i = 0; i < N_ITEMS(jobs); i++) {
        jobs[i].start_ns = rng_in(&rng, 0, 100);
        due_heap_insert(&heap, &jobs[i]);
    }
    int64_t last = 0;
    while (heap.n > 0) {
        assert_true(due_heap_first_ns(&heap) >= last);
        last = due_heap_first_ns(&heap);
        due_heap_remove(&heap, heap.jobs[0]);
    }
    assert_true(due_heap_first_ns(&heap) == INT64_MAX);
    due_heap_finish(&heap);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_an_array),
        cmocka_unit_test(stays_shallow_whatever_the_ranks),
        cmocka_unit_test(a_full_heap_gives_back_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
