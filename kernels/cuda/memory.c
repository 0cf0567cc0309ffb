/* memory.c - device memory from few large blocks, and the way there for weights.
 * The driver is asked for memory at start-up alone, and for blocks of at least 64 MiB; what is
 * wanted lies one after the other in them. Weights are converted on the host, piece by piece, into
 * one of two pinned buffers, while the other one's copy is under way. */
#include "kernels/convert.h"
#include "kernels/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

#ifdef BERTH_SIMT
static const size_t BLOCK_BYTES = 1; // each tensor on its own: whatever passes its end is found
#else
static const size_t BLOCK_BYTES = (size_t)64 << 20;
#endif

static size_t aligned(size_t bytes) {
    return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
}

static enum status add_block(struct cuda_backend *cuda, size_t bytes, struct error *err) {
    struct device_arena *a = &cuda->arena;
    const size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    void *data = NULL;
    if (a->max_bytes && a->bytes + size > a->max_bytes) {
        return error_set(err, STATUS_NO_MEMORY,
                         "%zu MiB of device memory are in use, %zu more would be over "
                         "compute.max_device_bytes",
                         a->bytes >> 20, size >> 20);
    }
    const cudaError_t e = cudaMalloc(&data, size);
    if (e) {
        (void)cudaGetLastError(); // said; it is not the next launch's
        return e == cudaErrorMemoryAllocation
                   ? error_set(err, STATUS_NO_MEMORY,
                               "the device has no %zu MiB left; %zu MiB are in use here",
                               size >> 20, a->bytes >> 20)
                   : cuda_check(cuda, e, "cudaMalloc", err);
    }
    struct device_block *block = xcalloc(1, sizeof(*block));
    *block = (struct device_block){.data = data, .bytes = size, .next = a->blocks};
    a->blocks = block;
    a->bytes += size;
    return STATUS_OK;
}

enum status arena_take(struct cuda_backend *cuda, void **out, size_t bytes, struct error *err) {
    const size_t size = aligned(bytes ? bytes : 1);
    struct device_block *b = cuda->arena.blocks;
    while (b && b->bytes - b->used < size) {
        b = b->next;
    }
    if (!b) {
        const enum status s = add_block(cuda, size, err);
        if (s) {
            return s;
        }
        b = cuda->arena.blocks;
    }
    void *data = b->data + b->used;
    const enum status s =
        cuda_check(cuda, cudaMemsetAsync(data, 0, size, cuda->copy), "cudaMemset", err);
    if (!s) {
        b->used += size, b->n_alive++;
        *out = data;
    }
    return s;
}

void arena_give(struct device_arena *a, const void *data) {
    struct device_block *b = a->blocks;
    while (data && b &&
           !((const char *)data >= b->data && (const char *)data < b->data + b->bytes)) {
        b = b->next;
    }
    if (data && b && --b->n_alive == 0) {
        b->used = 0;
    }
}

void arena_finish(struct device_arena *a) {
    while (a->blocks) {
        struct device_block *b = a->blocks;
        a->blocks = b->next;
        (void)cudaFree(b->data); // of a lost device: it says so, and there is nothing to be done
        free(b);
    }
    a->bytes = 0;
}

/* The next pinned buffer, once its last copy has ended. */
static enum status next_stage(struct cuda_backend *cuda, char **out, struct error *err) {
    const int i = cuda->stage ^= 1;
    *out = cuda->staging[i];
    return cuda_check(cuda, cudaEventSynchronize(cuda->staged[i]), "a copy of weights", err);
}

static enum status upload_piece(struct cuda_backend *cuda, void *device, enum dtype to,
                                const struct host_tensor *from, size_t first, size_t n, float scale,
                                float *floats, struct error *err) {
    char *stage = NULL;
    enum status s = next_stage(cuda, &stage, err);
    if (s) {
        return s;
    }
    host_tensor_to_float(floats, from, first, n);
    for (size_t i = 0; scale != 1 && i < n; i++) {
        floats[i] *= scale;
    }
    floats_to_words(stage, to, floats, n);
    s = cuda_check(
        cuda,
        cudaMemcpyAsync(device, stage, n * dtype_size(to), cudaMemcpyHostToDevice, cuda->copy),
        "a copy of weights", err);
    return s ? s
             : cuda_check(cuda, cudaEventRecord(cuda->staged[cuda->stage], cuda->copy),
                          "a copy of weights", err);
}

enum status cuda_upload(struct cuda_backend *cuda, void *device, enum dtype to,
                        const struct host_tensor *from, size_t first, size_t n, float scale,
                        struct error *err) {
    float *floats = xcalloc(CUDA_STAGE_VALUES, sizeof(*floats));
    enum status s = STATUS_OK;
    for (size_t at = 0; at < n && !s; at += CUDA_STAGE_VALUES) {
        const size_t piece = n - at < CUDA_STAGE_VALUES ? n - at : CUDA_STAGE_VALUES;
        s = upload_piece(cuda, (char *)device + at * dtype_size(to), to, from, first + at, piece,
                         scale, floats, err);
    }
    free(floats);
    return s;
}

enum status cuda_upload_finish(struct cuda_backend *cuda, struct error *err) {
    return cuda_check(cuda, cudaStreamSynchronize(cuda->copy), "a copy of weights", err);
}
