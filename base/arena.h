/* arena.h - memory that is taken piece by piece and given back all at once.
 * Threads: an arena belongs to one thread at a time.
 * Memory:  arena_init() reserves address space only; pages become real when they are written, and
 *          arena_reset() gives those beyond ARENA_KEEP_BYTES back to the system. */
#ifndef BERTH_BASE_ARENA_H
#define BERTH_BASE_ARENA_H
#include "base/status.h"
#include <stddef.h>

enum { ARENA_ALIGN = 64, ARENA_KEEP_BYTES = 64 * 1024 };

struct arena {
    unsigned char *data; // owns the mapping
    size_t capacity, used;
    size_t high; // the most that was used since the last reset gave pages back
    size_t peak; // the most that was ever used
};
MUST_CHECK enum status arena_init(struct arena *a, size_t capacity, struct error *err);
void arena_finish(struct arena *a); // takes a zeroed arena too
/* n * size bytes, 64-byte aligned, not zeroed; NULL when the arena is full or the product
 * overflows. Borrowed until arena_reset(). */
void *arena_alloc(struct arena *a, size_t n, size_t size);
/* Makes the piece that arena_alloc() gave last smaller or, while room lasts, larger, in place; NULL
 * when it does not fit, and the piece is then as before. */
void *arena_resize_last(struct arena *a, void *last, size_t n, size_t size);
void arena_reset(struct arena *a);
#endif
