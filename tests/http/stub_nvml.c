/* stub_nvml.c - stands for libnvidia-ml.so.1, found by LD_LIBRARY_PATH: two GPUs, of which the
 * second tells little, as a part of one in a container does. BERTH_STUB_NVML: "no_init" refuses to
 * start, "no_gpu" knows none, "hang" never comes back from the second sample on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };
struct gpu {
    const char *bus_id;
    int is_whole;
};
static struct gpu gpus[] = {{"0000:10:00.0", 1}, {"0000:11:00.0", 0}};
static int n_asked;

static int is_told(const char *word) {
    const char *all = getenv("BERTH_STUB_NVML");
    return all && strstr(all, word) != NULL;
}
int nvmlInit_v2(void);
int nvmlInit_v2(void) {
    return is_told("no_init") ? DRIVER_NOT_LOADED : SUCCESS;
}
int nvmlShutdown(void);
int nvmlShutdown(void) {
    return SUCCESS;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct gpu **out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct gpu **out) {
    if (is_told("hang") && n_asked++ > 0) {
        pause();
    }
    for (int i = 0; i < 2 && !is_told("no_gpu"); i++) {
        if (!strcmp(bus_id, gpus[i].bus_id)) {
            *out = &gpus[i];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetUtilizationRates(struct gpu *g, unsigned out[2]);
int nvmlDeviceGetUtilizationRates(struct gpu *g, unsigned out[2]) {
    out[0] = 87, out[1] = 41;
    return g->is_whole ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetMemoryInfo(struct gpu *g, unsigned long long out[3]);
int nvmlDeviceGetMemoryInfo(struct gpu *g, unsigned long long out[3]) {
    out[0] = 150000000000, out[1] = 149000000000, out[2] = g->is_whole ? 1000000000 : 5;
    return SUCCESS;
}
int nvmlDeviceGetPcieThroughput(struct gpu *g, int direction, unsigned *out);
int nvmlDeviceGetPcieThroughput(struct gpu *g, int direction, unsigned *out) {
    *out = direction ? 2500 : 1200;
    return g->is_whole ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetCurrPcieLinkGeneration(struct gpu *g, unsigned *out);
int nvmlDeviceGetCurrPcieLinkGeneration(struct gpu *g, unsigned *out) {
    *out = g->is_whole ? 5 : 99;
    return SUCCESS;
}
int nvmlDeviceGetCurrPcieLinkWidth(struct gpu *g, unsigned *out);
int nvmlDeviceGetCurrPcieLinkWidth(struct gpu *g, unsigned *out) {
    *out = 16;
    return SUCCESS;
}
int nvmlDeviceGetClockInfo(struct gpu *g, int which, unsigned *out);
int nvmlDeviceGetClockInfo(struct gpu *g, int which, unsigned *out) {
    *out = which == 1 ? 1980 : 3201;
    return g->is_whole ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu *g, unsigned long long *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu *g, unsigned long long *out) {
    *out = 0x4 | 0x20; // power cap, thermal
    return g->is_whole ? SUCCESS : NOT_SUPPORTED;
}
