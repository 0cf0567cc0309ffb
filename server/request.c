/* request.c - what every exchange begins and ends with: an empty request and an id.
 * An id is for logs and for the client's own tracing: its own is kept when it is short and made of
 * visible ASCII without quotes (so it can stand in a header, a log line and JSON as it is), else
 * 128 random bits are taken. Random from the kernel, so that nothing is shared between threads, and
 * several ids' bits at a time: asking it for every id took a thirtieth of a health request. */
#include "server/request.h"

#include <assert.h>
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
static void fill(struct id_source *ids) {
    const ssize_t got = getrandom(ids->bits, sizeof(ids->bits), 0);
    assert(got == (ssize_t)sizeof(ids->bits)); // never short up to 256 bytes
    ids->n_left = ID_SOURCE_IDS;
}
static char *write_hex(char *out, uint64_t bits) {
    for (int shift = 60; shift >= 0; shift -= 4) {
        *out++ = "0123456789abcdef"[bits >> shift & 15];
    }
    return out;
}
void request_set_id(struct request *r, struct id_source *ids, const char *wanted) {
    if (wanted && is_good_id(wanted)) {
        snprintf(r->id, sizeof(r->id), "%s", wanted);
        return;
    }
    if (ids->n_left == 0) {
        fill(ids);
    }
    const uint64_t *bits = &ids->bits[2 * --ids->n_left];
    *write_hex(write_hex(r->id, bits[0]), bits[1]) = '\0';
}
