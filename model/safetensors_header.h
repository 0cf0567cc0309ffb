/* safetensors_header.h - one file's table of contents. For safetensors.c only. */
#ifndef BERTH_MODEL_SAFETENSORS_HEADER_H
#define BERTH_MODEL_SAFETENSORS_HEADER_H
#include "base/status.h"
#include <stdint.h>

enum { SAFETENSORS_MAX_DIMS = 8, SAFETENSORS_MAX_HEADER = 100000000 };

struct safetensors_entry {
    char *name;
    char dtype[16]; // as written: "F32", ...
    int item_bytes; // 0: a dtype that is not known
    int n_dims;
    int64_t dims[SAFETENSORS_MAX_DIMS];
    uint64_t begin, end; // bytes from the end of the header
};
struct safetensors_table {
    struct safetensors_entry *entries; // by name
    int n;
};
/* header: the JSON alone, `len` bytes; data_bytes: what follows it. Errors: STATUS_INVALID. */
MUST_CHECK enum status safetensors_table_parse(struct safetensors_table *out, const char *header,
                                               size_t len, uint64_t data_bytes, const char *name,
                                               struct error *err);
void safetensors_table_finish(struct safetensors_table *t);
#endif
