/* gpu_watch.h - a thread that asks the driver now and then how the GPUs fare, for /metrics: no
 * request ever waits for a driver.
 * Threads: start and stop from the main thread, read from any. */
#ifndef BERTH_SERVER_GPU_WATCH_H
#define BERTH_SERVER_GPU_WATCH_H
#include "server/accelerator.h"
#include "server/nvml.h"

enum { GPU_WATCH_MAX = 32, GPU_BUS_ID_BYTES = 32 };
struct gpu_watch; // opaque
/* Never fails: without GPUs, NVML or a thread there is none, *out is NULL, and the log's debug
 * lines say why. interval_ms 0: none is wanted. */
void gpu_watch_start(struct gpu_watch **out, const struct device_choice *choice, int interval_ms);
void gpu_watch_stop(struct gpu_watch *w); // takes NULL; waits a second at most
struct gpu_reading {
    int device; // N of cuda:N
    struct gpu_sample sample;
};
/* The latest of each GPU; how many there are. None before the first. */
int gpu_watch_read(struct gpu_watch *w, struct gpu_reading out[GPU_WATCH_MAX]);
#endif
