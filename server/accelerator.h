/* accelerator.h - which device the settings mean: the CPU, or devices of a plugin.
 * Threads: any; what was chosen is plain data. */
#ifndef BERTH_SERVER_ACCELERATOR_H
#define BERTH_SERVER_ACCELERATOR_H
#include "kernels/plugin.h"
#include "server/config.h"

struct device_choice {
    const struct accelerator *accelerator; // NULL: the CPU, or the reference
    int first, n;                          // its devices [first, first + n); 0 of the CPU
    const struct choice_notes *notes;      // of what was timed before; NULL: none are kept
};
/* False of the simulated one, which is slower than a CPU. */
bool device_is_gpu(const struct device_choice *choice);
/* By compute.device. auto: every GPU there is, else the CPU, and the log tells why. Errors:
 * STATUS_UNAVAILABLE where a GPU was asked for by name and there is none, with the reason. */
MUST_CHECK enum status device_choose(struct device_choice *out, const struct config *cfg,
                                     struct error *err);
/* A backend on the choice's device `index`, counted from 0; the accelerator is not NULL. */
MUST_CHECK enum status accelerator_create(struct backend **out, const struct config *cfg,
                                          const struct device_choice *choice, int index,
                                          struct error *err);
#endif
