/* nvml.c - the library by hand: its header is part of no toolkit that a build can count on, so what
 * is called is declared here, as the API reference of NVML has it. A call that the library lacks,
 * or that a GPU does not support (NVML says so for parts of a MIG device, or in containers),
 * leaves its figure unknown; no figure is a condition for another. */
#include "server/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
typedef struct nvml_device *device;
struct utilization {
    unsigned gpu, memory; // percent
};
struct memory {
    unsigned long long total, free, used; // bytes
};
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus_id, device *out);
    int (*utilization)(device d, struct utilization *out);
    int (*memory)(device d, struct memory *out);
    int (*pcie)(device d, int direction, unsigned *kilobytes_per_s);
    int (*pcie_generation)(device d, unsigned *out);
    int (*pcie_width)(device d, unsigned *lanes);
    int (*clock)(device d, int which, unsigned *mhz);
    int (*throttle)(device d, unsigned long long *reasons);
};

static void find_functions(struct nvml *n) {
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"nvmlInit_v2", &n->init},
                  {"nvmlShutdown", &n->shutdown},
                  {"nvmlDeviceGetHandleByPciBusId_v2", &n->find},
                  {"nvmlDeviceGetUtilizationRates", &n->utilization},
                  {"nvmlDeviceGetMemoryInfo", &n->memory},
                  {"nvmlDeviceGetPcieThroughput", &n->pcie},
                  {"nvmlDeviceGetCurrPcieLinkGeneration", &n->pcie_generation},
                  {"nvmlDeviceGetCurrPcieLinkWidth", &n->pcie_width},
                  {"nvmlDeviceGetClockInfo", &n->clock},
                  {"nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle}};
    for (size_t i = 0; i < N_ITEMS(wanted); i++) {
        *(void **)wanted[i].place = dlsym(n->library, wanted[i].name); // NULL: an older driver
    }
}
enum status nvml_open(struct nvml **out, struct error *err) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return error_set(err, STATUS_UNAVAILABLE, "%s", dlerror());
    }
    struct nvml *n = xcalloc(1, sizeof(*n));
    n->library = library;
    find_functions(n);
    const int code = n->init && n->find ? n->init() : -1;
    if (code != NVML_SUCCESS) {
        n->shutdown = NULL; // nothing was begun
        nvml_close(n);
        return error_set(err, STATUS_UNAVAILABLE, "NVML's start failed: %d", code);
    }
    *out = n;
    return STATUS_OK;
}
void nvml_close(struct nvml *n) {
    if (!n) {
        return;
    }
    if (n->shutdown) {
        (void)n->shutdown();
    }
    dlclose(n->library);
    free(n);
}

static void put(struct gpu_sample *s, enum gpu_figure figure, uint64_t value) {
    s->value[figure] = value;
    s->is_known[figure] = true;
}
static void sample_use(const struct nvml *n, device d, struct gpu_sample *out) {
    struct utilization u;
    struct memory m;
    unsigned long long reasons = 0;
    if (n->utilization && n->utilization(d, &u) == NVML_SUCCESS) {
        put(out, GPU_SM_BUSY, u.gpu);
        put(out, GPU_MEMORY_BUSY, u.memory);
    }
    if (n->memory && n->memory(d, &m) == NVML_SUCCESS) {
        put(out, GPU_MEMORY_USED, m.used);
        put(out, GPU_MEMORY_TOTAL, m.total);
    }
    if (n->throttle && n->throttle(d, &reasons) == NVML_SUCCESS) {
        put(out, GPU_THROTTLED, reasons);
    }
}
static void sample_clocks(const struct nvml *n, device d, struct gpu_sample *out) {
    static const struct {
        enum gpu_figure figure;
        int which;
    } clocks[] = {{GPU_CLOCK_SM, NVML_CLOCK_SM}, {GPU_CLOCK_MEMORY, NVML_CLOCK_MEMORY}};
    for (size_t i = 0; n->clock && i < N_ITEMS(clocks); i++) {
        unsigned mhz = 0;
        if (n->clock(d, clocks[i].which, &mhz) == NVML_SUCCESS) {
            put(out, clocks[i].figure, (uint64_t)mhz * 1000000);
        }
    }
}
/* Bytes a second of one lane, by generation, its encoding taken off: PCI Express base
 * specification; from 6 on without the flits' own overhead. */
static uint64_t lane_bytes(unsigned generation) {
    static const uint64_t by_generation[] = {0,          250000000,  500000000, 984615385,
                                             1969230769, 3938461538, 7563000000};
    return generation < N_ITEMS(by_generation) ? by_generation[generation] : 0;
}
static void sample_pcie(const struct nvml *n, device d, struct gpu_sample *out) {
    unsigned sent = 0, received = 0, generation = 0, lanes = 0;
    if (n->pcie && n->pcie(d, NVML_PCIE_SENT, &sent) == NVML_SUCCESS) {
        put(out, GPU_PCIE_SENT, (uint64_t)sent * 1000);
    }
    if (n->pcie && n->pcie(d, NVML_PCIE_RECEIVED, &received) == NVML_SUCCESS) {
        put(out, GPU_PCIE_RECEIVED, (uint64_t)received * 1000);
    }
    if (n->pcie_generation && n->pcie_width && n->pcie_generation(d, &generation) == NVML_SUCCESS &&
        n->pcie_width(d, &lanes) == NVML_SUCCESS && lane_bytes(generation)) {
        put(out, GPU_PCIE_CAPACITY, lanes * lane_bytes(generation));
    }
}
void nvml_sample(const struct nvml *n, const char *bus_id, struct gpu_sample *out) {
    device d = NULL;
    memset(out, 0, sizeof(*out));
    if (n->find(bus_id, &d) == NVML_SUCCESS) {
        sample_use(n, d, out);
        sample_clocks(n, d, out);
        sample_pcie(n, d, out);
    }
}
