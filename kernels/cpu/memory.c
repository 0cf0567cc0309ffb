/* memory.c - blocks of floats: weights, activations, workspace.
 * Large blocks come from the system page by page: zeroed, and in memory only once they are written,
 * so that rows which no batch has needed yet, and an encoder that has not run, cost nothing. They
 * stand on huge pages where the system grants them: long streams with few TLB misses, and a
 * five-hundredth of the page faults at start. The sanitizer gets heap blocks, whose ends it guards.
 */
#include "kernels/cpu/memory.h"
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

/* Stands before every block; a mapped one's on a page of its own, or it would bring a huge page
 * into memory for a block that nobody writes to. */
struct block {
    _Alignas(64) size_t mapped_bytes; // from that page on; 0: from the heap
};
enum { PAGE = 4096 };

static struct block *heap_block(size_t floats_bytes) {
    const size_t align = _Alignof(struct block);
    const size_t bytes = sizeof(struct block) + (floats_bytes + align - 1) / align * align;
    struct block *b = aligned_alloc(align, bytes);
    if (b) {
        memset(b, 0, bytes);
    }
    return b;
}
/* Its floats begin with a huge page: what is reserved too much at both ends goes back. */
static struct block *mapped_block(size_t floats_bytes) {
    const size_t bytes = (floats_bytes + PAGE - 1) / PAGE * PAGE, reserved = bytes + 2 * HUGE_PAGE;
    char *p = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    char *floats = p + HUGE_PAGE + (-(uintptr_t)p & (HUGE_PAGE - 1)), *first = floats - PAGE;
    munmap(p, (size_t)(first - p));
    munmap(floats + bytes, reserved - bytes - (size_t)(floats - p));
    madvise(floats, bytes, MADV_HUGEPAGE); // may be refused
    struct block *b = (struct block *)(void *)floats - 1;
    b->mapped_bytes = PAGE + bytes;
    return b;
}

float *cpu_floats(size_t n) {
    const size_t bytes = n * sizeof(float);
    struct block *b = bytes >= LEAST_MAPPED ? mapped_block(bytes) : heap_block(bytes);
    return b ? (float *)(void *)(b + 1) : NULL;
}
void cpu_floats_free(float *p) {
    if (!p) {
        return;
    }
    struct block *b = (struct block *)(void *)p - 1;
    if (b->mapped_bytes) {
        munmap((char *)p - PAGE, b->mapped_bytes);
    } else {
        free(b);
    }
}
