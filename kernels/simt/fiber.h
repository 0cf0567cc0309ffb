/* fiber.h - a stack of its own, and the switch to it: some twenty instructions, no system call.
 * Sanitizers are told. Threads: a fiber is run on the thread that made it. */
#ifndef BERTH_KERNELS_SIMT_FIBER_H
#define BERTH_KERNELS_SIMT_FIBER_H
#include <stdbool.h>
#include <stddef.h>

struct fiber {
    void *top;   // of what was saved when it was left
    char *stack; // NULL: the thread's own
    size_t stack_bytes;
    const void *address; // of the stack, for the address sanitizer
    void *fake;          // the address sanitizer's
    void *race;          // the thread sanitizer's
};
/* The thread's own, which is running. */
void fiber_init_own(struct fiber *f);
/* Owns a stack with a page below it that nobody can touch. */
void fiber_create(struct fiber *f);
void fiber_destroy(struct fiber *f); // takes a zeroed one
/* The next switch to it calls entry(), which must never return. */
void fiber_restart(struct fiber *f, void (*entry)(void));
/* Leaves `from`, which runs, for `to`; returns when somebody switches back. `for_good`: nobody will
 * before a restart. */
void fiber_switch(struct fiber *from, struct fiber *to, bool for_good);
void fiber_begun(struct fiber *f); // entry()'s first call

/* For the thread sanitizer, which otherwise sees no order between fibers: what one did before it
 * gave `sync` is before what another does after it took it. Accesses of ours that are a kernel's.
 */
void race_give(void *sync);
void race_take(void *sync);
void race_reads(const void *data, size_t bytes);
void race_writes(void *data, size_t bytes);
#endif
