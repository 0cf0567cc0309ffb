/* lanes.c - a pool of threads that meets at barriers.
 * Two counters are waited for: `run` (a new pass) and `turn` (a barrier was passed). A waiter spins
 * a little, because lanes of one pass arrive within microseconds of each other, then sleeps in a
 * futex. A sleeper counts itself before it looks at the counter again, and who moves the counter
 * looks for sleepers after it: in one total order one of the two sees the other, so no wake-up is
 * lost and none is paid for without a sleeper. */
#include "kernels/cpu/lanes.h"
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 2000, CACHE_LINES = 128 };

struct counter {
    _Alignas(CACHE_LINES) atomic_uint value;
    atomic_uint sleepers;
};
struct lane_thread {
    struct lanes *lanes;
    pthread_t thread;
    int index;
};
struct lanes {
    struct counter run, turn;
    _Alignas(CACHE_LINES) atomic_uint arrived;
    int n_lanes, n_started;
    int *cores;       // [n_lanes]; NULL: not pinned
    pthread_t caller; // that is pinned
    bool has_caller;
    lane_fn *fn; // NULL: the threads end
    void *arg;
    struct lane_thread *threads; // [n_lanes], the first is the caller's and unused
};

static void cpu_relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void counter_wait(struct counter *c, unsigned old) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&c->value, memory_order_acquire) != old) {
            return;
        }
        cpu_relax();
    }
    atomic_fetch_add(&c->sleepers, 1);
    while (atomic_load(&c->value) == old) {
        syscall(SYS_futex, &c->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    }
    atomic_fetch_sub(&c->sleepers, 1);
}
static void counter_next(struct counter *c) {
    atomic_fetch_add(&c->value, 1);
    if (atomic_load(&c->sleepers) > 0) {
        syscall(SYS_futex, &c->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

void lanes_barrier(struct lanes *l) {
    if (l->n_lanes == 1) {
        return;
    }
    const unsigned turn = atomic_load(&l->turn.value); // cannot move before we arrive
    if (atomic_fetch_add(&l->arrived, 1) + 1 == (unsigned)l->n_lanes) {
        atomic_store(&l->arrived, 0);
        counter_next(&l->turn);
    } else {
        counter_wait(&l->turn, turn);
    }
}

/* A short pass ends before the scheduler sees that it woke two lanes on one core. */
static void pin_lane(const struct lanes *l, int index) {
    if (l->cores) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(l->cores[index], &set);
        sched_setaffinity(0, sizeof(set), &set); // was allowed at creation; now it is only speed
    }
}

void lanes_run(struct lanes *l, lane_fn *fn, void *arg) {
    if (!l->has_caller || !pthread_equal(l->caller, pthread_self())) {
        pin_lane(l, 0);
        l->caller = pthread_self();
        l->has_caller = true;
    }
    l->fn = fn, l->arg = arg;
    counter_next(&l->run);
    fn(arg, 0);
}

static void *thread_main(void *arg) {
    const struct lane_thread *t = arg;
    struct lanes *l = t->lanes;
    pin_lane(l, t->index);
    for (unsigned run = 0;; run++) {
        counter_wait(&l->run, run);
        if (!l->fn) {
            return NULL;
        }
        l->fn(l->arg, t->index);
    }
}

static enum status choose_cores(struct lanes *l, int first_core, struct error *err) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed)) {
        return error_set(err, STATUS_IO, "sched_getaffinity: %s", strerror(errno));
    }
    if (first_core + l->n_lanes > CPU_COUNT(&allowed)) {
        return error_set(err, STATUS_INVALID,
                         "%d lanes pinned from core number %d on: there are %d cores", l->n_lanes,
                         first_core, CPU_COUNT(&allowed));
    }
    l->cores = xcalloc((size_t)l->n_lanes, sizeof(*l->cores));
    for (int core = 0, n = 0; n < first_core + l->n_lanes; core++) {
        if (CPU_ISSET(core, &allowed) && n++ >= first_core) {
            l->cores[n - 1 - first_core] = core;
        }
    }
    return STATUS_OK;
}

/* The threads take no signals: those are for the main thread. */
static enum status start_threads(struct lanes *l, struct error *err) {
    sigset_t all, before;
    int failure = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < l->n_lanes && !failure; i++) {
        struct lane_thread *t = &l->threads[i];
        *t = (struct lane_thread){.lanes = l, .index = i};
        failure = pthread_create(&t->thread, NULL, thread_main, t);
        if (!failure) {
            pthread_setname_np(t->thread, "berth-lane");
            l->n_started++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure ? error_set(err, STATUS_IO, "starting lane %d of %d: %s", l->n_started + 1,
                               l->n_lanes, strerror(failure))
                   : STATUS_OK;
}

enum status lanes_create(struct lanes **out, int n_lanes, int first_core, struct error *err) {
    struct lanes *l = aligned_alloc(CACHE_LINES, sizeof(*l));
    if (!l) {
        return error_set(err, STATUS_NO_MEMORY, "no memory for %d lanes", n_lanes);
    }
    memset(l, 0, sizeof(*l));
    l->n_lanes = n_lanes;
    l->threads = xcalloc((size_t)n_lanes, sizeof(*l->threads));
    enum status s = first_core >= 0 ? choose_cores(l, first_core, err) : STATUS_OK;
    s = s ? s : start_threads(l, err);
    if (s) {
        lanes_destroy(l);
        return s;
    }
    *out = l;
    return STATUS_OK;
}

void lanes_destroy(struct lanes *l) {
    if (!l) {
        return;
    }
    l->fn = NULL;
    counter_next(&l->run);
    for (int i = 1; i <= l->n_started; i++) {
        pthread_join(l->threads[i].thread, NULL);
    }
    free(l->threads);
    free(l->cores);
    free(l);
}
