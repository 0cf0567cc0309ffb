/* keys.h - API keys: who may ask, with what share and at what rate.
 * File (JSON with comments): {"keys": [{"name": "web", "key": "...", "weight": 2,
 * "requests_per_second": 100, "burst": 20, "priority": "high"}, {"name": "ops", "key": "...",
 * "admin": true}]}. Keys are kept as SHA-256 digests in memory, compared in constant time, and
 * never logged; names are what logs and metrics say. A file that others may read is refused.
 * Threads: keys_find() and keys_take() from any thread. */
#ifndef BERTH_SERVER_KEYS_H
#define BERTH_SERVER_KEYS_H
#include "base/status.h"
#include "batching/job.h"
#include <stdbool.h>

struct keys;
struct key {
    const char *name;
    int index; // in policy_config.key_weights
    int weight;
    enum priority priority;            // unless the request says lower
    double requests_per_second, burst; // 0: no limit
    bool is_admin;
};
MUST_CHECK enum status keys_open(struct keys **out, const char *path, struct error *err);
void keys_close(struct keys *k); // takes NULL
int keys_count(const struct keys *k);
const struct key *keys_at(const struct keys *k, int i);
/* The key whose secret this is; NULL: none. Takes the same time whichever it is. */
const struct key *keys_find(const struct keys *k, const char *secret, size_t len);
/* One request's worth of the key's rate. 0: taken; else ns until there will be one. */
int64_t keys_take(struct keys *k, int index, int64_t now_ns);
#endif
