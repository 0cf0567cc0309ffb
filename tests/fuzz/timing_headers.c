/* timing_headers.c - fuzzes Server-Timing, Berth-Batch and TEI's numbers: figures are finite and
 * not negative, a malformed header tells nothing, names are those of the input. The first byte
 * chooses the header. */
#include "bench/client/timing_headers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}
static void check(const struct timing *t, const struct stages *s) {
    require(!(t->is_malformed && (t->has || t->has_batch || t->total_ms >= 0)));
    for (int i = 0; i < STAGES_MAX; i++) {
        if (t->has & (1U << i)) {
            require(i < atomic_load(&s->n) && isfinite(t->ms[i]) && t->ms[i] >= 0);
            require(s->names[i][0] && strlen(s->names[i]) < STAGE_NAME_BYTES);
        }
    }
    require(isfinite(t->total_ms));
    if (t->has_batch) {
        require(t->batch.n_requests >= 1 && t->batch.n_rows >= t->batch.n_tokens);
        require(t->batch.n_tokens >= 0 && t->batch.bucket >= 0);
        require(t->batch.padding >= 0 && t->batch.padding <= 1);
    }
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct stages stages;
    struct timing t;
    char *value = malloc(size); // of exact size, for the sanitizer
    require(value != NULL);
    memcpy(value, data + 1, size - 1);
    char *exact = realloc(value, size > 1 ? size - 1 : 1);
    require(exact != NULL);
    stages_init(&stages);
    timing_start(&t);
    switch (data[0] % 3) {
    case 0: timing_read_server_timing(&t, &stages, exact, size - 1); break;
    case 1: timing_read_batch(&t, exact, size - 1); break;
    default: timing_read_tei(&t, &stages, "x-queue-time", 12, exact, size - 1); break;
    }
    check(&t, &stages);
    stages_finish(&stages);
    free(exact);
    return 0;
}
