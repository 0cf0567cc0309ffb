/* request.c - what every exchange begins and ends with: an empty request and an id.
 * An id is for logs and for the client's own tracing: its own is kept when it is short and made of
 * visible ASCII without quotes (so it can stand in a header, a log line and JSON as it is), else
 * 128 random bits are taken. Random from the kernel, so that nothing is shared between threads. */
#include "server/request.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

void request_reset(struct request *r) {
    arena_reset(&r->arena);
    const struct arena kept = r->arena;
    memset(r, 0, sizeof(*r));
    r->arena = kept;
}

static bool is_good_id(const char *id) {
    size_t n = 0;
    while (n < REQUEST_ID_BYTES && id[n] > ' ' && id[n] < 0x7f && id[n] != '"' && id[n] != '\\') {
        n++;
    }
    return n > 0 && n < REQUEST_ID_BYTES && !id[n];
}
void request_set_id(struct request *r, const char *wanted) {
    if (wanted && is_good_id(wanted)) {
        snprintf(r->id, sizeof(r->id), "%s", wanted);
        return;
    }
    uint64_t bits[2];
    const ssize_t got = getrandom(bits, sizeof(bits), 0); // never short below 256 bytes
    assert(got == (ssize_t)sizeof(bits));
    snprintf(r->id, sizeof(r->id), "%016llx%016llx", (unsigned long long)bits[0],
             (unsigned long long)bits[1]);
}
