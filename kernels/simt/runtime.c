/* runtime.c - the device as a thing, its memory, and launches. */
#include "kernels/simt/device_state.h"
#include "kernels/simt/internal.h"
#include "kernels/simt/memory.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FUNCTIONS = 256, MAX_GRID_YZ = 65535 };

static _Thread_local int current;
static struct {
    const void *function;
    size_t shared_bytes;
} functions[MAX_FUNCTIONS]; // that were allowed more shared memory
static int n_functions;

static cudaError_t find_devices(int *n) {
    *n = fault_no_driver() ? 0 : fault_devices();
    return fault_no_driver() ? cudaErrorInsufficientDriver
           : *n == 0         ? cudaErrorNoDevice
                             : cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *n) {
    (void)device_enter();
    return device_leave(find_devices(n));
}
cudaError_t cudaSetDevice(int number) {
    int n = 0;
    cudaError_t e = device_enter();
    e = e ? e : find_devices(&n);
    if (!e && (number < 0 || number >= n)) {
        e = cudaErrorInvalidDevice;
    }
    current = e ? current : number;
    return device_leave(e);
}
cudaError_t cudaGetDevice(int *number) {
    *number = current;
    return device_leave(device_enter());
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int number) {
    int n = 0;
    cudaError_t e = device_enter();
    e = e ? e : find_devices(&n);
    if (!e && (number < 0 || number >= n)) {
        e = cudaErrorInvalidDevice;
    }
    if (!e) {
        *out = (struct cudaDeviceProp){.name = "a simulated device",
                                       .major = 8,
                                       .multiProcessorCount = 1,
                                       .totalGlobalMem = fault_memory_bytes(),
                                       .sharedMemPerBlock = SIMT_SHARED_BYTES_FREE,
                                       .sharedMemPerBlockOptin = SIMT_SHARED_BYTES};
    }
    return device_leave(e);
}
cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int number) {
    int n = 0;
    cudaError_t e = device_enter();
    e = e ? e : find_devices(&n);
    const int len = snprintf(out, (size_t)size, "0000:%02x:00.0", (unsigned)number);
    if (!e && (number < 0 || number >= n || len >= size)) {
        e = cudaErrorInvalidValue;
    }
    return device_leave(e);
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = 0;
    return device_leave(device_enter());
}

static cudaError_t take(enum memory_kind kind, void **out, size_t bytes) {
    cudaError_t e = device_enter();
    e = e ? e : stream_unsafe_call();
    const size_t most = fault_memory_bytes() - memory_in_use();
    if (!e && kind == MEMORY_DEVICE && bytes > most) {
        e = cudaErrorMemoryAllocation;
    }
    if (!e) {
        *out = bytes ? memory_take(kind, bytes) : NULL;
        device_made();
        e = *out || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    return device_leave(e);
}
/* As CUDA's, it waits for all work first. */
static cudaError_t give(enum memory_kind kind, void *data) {
    cudaError_t e = device_enter();
    const cudaError_t unsafe = stream_unsafe_call();
    if (!e && unsafe) {
        return device_leave(unsafe);
    }
    while (!e && !stream_drain(NULL)) { // something hangs, and so does who waits for it
        pause();
    }
    if (data && !memory_give(kind, data)) {
        e = e ? e : cudaErrorInvalidValue;
    }
    return device_leave(e);
}
cudaError_t cudaMalloc(void **out, size_t bytes) {
    return take(MEMORY_DEVICE, out, bytes);
}
cudaError_t cudaFree(void *data) {
    return give(MEMORY_DEVICE, data);
}
cudaError_t cudaMallocHost(void **out, size_t bytes) {
    return take(MEMORY_PINNED, out, bytes);
}
cudaError_t cudaFreeHost(void *data) {
    return give(MEMORY_PINNED, data);
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const cudaError_t e = device_enter();
    *total_bytes = fault_memory_bytes();
    *free_bytes = *total_bytes - memory_in_use();
    return device_leave(e);
}

struct copy_call {
    void *to;
    const void *from;
    size_t bytes;
};
static cudaError_t do_copy(const void *arguments) {
    const struct copy_call *c = arguments;
    memory_allow(c->to, true), memory_allow(c->from, true);
    memmove(c->to, c->from, c->bytes);
    memory_allow(c->to, false), memory_allow(c->from, false);
    return cudaSuccess;
}
static bool is_host(const void *data, size_t bytes, bool pinned) {
    return pinned ? memory_is_pinned(data, bytes) : !memory_has(data, 1);
}
static bool copy_is_valid(const struct copy_call *c, enum cudaMemcpyKind kind, bool pinned) {
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return (to_device ? memory_has(c->to, c->bytes) : is_host(c->to, c->bytes, pinned)) &&
           (from_device ? memory_has(c->from, c->bytes) : is_host(c->from, c->bytes, pinned));
}
static cudaError_t put_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            bool pinned, cudaStream_t stream) {
    const struct copy_call c = {to, from, bytes};
    return copy_is_valid(&c, kind, pinned) ? stream_put(stream, do_copy, &c, sizeof(c), false)
                                           : cudaErrorInvalidValue;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    const cudaError_t e = device_enter();
    return device_leave(e ? e : put_copy(to, from, bytes, kind, true, stream));
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t e = device_enter();
    e = e ? e : stream_unsafe_call();
    e = device_leave(e ? e : put_copy(to, from, bytes, kind, false, NULL));
    return e ? e : cudaStreamSynchronize(NULL);
}

struct set_call {
    void *to;
    int value;
    size_t bytes;
};
static cudaError_t do_set(const void *arguments) {
    const struct set_call *c = arguments;
    memory_allow(c->to, true);
    memset(c->to, c->value, c->bytes);
    memory_allow(c->to, false);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    const cudaError_t e = device_enter();
    const struct set_call c = {to, value, bytes};
    return device_leave(e ? e
                        : !memory_has(to, bytes)
                            ? cudaErrorInvalidValue
                            : stream_put(stream, do_set, &c, sizeof(c), false));
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    const cudaError_t e = cudaMemsetAsync(to, value, bytes, NULL);
    return e ? e : cudaStreamSynchronize(NULL);
}

static size_t shared_limit(const void *function) {
    for (int i = 0; i < n_functions; i++) {
        if (functions[i].function == function) {
            return functions[i].shared_bytes;
        }
    }
    return SIMT_SHARED_BYTES_FREE;
}
static cudaError_t allow_shared(const void *function, size_t bytes) {
    int i = 0;
    while (i < n_functions && functions[i].function != function) {
        i++;
    }
    if (i == MAX_FUNCTIONS || bytes > SIMT_SHARED_BYTES) {
        return cudaErrorInvalidValue;
    }
    functions[i].function = function, functions[i].shared_bytes = bytes;
    n_functions = i == n_functions ? i + 1 : n_functions;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute what, int value) {
    const cudaError_t e = device_enter();
    const bool is_valid = what == cudaFuncAttributeMaxDynamicSharedMemorySize && value >= 0;
    return device_leave(e           ? e
                        : !is_valid ? cudaErrorInvalidValue
                                    : allow_shared(function, (size_t)value));
}

struct launch_call {
    struct simt_grid grid;
    _Alignas(16) char arguments[]; // of the kernel
};
static cudaError_t do_launch(const void *arguments) {
    const struct launch_call *c = arguments;
    struct simt_grid g = c->grid;
    size_t bytes = 0;
    g.arguments = c->arguments;
    g.seed = device_random();
    simt_run(&g);
    const void *block = memory_overrun(&bytes);
    if (block) {
        simt_fail("a kernel wrote past the end of a block of %zu bytes of device memory", bytes);
    }
    return cudaSuccess;
}
static cudaError_t check_launch(const struct simt_launch *l) {
    const uint64_t n_threads = (uint64_t)l->block.x * l->block.y * l->block.z;
    const bool grid_is_valid = l->grid.x > 0 && l->grid.y > 0 && l->grid.z > 0 &&
                               l->grid.x <= INT32_MAX && l->grid.y <= MAX_GRID_YZ &&
                               l->grid.z <= MAX_GRID_YZ;
    if (!grid_is_valid || n_threads == 0 || n_threads > SIMT_MAX_THREADS || l->block.z > 64) {
        return cudaErrorInvalidConfiguration;
    }
    if (l->shared_bytes > shared_limit(l->function)) {
        return cudaErrorInvalidValue;
    }
    return fault_at_launch() ? cudaErrorLaunchOutOfResources : cudaSuccess;
}
static cudaError_t put_launch(cudaStream_t stream, const struct simt_launch *l) {
    const size_t bytes = sizeof(struct launch_call) + l->bytes;
    struct launch_call *c = calloc(1, bytes);
    if (!c) {
        return cudaErrorMemoryAllocation;
    }
    c->grid = (struct simt_grid){
        .grid = l->grid, .block = l->block, .shared_bytes = l->shared_bytes, .kernel = l->kernel};
    memcpy(c->arguments, l->arguments, l->bytes);
    const cudaError_t e = stream_put(stream, do_launch, c, bytes, true);
    free(c);
    return e;
}
cudaError_t simt_launch(cudaStream_t stream, const struct simt_launch *l) {
    cudaError_t e = device_enter();
    e = e ? e : check_launch(l);
    return device_leave(e ? e : put_launch(stream, l));
}
