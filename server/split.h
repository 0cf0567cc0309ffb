/* split.h - how the cores are shared out: workers (batches at the same time) times threads (of
 * each). What the settings leave open (0) is filled in; when they leave both open, the candidates
 * are measured (if the plan says so), or taken from the tuning cache. compute.deterministic
 * measures nothing: one worker. Results are the same bits whatever is chosen. Threads: the main
 * thread, before any worker. */
#ifndef BERTH_SERVER_SPLIT_H
#define BERTH_SERVER_SPLIT_H
#include "server/device.h"
#include "server/tuning.h"

enum { SPLIT_MAX_CANDIDATES = 8, SPLIT_MAX_WORKERS = 16, SPLIT_MAX_THREADS = 16 };
/* All ways to give n_cores cores to equal workers, fewest workers first, within the maxima; at
 * least one. Returns their number. */
int split_candidates(struct split out[SPLIT_MAX_CANDIDATES], int n_cores);
/* Errors: those of opening and running a device. */
MUST_CHECK enum status split_choose(struct split *out, const struct device_plan *plan,
                                    struct tuning *tuning, struct error *err);
#endif
