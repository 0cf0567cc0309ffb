/* folder.h - a temporary model directory for a test. */
#ifndef BERTH_TESTS_FOLDER_H
#define BERTH_TESTS_FOLDER_H
#include <stddef.h>
#include <stdint.h>

struct folder {
    char path[64];
};
void folder_init(struct folder *f);
void folder_finish(struct folder *f); // with all that is in it
void folder_write(const struct folder *f, const char *file, const void *data, size_t len);
/* A safetensors file: header (its length before it), then data. */
void folder_write_tensors(const struct folder *f, const char *file, const char *header,
                          const void *data, size_t len);
void folder_copy(const struct folder *f, const char *from_dir, const char *file);
/* Replaces the first occurrence of `from`, by as many bytes. */
void folder_patch(const struct folder *f, const char *file, const char *from, const char *to);
#endif
