/* routes.c - the table of what is served, and how a request's line finds its row.
 * A dozen rows: a linear search is the fastest there is, and the table reads like the manual. */
#include "server/routes.h"

#include "server/routes_internal.h"

#include <string.h>

static const struct route routes[] = {
    {"POST", "/predict", true, ROUTE_PREDICT, predict_start, predict_finish},
    {"POST", "/", true, ROUTE_PREDICT, predict_start, predict_finish},
    {"POST", "/invocations", true, ROUTE_PREDICT, predict_start, predict_finish},
    {"POST", "/tokenize", true, ROUTE_TOKENIZE, tokenize_start, NULL},
    {"GET", "/info", true, ROUTE_INFO, info_start, NULL},
    {"GET", "/health", false, ROUTE_HEALTH, health_start, NULL},
    {"GET", "/health/live", false, ROUTE_HEALTH, live_start, NULL},
    {"GET", "/ping", false, ROUTE_HEALTH, health_start, NULL},
    {"GET", "/", false, ROUTE_HEALTH, health_start, NULL},
    {"GET", "/metrics", false, ROUTE_METRICS, metrics_start, NULL},
    {"GET", "/debug/lengths", true, ROUTE_DEBUG, debug_lengths_start, NULL},
    {"GET", "/debug/buckets", true, ROUTE_DEBUG, buckets_start, NULL},
    {"PUT", "/debug/buckets", true, ROUTE_DEBUG, buckets_put_start, NULL},
    {"GET", "/debug/cost", true, ROUTE_DEBUG, cost_start, NULL},
    {"GET", "/debug/queues", true, ROUTE_DEBUG, queues_start, NULL},
};

static bool is_path(const struct route *route, const char *path, size_t len) {
    return strlen(route->path) == len && memcmp(route->path, path, len) == 0;
}

const struct route *route_find(const char *method, const char *path, const char **allowed) {
    static const char *const lists[] = {
        NULL,  "GET, HEAD",      "POST",      "GET, HEAD, POST",
        "PUT", "GET, HEAD, PUT", "POST, PUT", "GET, HEAD, POST, PUT"};
    const size_t len = strcspn(path, "?");
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    unsigned methods = 0; // bit 0: GET, bit 1: POST, bit 2: PUT
    for (size_t i = 0; i < N_ITEMS(routes); i++) {
        if (!is_path(&routes[i], path, len)) {
            continue;
        }
        if (strcmp(routes[i].method, wanted) == 0) {
            return &routes[i];
        }
        methods |= *routes[i].method == 'G' ? 1 : routes[i].method[1] == 'O' ? 2 : 4;
    }
    *allowed = lists[methods];
    return NULL;
}
