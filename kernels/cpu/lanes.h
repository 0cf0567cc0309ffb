/* lanes.h - the threads of a CPU backend. Lane 0 is whoever calls lanes_run().
 * Threads: one caller at a time. Between runs the others spin for some tens of microseconds, then
 *          sleep: HTTP threads share these cores. */
#ifndef BERTH_KERNELS_CPU_LANES_H
#define BERTH_KERNELS_CPU_LANES_H
#include "base/status.h"

struct lanes;
typedef void lane_fn(void *arg, int index);
/* Of the cores that the calling thread may use, lane i is pinned to number first_core + i; -1: not
 * pinned. The caller of lanes_run() is pinned by its first call. Errors: STATUS_INVALID when there
 * are not as many cores, STATUS_IO when a thread cannot be made. */
MUST_CHECK enum status lanes_create(struct lanes **out, int n_lanes, int first_core,
                                    struct error *err);
void lanes_destroy(struct lanes *l); // takes NULL
/* fn(arg, i) on every lane i; returns when all have reached lanes_barrier() for the last time, so
 * fn ends with it. */
void lanes_run(struct lanes *l, lane_fn *fn, void *arg);
/* Inside a run. What any lane wrote before it can be read by every lane after it. */
void lanes_barrier(struct lanes *l);
#endif
