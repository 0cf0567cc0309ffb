/* sweep.h - the cost model at start: a device is timed over some shapes, for half a second at most
 * (beyond one pass), or what was measured before is taken from the tuning cache.
 * Threads: the main thread, before the device's worker starts; it may be left pinned. */
#ifndef BERTH_SERVER_SWEEP_H
#define BERTH_SERVER_SWEEP_H
#include "server/device.h"
#include "server/tuning.h"

/* The key of `what` in the cache: with CPU, backend, precision, mode, split, model shape, version.
 */
void sweep_key(char out[TUNING_MAX_KEY + 1], const char *what, const struct device_plan *plan,
               struct split split);
/* Why passes of this model cannot cost that; NULL: they can. A squared token's share of the
 * arithmetic beside a row's is known from the model's shape, and no machine is off it by more than
 * a factor. longest: tokens. */
const char *sweep_fault(const double coef[COST_TERMS], const struct model_config *model,
                        int longest);
/* The fit for samples that give no plausible one: c is to b as the arithmetic has it. */
void sweep_fit_tied(struct cost_model *out, const struct cost_sample *samples, int n,
                    const struct model_config *model);
enum cost_source { COST_NOTHING, COST_CACHE, COST_SWEEP, N_COST_SOURCES };
extern const char *const cost_source_names[N_COST_SOURCES]; // "nothing", "cache", "sweep"
/* COST_SWEEP: the device was run, and so is warm. COST_NOTHING: not in the cache, and the plan says
 * not to measure. */
MUST_CHECK enum status sweep_cost(struct cost_model *out, enum cost_source *from,
                                  const struct device *d, const struct device_plan *plan,
                                  struct split split, struct tuning *tuning, struct error *err);
#endif
