/* live.h - what may change while the server runs: batching, API keys, the log's level.
 * One configuration is in force at a time, whole: a change that cannot be applied changes nothing.
 * Threads: reload from the main thread, set_batching from any; one lock, never taken by a request
 * that only asks for an answer. */
#ifndef BERTH_SERVER_LIVE_H
#define BERTH_SERVER_LIVE_H
#include "server/options.h"
#include "server/routes.h"

struct live; // opaque
/* Borrows both; ctx->keys are as they were opened from opt's configuration. */
struct live *live_create(const struct options *opt, struct server_context *ctx);
void live_destroy(struct live *l); // takes NULL
/* Before the first request reaches it: tells the engine's batcher of the keys, the metrics of the
 * buckets. */
MUST_CHECK enum status live_begin(struct live *l, struct engine *engine, struct error *err);
/* Reads the command line, its --config file and the keys again (SIGHUP). Settings that cannot
 * change are named in the log. On failure, which is logged too, everything stays as it was. */
MUST_CHECK enum status live_reload(struct live *l, struct error *err);
/* `json` is like the configuration's "batching" object; what it leaves out stays. STATUS_INVALID
 * with the line and the fix: nothing has changed. */
MUST_CHECK enum status live_set_batching(struct live *l, const char *json, size_t len,
                                         struct error *err);
#endif
