/* arena.c - a bump allocator over reserved address space.
 * mmap(MAP_NORESERVE) gives zero pages on first touch, so a large capacity costs nothing until it
 * is used; arena_reset() hands pages beyond ARENA_KEEP_BYTES back with MADV_DONTNEED, so one long
 * request does not keep its memory for the life of the slot. Under ASan what is not handed out is
 * poisoned, so that a use after reset, or a step past a piece, is reported: not all of the address
 * space, whose shadow would be real memory, but what has been in use and ZONE bytes after it. */
#include "base/arena.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { PAGE = 4096, ZONE = 64 * 1024 };

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static size_t zone_end(const struct arena *a) {
    return a->capacity - a->peak > ZONE ? a->peak + ZONE : a->capacity;
}
/* From `from` to ZONE bytes beyond the most that was ever in use. */
static void poison_from(const struct arena *a, size_t from) {
    ASAN_POISON_MEMORY_REGION(a->data + from, zone_end(a) - from);
}

enum status arena_init(struct arena *a, size_t capacity, struct error *err) {
    memset(a, 0, sizeof(*a));
    if (capacity > SIZE_MAX / 2) {
        return error_set(err, STATUS_NO_MEMORY, "an arena of %zu bytes is too large", capacity);
    }
    const size_t bytes = round_up(capacity ? capacity : 1, PAGE);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        return error_set(err, STATUS_NO_MEMORY, "cannot reserve %zu bytes: %s", bytes,
                         strerror(errno));
    }
    a->data = p;
    a->capacity = bytes;
    poison_from(a, 0);
    return STATUS_OK;
}

void arena_finish(struct arena *a) {
    if (a->data) {
        ASAN_UNPOISON_MEMORY_REGION(a->data, zone_end(a));
        munmap(a->data, a->capacity);
    }
    memset(a, 0, sizeof(*a));
}

static void *take(struct arena *a, size_t from, size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > a->capacity - from) {
        return NULL;
    }
    unsigned char *p = a->data + from;
    a->used = round_up(from + bytes, ARENA_ALIGN);
    if (a->used > a->capacity) {
        a->used = a->capacity;
    }
    if (a->used > a->high) {
        a->high = a->used;
    }
    if (a->high > a->peak) {
        a->peak = a->high;
    }
    poison_from(a, from);
    ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    return p;
}

void *arena_alloc(struct arena *a, size_t n, size_t size) {
    return take(a, a->used, n, size);
}

void *arena_resize_last(struct arena *a, void *last, size_t n, size_t size) {
    return take(a, (size_t)((unsigned char *)last - a->data), n, size);
}

void arena_reset(struct arena *a) {
    if (a->high > ARENA_KEEP_BYTES) {
        madvise(a->data + ARENA_KEEP_BYTES, round_up(a->high, PAGE) - ARENA_KEEP_BYTES,
                MADV_DONTNEED);
    }
    if (a->data) {
        poison_from(a, 0);
    }
    a->used = a->high = 0;
}
