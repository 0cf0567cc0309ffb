/* routes_internal.h - the handlers, for the table in routes.c alone. */
#ifndef BERTH_SERVER_ROUTES_INTERNAL_H
#define BERTH_SERVER_ROUTES_INTERNAL_H
#include "server/routes.h"

route_fn predict_start, predict_finish, tokenize_start;       // routes_tei.c
route_fn health_start, live_start, info_start, metrics_start; // routes_ops.c
route_fn debug_lengths_start;                                 // routes_debug_lengths.c
#endif
