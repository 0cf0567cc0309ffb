/* backend.c - a CUDA backend's life, its table, and what the plugin gives to the program.
 * Making one finds the device, then opens what costs time: the library of products is half a
 * gigabyte and is not touched on machines that have no GPU. */
#include "kernels/cuda/entries.h"
#include "kernels/cuda/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* All of 1 / sqrt(head_dim), and log2(e): softmax works in powers of 2. */
static float query_scale(const struct backend *be, int head_dim) {
    return (float)(M_LOG2E / sqrt((double)head_dim));
}

static void destroy(struct backend *be) {
    struct cuda_backend *cuda = cuda_of(be);
    if (cuda->base.is_hung) { // freeing waits for the device; the driver frees at the process's end
        return;
    }
    (void)cudaSetDevice(cuda->opt.device);
    if (cuda->compute && !cuda->base.is_lost) {
        (void)cudaStreamSynchronize(cuda->compute);
    }
    cuda_plans_finish(cuda);
    cuda_slots_finish(cuda);
    blas_close(cuda);
    for (int i = 0; i < 2; i++) {
        if (cuda->staging[i]) {
            (void)cudaFreeHost(cuda->staging[i]);
        }
        if (cuda->staged[i]) {
            (void)cudaEventDestroy(cuda->staged[i]);
        }
    }
    cudaStream_t const streams[] = {cuda->compute, cuda->copy};
    for (size_t i = 0; i < N_ITEMS(streams); i++) {
        if (streams[i]) {
            (void)cudaStreamDestroy(streams[i]);
        }
    }
    arena_finish(&cuda->arena);
    range_domain_destroy(cuda->ranges);
    free(cuda);
}

static const struct backend_fn functions = {
    .abi = KERNELS_ABI,
    .struct_size = sizeof(struct backend_fn),
    .destroy = destroy,
    .query_scale = query_scale,
    .tensor_create = cuda_tensor_create,
    .tensor_destroy = cuda_tensor_destroy,
    .tensor_write = cuda_tensor_write,
    .tensor_read = cuda_tensor_read,
    .linear_create = cuda_linear_create,
    .linear_destroy = cuda_linear_destroy,
    .norm_create = cuda_norm_create,
    .norm_destroy = cuda_norm_destroy,
    .table_create = cuda_table_create,
    .table_destroy = cuda_table_destroy,
    .reserve = cuda_reserve,
    .warm_up_size = cuda_warm_up_size,
    .seal = cuda_seal,
    .batch_begin = cuda_batch_begin,
    .batch_submit = cuda_batch_submit,
    .batch_end = cuda_batch_end,
    .profile = cuda_profile,
    .barrier = cuda_op_barrier,
    .embed_layernorm = cuda_op_embed,
    .linear = cuda_op_linear,
    .layernorm = cuda_op_layernorm,
    .attention = cuda_op_attention,
    .layer_rest = layer_rest_default,
    .pool = cuda_op_pool,
    .head = cuda_op_head,
    .fetch = cuda_op_fetch,
};

static enum status count_devices(int *n, struct error *err) {
    const cudaError_t e = cudaGetDeviceCount(n);
    if (e) {
        (void)cudaGetLastError();
        return error_set(err, STATUS_UNAVAILABLE, "%s (%s)", cudaGetErrorString(e),
                         cudaGetErrorName(e));
    }
    return *n > 0 ? STATUS_OK : error_set(err, STATUS_UNAVAILABLE, "no device");
}

static enum dtype dtype_of(enum precision p) {
    switch (p) {
    case PRECISION_FLOAT16: return DTYPE_F16;
    case PRECISION_BFLOAT16:
    case PRECISION_AUTO: return DTYPE_BF16;
    default: return DTYPE_F32; // int8 is not there
    }
}
/* What times depend on of the device; a driver may name it in any characters. */
static enum status name_model(struct cuda_backend *cuda, const struct cudaDeviceProp *p,
                              struct error *err) {
    int driver = 0;
    const enum status s =
        cuda_check(cuda, cudaDriverGetVersion(&driver), "cudaDriverGetVersion", err);
    snprintf(cuda->model, sizeof(cuda->model), "%.60s, %d.%d, %d SMs, driver %d", p->name, p->major,
             p->minor, p->multiProcessorCount, driver);
    for (char *c = cuda->model; *c; c++) {
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    }
    return s;
}
static void bus_id(char *out, size_t size, int device) {
    if (cudaDeviceGetPCIBusId(out, (int)size, device) != cudaSuccess) {
        (void)cudaGetLastError();
        out[0] = '\0';
    }
}
static enum status open_device(struct cuda_backend *cuda, struct error *err) {
    struct cudaDeviceProp p;
    int n = 0;
    enum status s = count_devices(&n, err);
    if (s) {
        return s;
    }
    if (cuda->opt.device < 0 || cuda->opt.device >= n) {
        return error_set(err, STATUS_UNAVAILABLE, "there is no device %d: %d are there",
                         cuda->opt.device, n);
    }
    s = cuda_check(cuda, cudaSetDevice(cuda->opt.device), "cudaSetDevice", err);
    s = s ? s
          : cuda_check(cuda, cudaGetDeviceProperties(&p, cuda->opt.device),
                       "cudaGetDeviceProperties", err);
    if (!s && p.major < 8) {
        return error_set(err, STATUS_UNAVAILABLE,
                         "%s has compute capability %d.%d, at least 8.0 is needed", p.name, p.major,
                         p.minor);
    }
    if (!s) {
        snprintf(cuda->detail, sizeof(cuda->detail), "%.120s, compute capability %d.%d, device %d",
                 p.name, p.major, p.minor, cuda->opt.device);
        s = name_model(cuda, &p, err);
    }
    return s;
}
static enum status make_streams(struct cuda_backend *cuda, struct error *err) {
    enum status s =
        cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking),
                   "cudaStreamCreate", err);
    s = s ? s
          : cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->copy, cudaStreamNonBlocking),
                       "cudaStreamCreate", err);
    for (int i = 0; i < 2 && !s; i++) {
        void *stage = NULL;
        s = cuda_check(cuda, cudaEventCreateWithFlags(&cuda->staged[i], cudaEventDisableTiming),
                       "cudaEventCreate", err);
        s = s ? s
              : cuda_check(cuda, cudaMallocHost(&stage, CUDA_STAGE_VALUES * sizeof(float)),
                           "pinned memory", err);
        cuda->staging[i] = stage;
    }
    return s;
}

static enum status create(struct backend **out, const struct accelerator_options *opt,
                          struct error *err) {
    struct cuda_backend *cuda = xcalloc(1, sizeof(*cuda));
    cuda->opt = *opt;
    cuda->arena.max_bytes = opt->max_bytes > 0 ? (size_t)opt->max_bytes : 0;
    cuda->base = (struct backend){.fn = &functions,
                                  .name = CUDA_BACKEND_NAME,
                                  .detail = cuda->detail,
                                  .dtype = dtype_of(opt->precision),
                                  .n_lanes = 1,
                                  .n_slots = CUDA_SLOTS};
    cuda->lane.be = &cuda->base;
    cuda->ranges = range_domain_create();
    enum status s = open_device(cuda, err);
    s = s ? s : make_streams(cuda, err);
    s = s ? s : blas_open(cuda, err);
    s = s ? s : cuda_upload_finish(cuda, err);
    if (s) {
        destroy(&cuda->base);
        return s;
    }
    *out = &cuda->base;
    return STATUS_OK;
}

__attribute__((visibility("default"))) const struct accelerator berth_accelerator = {
    .abi = KERNELS_ABI,
    .struct_size = sizeof(struct accelerator),
    .table_size = sizeof(struct backend_fn),
    .options_size = sizeof(struct accelerator_options),
    .name = CUDA_BACKEND_NAME,
    .count = count_devices,
    .create = create,
    .bus_id = bus_id,
};
