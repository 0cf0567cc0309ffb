/* lengths.c - any bytes as a file of lengths: refused with a reason that names the file, or a
 * histogram that is not empty and can be drawn from. */
#include "server/json.h"
#include "server/lengths_file.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lengths_file *f = xcalloc(1, sizeof(*f));
    struct error err = {.text = ""};
    json_init();
    if (lengths_file_parse(f, (const char *)data, size, "fuzz", &err)) {
        assert(!strncmp(err.text, "fuzz", 4));
    } else {
        struct trace t = {.n = 0};
        assert(f->per_second >= 0 && lengths_mean(&f->lengths) >= 1);
        trace_generate(&t, ARRIVE_CONSTANT, 1, 3, &f->lengths, 1);
        assert(t.n == 3 && f->lengths.count[t.arrivals[0].n_tokens] > 0);
        trace_finish(&t);
    }
    free(f);
    return 0;
}
