/* routes_internal.h - the handlers, for the table in routes.c alone. */
#ifndef BERTH_SERVER_ROUTES_INTERNAL_H
#define BERTH_SERVER_ROUTES_INTERNAL_H
#include "server/json.h"
#include "server/routes.h"

route_fn predict_start, predict_finish, tokenize_start;       // routes_tei.c
route_fn health_start, live_start, info_start, metrics_start; // routes_ops.c
route_fn debug_lengths_start;                                 // routes_debug_lengths.c
route_fn buckets_start, buckets_put_start, queues_start;      // routes_debug.c
route_fn cost_start;                                          // routes_debug_cost.c
/* 200 with what was written; 500 when it did not fit. */
void reply_buffer(struct request *r, const struct json_writer *w);
#endif
