/* trace.c - any bytes as a recorded trace: refused with a reason that names the file and the line,
 * or arrivals that, written again, read back the same. */
#include "batching/trace.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status read_bytes(struct trace *out, const void *bytes, size_t size,
                              struct error *err) {
    FILE *in = fmemopen((void *)bytes, size, "r"); // only read
    assert(in);
    const enum status s = trace_read_stream(out, in, "fuzz", err);
    fclose(in);
    return s;
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct trace t = {.n = 0}, again = {.n = 0};
    struct error err = {.text = ""};
    char *text = NULL;
    size_t len = 0;
    if (size == 0) {
        return 0; // fmemopen() takes no empty buffer
    }
    if (read_bytes(&t, data, size, &err)) {
        assert(!strncmp(err.text, "fuzz:", 5) && t.n == 0);
        return 0;
    }
    FILE *out = open_memstream(&text, &len);
    assert(out);
    trace_write_header(out);
    for (int i = 0; i < t.n; i++) {
        trace_write(out, &t.arrivals[i]);
    }
    fclose(out);
    const enum status s = read_bytes(&again, text, len, &err);
    assert(!s && again.n == t.n);
    for (int i = 0; i < t.n; i++) {
        const struct arrival *a = &t.arrivals[i], *b = &again.arrivals[i];
        assert(a->at_ns / 1000 == b->at_ns / 1000 && a->n_tokens == b->n_tokens);
        assert(a->priority == b->priority && a->key == b->key);
    }
    free(text);
    trace_finish(&t);
    trace_finish(&again);
    return 0;
}
