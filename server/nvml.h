/* nvml.h - what NVIDIA's driver tells of a GPU, through libnvidia-ml.so.1, which the driver brings
 * along; nothing of it is needed to build or to run.
 * Threads: one at a time; calls may take some 50 ms a GPU, and for ever where a driver hangs. */
#ifndef BERTH_SERVER_NVML_H
#define BERTH_SERVER_NVML_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum gpu_figure {
    GPU_SM_BUSY,       // percent of the latest sample period in which a kernel ran
    GPU_MEMORY_BUSY,   // and in which memory was read or written
    GPU_MEMORY_USED,   // bytes, of all processes
    GPU_MEMORY_TOTAL,  // bytes
    GPU_PCIE_SENT,     // bytes a second, by the GPU, over 20 ms
    GPU_PCIE_RECEIVED, // the same
    GPU_PCIE_CAPACITY, // bytes a second each way, of the link as it is now
    GPU_CLOCK_SM,      // Hz
    GPU_CLOCK_MEMORY,  // Hz
    GPU_THROTTLED,     // bits: enum gpu_throttle
    N_GPU_FIGURES
};
/* Why clocks are lower than they could be: bits of GPU_THROTTLED. */
enum gpu_throttle {
    THROTTLE_IDLE = 1 << 0,
    THROTTLE_SETTING = 1 << 1,
    THROTTLE_POWER_CAP = 1 << 2,
    THROTTLE_HARDWARE = 1 << 3,
    THROTTLE_SYNC_BOOST = 1 << 4,
    THROTTLE_THERMAL = 1 << 5,
    THROTTLE_HARDWARE_THERMAL = 1 << 6,
    THROTTLE_POWER_BRAKE = 1 << 7,
    THROTTLE_DISPLAY = 1 << 8
};
struct gpu_sample {
    bool is_known[N_GPU_FIGURES]; // false: this GPU, driver or container does not tell
    uint64_t value[N_GPU_FIGURES];
};

struct nvml; // opaque
/* Errors: STATUS_UNAVAILABLE with what the loader or the library said. */
MUST_CHECK enum status nvml_open(struct nvml **out, struct error *err);
void nvml_close(struct nvml *n); // takes NULL
/* Of the GPU at this PCI address ("0000:3B:00.0"); all unknown where there is none. */
void nvml_sample(const struct nvml *n, const char *bus_id, struct gpu_sample *out);
#endif
