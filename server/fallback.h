/* fallback.h - the CPU in the place of GPUs that were lost (compute.on_device_loss: cpu).
 * As long as another worker still has its device, one that has lost it just ends: batches are made
 * for GPUs, and a CPU that took some would keep their jobs waiting. The last one goes on, on all
 * cores, with weights that are loaded then.
 * Threads: take from any worker's thread; the rest from the main thread. */
#ifndef BERTH_SERVER_FALLBACK_H
#define BERTH_SERVER_FALLBACK_H
#include "server/device.h"

struct fallback; // opaque
/* `plan`: of the devices, copied; what it points to is borrowed. */
struct fallback *fallback_create(const struct device_plan *plan, int n_workers);
/* For a worker whose device is lost. *out stays zeroed when others still have theirs. Takes as long
 * as loading the model. Errors: those of opening a model's weights and a device on the CPU. */
MUST_CHECK enum status fallback_take(struct fallback *f, struct device *out, struct error *err);
void fallback_destroy(struct fallback *f); // after the device that was taken; takes NULL

enum { FALLBACK_ROWS = 256 }; // of a batch, at most: what is right for few cores
#endif
