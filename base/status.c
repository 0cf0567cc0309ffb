/* status.c - names and sentences for errors. The reason is formatted once, where it is known;
 * callers above only put a prefix before it. Nothing here allocates but the start-up helpers, which
 * end the process when there is no memory: a server that cannot start has nothing better to do. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    [STATUS_OK] = "ok",
    [STATUS_INVALID] = "invalid",
    [STATUS_TOO_LONG] = "too_long",
    [STATUS_OVERLOADED] = "overloaded",
    [STATUS_TIMEOUT] = "timeout",
    [STATUS_IO] = "io",
    [STATUS_BACKEND] = "backend",
    [STATUS_RESULT] = "result",
    [STATUS_NO_MEMORY] = "no_memory",
    [STATUS_CANCELLED] = "cancelled",
    [STATUS_UNAVAILABLE] = "unavailable",
};

const char *status_name(enum status s) {
    return (size_t)s < N_ITEMS(names) ? names[s] : "unknown";
}

enum status error_set(struct error *err, enum status s, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
    }
    return s;
}

enum status error_prefix(struct error *err, enum status s, const char *fmt, ...) {
    if (err) {
        char old[sizeof(err->text)];
        memcpy(old, err->text, sizeof(old));
        va_list args;
        va_start(args, fmt);
        const int n = vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof(err->text)) {
            snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", old);
        }
    }
    return s;
}

void *xcalloc(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p) {
        fprintf(stderr, "berth: no memory for %zu x %zu bytes\n", n, size);
        abort();
    }
    return p;
}

char *xstrdup(const char *s) {
    const size_t bytes = strlen(s) + 1;
    return memcpy(xcalloc(bytes, 1), s, bytes);
}
