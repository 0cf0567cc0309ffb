/* metrics_internal.h - the parts of the exposition that are not metrics.c's own. */
#ifndef BERTH_SERVER_METRICS_INTERNAL_H
#define BERTH_SERVER_METRICS_INTERNAL_H
#include "server/exposition.h"
#include "server/metrics.h"

struct metric_row { // a family of one sample
    const char *name, *type, *help;
    uint64_t value;
};
uint64_t metric_value(const counter *c);
void expose_rows(struct json_writer *w, const struct metric_row *rows, size_t n);
void expose_durations(struct json_writer *w, const char *name, struct label label,
                      const struct histogram *h);
/* Buckets, queues, who was turned away and why, keys. */
void expose_scheduling(struct json_writer *w, const struct metrics *m,
                       const struct metrics_view *view);
/* Of the batcher's cost model. */
void expose_cost(struct json_writer *w, const struct cost_model *m);
/* What the driver tells of the GPUs; NULL: nothing is watched. */
void expose_gpus(struct json_writer *w, struct gpu_watch *watch);
/* The standard process_* families, from /proc; what cannot be read is left out. */
void expose_process(struct json_writer *w);
#endif
