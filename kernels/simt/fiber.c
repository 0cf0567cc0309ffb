/* fiber.c - stacks and switches for x86-64 (System V).
 * A switch pushes the six registers that a callee keeps, stores the stack's top and takes the
 * other's. The rounding mode is the same for all. The address sanitizer wants to know which stack
 * comes; the thread sanitizer takes each fiber for a thread, and a switch, told to be no
 * synchronisation, lets it find races between them. This file is never instrumented for races. */
#include "kernels/simt/fiber.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 128 * 1024, GUARD_BYTES = 4096, SAVED_REGISTERS = 6 };

#ifdef SIMT_RACES
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes);
enum { NO_ORDER = 1 };

void race_give(void *sync) {
    __tsan_release(sync);
}
void race_take(void *sync) {
    __tsan_acquire(sync);
}
void race_reads(const void *data, size_t bytes) {
    __tsan_read_range((void *)(size_t)data, bytes);
}
void race_writes(void *data, size_t bytes) {
    __tsan_write_range(data, bytes);
}
#else
void race_give(void *sync) {
    (void)sync;
}
void race_take(void *sync) {
    (void)sync;
}
void race_reads(const void *data, size_t bytes) {
    (void)data, (void)bytes;
}
void race_writes(void *data, size_t bytes) {
    (void)data, (void)bytes;
}
#endif

void simt_switch(void **save, void *to);
__asm__(".text\n"
        ".globl simt_switch\n"
        ".hidden simt_switch\n"
        ".type simt_switch, @function\n"
        "simt_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size simt_switch, . - simt_switch\n");

void fiber_init_own(struct fiber *f) {
    *f = (struct fiber){.stack = NULL};
    pthread_attr_t attributes;
    void *low = NULL;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        (void)pthread_attr_getstack(&attributes, &low, &f->stack_bytes);
        (void)pthread_attr_destroy(&attributes);
    }
    f->address = low;
#ifdef SIMT_RACES
    f->race = __tsan_get_current_fiber();
#endif
}

void fiber_create(struct fiber *f) {
    char *data = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED || mprotect(data, GUARD_BYTES, PROT_NONE)) {
        perror("simt: a fiber's stack");
        abort();
    }
    *f = (struct fiber){.stack = data + GUARD_BYTES, .stack_bytes = STACK_BYTES};
    f->address = f->stack;
#ifdef SIMT_RACES
    f->race = __tsan_create_fiber(0);
#endif
}
void fiber_destroy(struct fiber *f) {
    if (!f->stack) {
        return;
    }
#ifdef SIMT_RACES
    __tsan_destroy_fiber(f->race);
#endif
    munmap(f->stack - GUARD_BYTES, GUARD_BYTES + f->stack_bytes);
    *f = (struct fiber){.stack = NULL};
}

void fiber_restart(struct fiber *f, void (*entry)(void)) {
    void **top = (void **)(void *)(f->stack + f->stack_bytes);
    *--top = NULL; // where entry() would return to; it also aligns the stack as a call does
    *--top = *(void **)(void *)&entry;
    for (int i = 0; i < SAVED_REGISTERS; i++) {
        *--top = NULL;
    }
    f->top = top;
    f->fake = NULL;
}

void fiber_begun(struct fiber *f) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(f->fake, NULL, NULL);
#else
    (void)f;
#endif
}

void fiber_switch(struct fiber *from, struct fiber *to, bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake, to->address, to->stack_bytes);
#else
    (void)for_good;
#endif
#ifdef SIMT_RACES
    __tsan_switch_to_fiber(to->race, NO_ORDER);
#endif
    simt_switch(&from->top, to->top);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}
