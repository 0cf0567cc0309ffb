/* memory.c - every block of device memory has pages of its own, which nobody can touch but while
 * the device works: by a protection key, which costs nothing to turn, or where the processor has
 * none by changing the pages. The block ends where a page ends, so that the first access beyond it
 * faults; what alignment leaves in between (255 bytes at most) holds a mark that is looked at after
 * each kernel, and is poisoned for the address sanitizer. */
#include "kernels/simt/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    PAGE_BYTES = 4096,
    GUARD_BYTES = 1 << 20,
    ALIGN = 256,
    MARK = 0x5a,
    NANS = 0xff,
    KEY_UNKNOWN = -2
};

struct block {
    enum memory_kind kind;
    char *pages, *data; // the pages without those that guard
    size_t pages_bytes, bytes;
    struct block *next;
};
static struct block *blocks; // the device's lock is held
static int n_open, key = KEY_UNKNOWN;
static size_t in_use;

static size_t up_to(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}
static size_t rest_of(const struct block *b) {
    return up_to(b->bytes, ALIGN) - b->bytes;
}
/* A protection key for all device memory; -1: there is none. */
static int find_key(void) {
    if (key == KEY_UNKNOWN) {
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    }
    return key;
}
static void protect(const struct block *b) {
    if (b->kind == MEMORY_DEVICE && find_key() >= 0) {
        (void)pkey_mprotect(b->pages, b->pages_bytes, PROT_READ | PROT_WRITE, find_key());
    } else if (b->kind == MEMORY_DEVICE && n_open == 0) {
        (void)mprotect(b->pages, b->pages_bytes, PROT_NONE);
    }
}
static void allow_all(bool yes) {
    if (find_key() >= 0) {
        (void)pkey_set(key, yes ? 0 : PKEY_DISABLE_ACCESS);
        return;
    }
    for (const struct block *b = blocks; b; b = b->next) {
        if (b->kind == MEMORY_DEVICE) {
            (void)mprotect(b->pages, b->pages_bytes, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
        }
    }
}

void *memory_take(enum memory_kind kind, size_t bytes) {
    const size_t pages_bytes = up_to(bytes, PAGE_BYTES);
    char *all = mmap(NULL, pages_bytes + 2 * GUARD_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) {
        return NULL;
    }
    struct block *b = xcalloc(1, sizeof(*b));
    *b = (struct block){kind, all + GUARD_BYTES, NULL, pages_bytes, bytes, blocks};
    b->data = b->pages + pages_bytes - up_to(bytes, ALIGN);
    blocks = b;
    (void)mprotect(b->pages, pages_bytes, PROT_READ | PROT_WRITE);
    memset(b->pages, NANS, pages_bytes);
    memset(b->data + bytes, MARK, rest_of(b));
    ASAN_POISON_MEMORY_REGION(b->data + bytes, rest_of(b));
    protect(b);
    in_use += kind == MEMORY_DEVICE ? bytes : 0;
    return b->data;
}
bool memory_give(enum memory_kind kind, void *data) {
    struct block **at = &blocks;
    while (*at && ((*at)->data != data || (*at)->kind != kind)) {
        at = &(*at)->next;
    }
    struct block *b = *at;
    if (!b) {
        return false;
    }
    *at = b->next;
    in_use -= kind == MEMORY_DEVICE ? b->bytes : 0;
    ASAN_UNPOISON_MEMORY_REGION(b->data + b->bytes, rest_of(b));
    munmap(b->pages - GUARD_BYTES, b->pages_bytes + 2 * GUARD_BYTES);
    free(b);
    return true;
}

static bool is_in(enum memory_kind kind, const void *data, size_t bytes) {
    const uintptr_t at = (uintptr_t)data;
    for (const struct block *b = blocks; b; b = b->next) {
        const uintptr_t first = (uintptr_t)b->data;
        if (b->kind == kind && at >= first && at - first <= b->bytes &&
            bytes <= b->bytes - (at - first)) {
            return true;
        }
    }
    return false;
}
bool memory_has(const void *data, size_t bytes) {
    return is_in(MEMORY_DEVICE, data, bytes);
}
bool memory_is_pinned(const void *data, size_t bytes) {
    return is_in(MEMORY_PINNED, data, bytes);
}
size_t memory_in_use(void) {
    return in_use;
}

void memory_allow(const void *data, bool yes) {
    const uintptr_t at = (uintptr_t)data;
    for (const struct block *b = n_open ? NULL : blocks; b; b = b->next) {
        if (b->kind == MEMORY_DEVICE && at - (uintptr_t)b->data < b->bytes) {
            if (find_key() >= 0) {
                (void)pkey_set(key, yes ? 0 : PKEY_DISABLE_ACCESS);
            } else {
                (void)mprotect(b->pages, b->pages_bytes, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
            }
        }
    }
}
void memory_open(void) {
    if (n_open++ == 0) {
        allow_all(true);
    }
}
void memory_close(void) {
    if (--n_open == 0) {
        allow_all(false);
    }
}

__attribute__((no_sanitize("address"))) static bool is_marked(const struct block *b) {
    for (size_t i = 0; i < rest_of(b); i++) {
        if (b->data[b->bytes + i] != MARK) {
            return false;
        }
    }
    return true;
}
const void *memory_overrun(size_t *bytes) {
    for (const struct block *b = blocks; b; b = b->next) {
        if (b->kind == MEMORY_DEVICE && !is_marked(b)) {
            *bytes = b->bytes;
            return b->data;
        }
    }
    return NULL;
}
