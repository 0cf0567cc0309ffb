/* safetensors.c - fuzzes the header of a checkpoint: 4 bytes of data length, then the JSON. */
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t data_bytes;
    struct error err;
    if (size < sizeof(data_bytes)) {
        return 0;
    }
    memcpy(&data_bytes, data, sizeof(data_bytes));
    const size_t len = size - sizeof(data_bytes);
    const enum status s = safetensors_check_header((const char *)data + sizeof(data_bytes), len,
                                                   8 + len + data_bytes, &err);
    if (s != STATUS_OK && (s != STATUS_INVALID || !memchr(err.text, 0, sizeof(err.text)))) {
        abort();
    }
    return 0;
}
