/* memory.c - blocks of floats: weights, activations, workspace.
 * Large blocks come from the system page by page: zeroed, and in memory only once they are written,
 * so that rows which no batch has needed yet, and an encoder that has not run, cost nothing. They
 * stand on huge pages where the system grants them: long streams with few TLB misses, and a
 * five-hundredth of the page faults at start. The sanitizer gets heap blocks, whose ends it guards.
 */
#include "kernels/cpu/internal.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t HUGE_PAGE = (size_t)1 << 21;
#if defined(__SANITIZE_ADDRESS__)
static const size_t LEAST_MAPPED = SIZE_MAX;
#else
static const size_t LEAST_MAPPED = (size_t)1 << 20;
#endif

/* Stands before every block. */
struct block {
    _Alignas(64) size_t mapped_bytes; // 0: from the heap
};

static struct block *heap_block(size_t bytes) {
    struct block *b = aligned_alloc(_Alignof(struct block), bytes);
    if (b) {
        memset(b, 0, bytes);
    }
    return b;
}
/* Begins at a huge page: what is reserved too much at both ends goes back. */
static struct block *mapped_block(size_t bytes) {
    const size_t reserved = bytes + HUGE_PAGE;
    char *p = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    const size_t before = -(uintptr_t)p & (HUGE_PAGE - 1), after = reserved - before - bytes;
    if (before) {
        munmap(p, before);
    }
    if (after) {
        munmap(p + before + bytes, after);
    }
    struct block *b = (struct block *)(void *)(p + before);
    madvise(b, bytes, MADV_HUGEPAGE); // may be refused
    b->mapped_bytes = bytes;
    return b;
}

float *cpu_floats(size_t n) {
    const size_t page = 4096, wanted = sizeof(struct block) + n * sizeof(float);
    const bool mapped = wanted >= LEAST_MAPPED;
    const size_t to = mapped ? page : _Alignof(struct block), bytes = (wanted + to - 1) / to * to;
    struct block *b = mapped ? mapped_block(bytes) : heap_block(bytes);
    return b ? (float *)(void *)(b + 1) : NULL;
}
void cpu_floats_free(float *p) {
    if (p) {
        struct block *b = (struct block *)(void *)p - 1;
        if (b->mapped_bytes) {
            munmap(b, b->mapped_bytes);
        } else {
            free(b);
        }
    }
}
