/* safetensors.h - maps model.safetensors, or the shards that model.safetensors.index.json names.
 * Format: 8 bytes little-endian header length, JSON {name: {dtype, shape, data_offsets}}, raw
 * tensors. Threads: read-only after opening. Memory: the mapping is owned by the struct; views
 * borrow it. */
#ifndef BERTH_MODEL_SAFETENSORS_H
#define BERTH_MODEL_SAFETENSORS_H
#include "base/status.h"
#include "kernels/types.h"
#include <stdbool.h>

struct safetensors;
/* Every header is checked: offsets inside the file, not overlapping, sizes that fit shape and
 * dtype. Errors: STATUS_IO, STATUS_TOO_LONG, STATUS_INVALID with file and tensor. */
MUST_CHECK enum status safetensors_open(struct safetensors **out, const char *dir,
                                        struct error *err);
void safetensors_close(struct safetensors *st); // takes NULL
/* Finds `name` as a matrix [rows, cols], or as a vector when rows is 0. Errors: STATUS_INVALID
 * naming the tensor when it is missing, has another shape, or a dtype other than F32, F16, BF16. */
MUST_CHECK enum status safetensors_find(const struct safetensors *st, struct host_tensor *out,
                                        const char *name, int rows, int cols, struct error *err);
/* The files' pages leave this process's memory; views stay good, and bring back what they touch. */
void safetensors_give_back(const struct safetensors *st);
bool safetensors_has(const struct safetensors *st, const char *name);
/* STATUS_INVALID, naming the tensor and the index, when a value is NaN or infinite. */
MUST_CHECK enum status host_tensor_check_finite(const struct host_tensor *t, const char *name,
                                                struct error *err);
/* For fuzzing and tests: checks one header, the JSON alone, against a file of `file_bytes` in all.
 */
MUST_CHECK enum status safetensors_check_header(const char *header, size_t len, size_t file_bytes,
                                                struct error *err);
#endif
