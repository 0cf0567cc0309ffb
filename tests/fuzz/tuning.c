/* tuning.c - any bytes as a tuning cache: taken whole or refused with a reason, and what was there
 * before stays in the second case. */
#include "server/tuning.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const double kept = 7;
    struct tuning *t = tuning_open("off");
    struct error err = {.text = ""};
    double value = 0;
    tuning_set(t, "kept", &kept, 1);
    if (tuning_read_text(t, (const char *)data, size, &err)) {
        assert(err.text[0]);
        const bool is_there = tuning_get(t, "kept", &value, 1);
        assert(is_there && value == kept);
    }
    tuning_close(t);
    return 0;
}
