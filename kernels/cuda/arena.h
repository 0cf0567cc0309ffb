/* arena.h - device memory: blocks that are taken from the driver whole, and filled from their
 * beginning; a block begins anew when nothing in it is wanted any more. And the way there. */
#ifndef BERTH_KERNELS_CUDA_ARENA_H
#define BERTH_KERNELS_CUDA_ARENA_H
#include "base/status.h"
#include "kernels/types.h"

enum {
    CUDA_ALIGN = 256,           // bytes, of whatever lies in device memory
    CUDA_STAGE_VALUES = 1 << 18 // of a pinned buffer for weights
};
struct cuda_backend;
struct device_block {
    char *data;
    size_t bytes, used;
    int n_alive;
    struct device_block *next;
};
struct device_arena {
    struct device_block *blocks;
    size_t bytes, max_bytes; // max_bytes 0: what there is
};
/* Aligned to CUDA_ALIGN; its zeros are there after cuda_upload_finish(). Errors: STATUS_NO_MEMORY
 * with how much was wanted and how much is in use; STATUS_BACKEND. */
enum status arena_take(struct cuda_backend *cuda, void **out, size_t bytes, struct error *err);
void arena_give(struct device_arena *a, const void *data); // takes NULL
void arena_finish(struct device_arena *a);

/* `n` elements of `from`, from element `first` on, times `scale`, to device memory as `to`. `from`
 * is read during the call; the copy has ended after cuda_upload_finish(). */
enum status cuda_upload(struct cuda_backend *cuda, void *device, enum dtype to,
                        const struct host_tensor *from, size_t first, size_t n, float scale,
                        struct error *err);
enum status cuda_upload_finish(struct cuda_backend *cuda, struct error *err);
#endif
