/* metrics_internal.h - the part of the exposition that is about the process, for metrics.c alone.
 */
#ifndef BERTH_SERVER_METRICS_INTERNAL_H
#define BERTH_SERVER_METRICS_INTERNAL_H
#include "server/json.h"

/* The standard process_* families, from /proc; what cannot be read is left out. */
void expose_process(struct json_writer *w);
#endif
