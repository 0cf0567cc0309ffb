/* routes.h - what is served where. One file a dialect: routes_tei.c, routes_ops.c (health, metrics,
 * info), routes_debug.c. A route's start() runs on the connection's thread once the body is whole.
 * It either fills r->reply, or makes r->jobs; http.c then submits them, suspends the connection,
 * and calls finish() when the last job is done (or never, when the request was ended early: then
 * http.c asks reply_error()). */
#ifndef BERTH_SERVER_ROUTES_H
#define BERTH_SERVER_ROUTES_H
#include "server/config.h"
#include "server/engine.h"
#include "server/recorder.h"
#include "server/request.h"

struct live;
/* What routes may look at. `engine` is NULL until the model is loaded: only health and metrics
 * answer. */
struct server_context {
    const struct config *cfg; // as at start; what may change since is live.h's
    struct keys *keys;        // NULL: none are configured
    struct live *live;        // NULL: nothing can be changed
    _Atomic(struct engine *) engine;
    struct metrics *metrics;
    struct gpu_watch *gpus;    // NULL: none are watched; set before `engine` is
    struct recorder *recorder; // NULL: lengths are not recorded
    atomic_bool draining;
};
typedef void route_fn(struct server_context *ctx, struct request *r);
struct route {
    const char *method, *path;
    bool needs_engine; // 503 before http.c has it
    enum metric_route metric;
    route_fn *start;
    route_fn *finish; // NULL where start() always answers
};
/* NULL: unknown path. *allowed gets "GET, POST" when the path exists with other methods only. HEAD
 * finds the GET route. A query string is not part of the path. */
const struct route *route_find(const char *method, const char *path, const char **allowed);
#endif
