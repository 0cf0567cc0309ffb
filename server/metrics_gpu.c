/* metrics_gpu.c - what the driver says of the GPUs, as Prometheus text: a family for each figure,
 * a sample for each GPU that tells it. A family that no GPU has is left out. */
#include "server/gpu_watch.h"
#include "server/metrics_internal.h"

#include <stdio.h>
#include <string.h>

struct family {
    const char *name, *help;
    enum gpu_figure figure;
    const char *label, *value; // beside the GPU's; NULL: none
    uint64_t factor;
    enum unit unit;
};
static const struct family families[] = {
    {"berth_gpu_sm_utilization_ratio", "Part of the time in which a kernel ran on the GPU.",
     GPU_SM_BUSY, NULL, NULL, 10000, UNIT_MILLIONTHS},
    {"berth_gpu_memory_utilization_ratio",
     "Part of the time in which the GPU's memory was read or written.", GPU_MEMORY_BUSY, NULL, NULL,
     10000, UNIT_MILLIONTHS},
    {"berth_gpu_memory_used_bytes", "Memory of the GPU that is taken, by all processes.",
     GPU_MEMORY_USED, NULL, NULL, 1, UNIT_NONE},
    {"berth_gpu_memory_total_bytes", "Memory that the GPU has.", GPU_MEMORY_TOTAL, NULL, NULL, 1,
     UNIT_NONE},
    {"berth_gpu_pcie_bytes_per_second", "What goes over the GPU's PCIe link, by direction.",
     GPU_PCIE_SENT, "direction", "sent", 1, UNIT_NONE},
    {"berth_gpu_pcie_bytes_per_second", "What goes over the GPU's PCIe link, by direction.",
     GPU_PCIE_RECEIVED, "direction", "received", 1, UNIT_NONE},
    {"berth_gpu_pcie_capacity_bytes_per_second", "What the link could carry each way.",
     GPU_PCIE_CAPACITY, NULL, NULL, 1, UNIT_NONE},
    {"berth_gpu_clock_hertz", "The GPU's clocks as they are now.", GPU_CLOCK_SM, "clock", "sm", 1,
     UNIT_NONE},
    {"berth_gpu_clock_hertz", "The GPU's clocks as they are now.", GPU_CLOCK_MEMORY, "clock",
     "memory", 1, UNIT_NONE},
};
static const struct {
    const char *reason;
    enum gpu_throttle bit;
} throttles[] = {{"idle", THROTTLE_IDLE},
                 {"setting", THROTTLE_SETTING},
                 {"power_cap", THROTTLE_POWER_CAP},
                 {"hardware", THROTTLE_HARDWARE},
                 {"sync_boost", THROTTLE_SYNC_BOOST},
                 {"thermal", THROTTLE_THERMAL},
                 {"hardware_thermal", THROTTLE_HARDWARE_THERMAL},
                 {"power_brake", THROTTLE_POWER_BRAKE},
                 {"display", THROTTLE_DISPLAY}};

struct readings {
    struct gpu_reading of[GPU_WATCH_MAX];
    int n;
};
static bool is_told(const struct readings *r, enum gpu_figure figure) {
    bool is_known = false;
    for (int i = 0; i < r->n; i++) {
        is_known = is_known || r->of[i].sample.is_known[figure];
    }
    return is_known;
}
static void expose_one(struct json_writer *w, const char *name, int device, const char *label,
                       const char *value, uint64_t n, enum unit unit) {
    char gpu[16];
    snprintf(gpu, sizeof(gpu), "%d", device);
    expose_sample(w, name, LABELS("gpu", gpu, label, value), n, unit);
}
/* *open: the family that was begun last. */
static void expose_figure(struct json_writer *w, const struct family *f, const struct readings *r,
                          const char **open) {
    if (is_told(r, f->figure) && strcmp(*open, f->name) != 0) {
        expose_family(w, f->name, "gauge", f->help);
        *open = f->name;
    }
    for (int i = 0; i < r->n; i++) {
        if (r->of[i].sample.is_known[f->figure]) {
            expose_one(w, f->name, r->of[i].device, f->label, f->value,
                       r->of[i].sample.value[f->figure] * f->factor, f->unit);
        }
    }
}
static void expose_throttles(struct json_writer *w, const struct readings *r) {
    static const char name[] = "berth_gpu_throttled";
    if (!is_told(r, GPU_THROTTLED)) {
        return;
    }
    expose_family(w, name, "gauge", "1: the GPU's clocks are held down, by reason.");
    for (int i = 0; i < r->n; i++) {
        const struct gpu_sample *s = &r->of[i].sample;
        for (size_t k = 0; s->is_known[GPU_THROTTLED] && k < N_ITEMS(throttles); k++) {
            const bool is_set = s->value[GPU_THROTTLED] & (uint64_t)throttles[k].bit;
            expose_one(w, name, r->of[i].device, "reason", throttles[k].reason, is_set, UNIT_NONE);
        }
    }
}
void expose_gpus(struct json_writer *w, struct gpu_watch *watch) {
    struct readings r;
    const char *open = "";
    r.n = watch ? gpu_watch_read(watch, r.of) : 0;
    for (size_t i = 0; i < N_ITEMS(families); i++) {
        expose_figure(w, &families[i], &r, &open);
    }
    expose_throttles(w, &r);
}
