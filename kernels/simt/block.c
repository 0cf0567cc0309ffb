/* block.c - blocks one after another, their threads as fibers.
 * A fiber runs until it has to wait, and gives over to the next that is ready; threads begin, and
 * go on after a wait, in an order that the seed says, so that nobody comes to count on one. When
 * nobody is ready and some have not ended, they wait for what never comes: the process ends with
 * where they are. Dynamic shared memory lies against a page that nobody can touch. */
#include "kernels/simt/internal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, SHARED_ALIGN = 16, POISON = 0xff }; // NaNs, in any float

struct block {
    const struct simt_grid *grid;
    struct fiber own;
    struct thread threads[SIMT_MAX_THREADS], *now;
    struct warp warps[SIMT_MAX_THREADS / SIMT_LANES];
    int ready[SIMT_MAX_THREADS], first_ready, n_ready; // a ring, of numbers
    int order[SIMT_MAX_THREADS];
    int n_threads, n_alive, n_at_barrier;
    char *pages, *shared; // of dynamic shared memory
    size_t pages_bytes;
    uint64_t random;
};
static struct block block; // the device's lock is held
const struct simt_place *simt_here;

void simt_fail(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (block.now) {
        const struct simt_place *p = &block.now->place;
        fprintf(stderr, "simt: block (%u, %u, %u), thread (%u, %u, %u): ", p->block.x, p->block.y,
                p->block.z, p->thread.x, p->thread.y, p->thread.z);
    } else {
        fprintf(stderr, "simt: ");
    }
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

struct thread *simt_me(void) {
    if (!block.now) {
        simt_fail("what only a kernel may call was called by the host");
    }
    return block.now;
}
struct warp *simt_my_warp(void) {
    return &block.warps[simt_me()->number / SIMT_LANES];
}

static void make_ready(struct thread *t) {
    t->state = THREAD_READY;
    block.ready[(block.first_ready + block.n_ready++) % SIMT_MAX_THREADS] = t->number;
}
static struct thread *next_ready(void) {
    if (block.n_ready == 0) {
        simt_fail("nobody can go on: of %d threads that have not ended, %d wait at a barrier, the "
                  "others for lanes of their warps",
                  block.n_alive, block.n_at_barrier);
    }
    struct thread *t = &block.threads[block.ready[block.first_ready]];
    block.first_ready = (block.first_ready + 1) % SIMT_MAX_THREADS;
    block.n_ready--;
    return t;
}
static void run(struct thread *t) {
    block.now = t;
    simt_here = &t->place;
}
/* Until make_ready(). */
static void wait_as(enum thread_state state) {
    struct thread *me = block.now, *next;
    me->state = state;
    next = next_ready();
    run(next);
    if (next != me) {
        fiber_switch(&me->fiber, &next->fiber, false);
    }
}

static void release_barrier(void) {
    if (block.n_at_barrier == 0 || block.n_at_barrier < block.n_alive) {
        return;
    }
    block.n_at_barrier = 0;
    for (int i = 0; i < block.n_threads; i++) {
        struct thread *t = &block.threads[block.order[i]];
        if (t->state == THREAD_AT_BARRIER) {
            make_ready(t);
        }
    }
}
void simt_barrier(void) {
    struct thread *me = simt_me();
    race_give(&block.n_at_barrier);
    me->state = THREAD_AT_BARRIER;
    block.n_at_barrier++;
    release_barrier(); // the last one may be ready at once, and comes after the others
    wait_as(me->state);
    race_take(&block.n_at_barrier);
}

void simt_meet(uint32_t mask, enum warp_op op, int parameter, void (*finish)(struct warp *w)) {
    struct thread *me = simt_me();
    struct warp *w = simt_my_warp();
    const int lane = simt_lane(me);
    if (!(mask >> lane & 1)) {
        simt_fail("an operation of the warp has mask %#x, without the lane that came", mask);
    }
    if (w->arrived && (w->mask != mask || w->op != op || w->parameter != parameter)) {
        simt_fail("lanes of a warp came to different operations, or with different masks");
    }
    w->mask = mask, w->op = op, w->parameter = parameter;
    w->arrived |= UINT32_C(1) << lane;
    if (w->arrived != mask) {
        wait_as(THREAD_IN_WARP);
        return;
    }
    w->arrived = 0;
    if (finish) {
        finish(w);
    }
    for (int i = 0; i < SIMT_LANES; i++) {
        const int number = me->number - lane + i;
        if ((mask >> i & 1) && i != lane) {
            make_ready(&block.threads[number]);
        }
    }
}

void *simt_shared(void) {
    (void)simt_me();
    return block.shared;
}
bool simt_beyond_shared(const void *data, size_t bytes) {
    const char *at = data, *end = block.shared + block.grid->shared_bytes;
    const bool is_near = at + bytes > block.pages && at < block.pages + block.pages_bytes;
    return is_near && (at < block.shared || at + bytes > end);
}
static void make_shared(size_t bytes) {
    const size_t aligned = (bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
    const size_t pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    block.pages_bytes = pages + 2 * PAGE_BYTES;
    block.pages =
        mmap(NULL, block.pages_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block.pages == MAP_FAILED || mprotect(block.pages, PAGE_BYTES, PROT_NONE) ||
        mprotect(block.pages + PAGE_BYTES + pages, PAGE_BYTES, PROT_NONE)) {
        simt_fail("no memory for %zu bytes of shared memory", bytes);
    }
    block.shared = block.pages + PAGE_BYTES + pages - aligned;
}

/* A fiber's whole life, from block to block. */
static void thread_life(void) {
    struct thread *me = block.now;
    fiber_begun(&me->fiber);
    race_take(&block.order);
    block.grid->kernel(block.grid->arguments);
    simt_copies_finish(me);
    race_give(&block.own);
    me->state = THREAD_ENDED;
    block.n_alive--;
    release_barrier();
    struct thread *next = block.n_alive ? next_ready() : NULL;
    if (next) {
        run(next);
    }
    fiber_switch(&me->fiber, next ? &next->fiber : &block.own, true);
    abort(); // nobody switches to an ended fiber
}

static void shuffle(void) {
    for (int i = 0; i < block.n_threads; i++) {
        block.order[i] = i;
    }
    for (int i = block.n_threads - 1; i > 0; i--) {
        const int j = (int)(simt_random(&block.random) % (uint64_t)(i + 1));
        const int kept = block.order[i];
        block.order[i] = block.order[j], block.order[j] = kept;
    }
}
static struct simt_dim3 at_number(struct simt_dim3 size, uint64_t n) {
    return (struct simt_dim3){(unsigned)(n % size.x), (unsigned)(n / size.x % size.y),
                              (unsigned)(n / size.x / size.y)};
}
static void begin_thread(int number, struct simt_dim3 where) {
    const struct simt_grid *g = block.grid;
    struct thread *t = &block.threads[number];
    if (!t->fiber.stack) {
        fiber_create(&t->fiber);
    }
    t->place = (struct simt_place){at_number(g->block, (uint64_t)number), where, g->block, g->grid};
    t->number = number, t->group = 0;
    fiber_restart(&t->fiber, thread_life);
    make_ready(t);
}
static void run_block(struct simt_dim3 where) {
    memset(block.warps, 0, sizeof(block.warps));
    memset(block.shared, POISON, block.grid->shared_bytes);
    shuffle();
    block.n_alive = block.n_threads;
    for (int i = 0; i < block.n_threads; i++) {
        begin_thread(block.order[i], where);
    }
    race_give(&block.order);
    struct thread *first = next_ready();
    run(first);
    fiber_switch(&block.own, &first->fiber, false);
    block.now = NULL;
    race_take(&block.own);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(SIMT_RACES)
static void on_fault(int signal_number) {
    simt_fail("it touches memory that is not there, or not its own");
}
static void watch(struct sigaction *before) {
    struct sigaction act = {.sa_handler = on_fault};
    (void)sigaction(SIGSEGV, &act, before);
}
static void unwatch(const struct sigaction *before) {
    (void)sigaction(SIGSEGV, before, NULL);
}
#else // the sanitizer says more
static void watch(struct sigaction *before) {
}
static void unwatch(const struct sigaction *before) {
}
#endif

void simt_run(const struct simt_grid *g) {
    const uint64_t n = (uint64_t)g->grid.x * g->grid.y * g->grid.z;
    struct sigaction before;
    block.grid = g;
    block.random = g->seed;
    block.n_threads = (int)(g->block.x * g->block.y * g->block.z);
    fiber_init_own(&block.own);
    make_shared(g->shared_bytes);
    watch(&before);
    const bool is_backwards = simt_random(&block.random) & 1;
    for (uint64_t i = 0; i < n; i++) {
        run_block(at_number(g->grid, is_backwards ? n - 1 - i : i));
    }
    unwatch(&before);
    munmap(block.pages, block.pages_bytes);
}
