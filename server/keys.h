/* keys.h - API keys: who may ask, with what share and at what rate.
 * File (JSON with comments): {"keys": [{"name": "web", "key": "...", "weight": 2,
 * "requests_per_second": 100, "burst": 20, "priority": "high"}, {"name": "ops", "key": "...",
 * "admin": true}]}. Keys are kept as SHA-256 digests in memory, compared in constant time, and
 * never logged; names are what logs and metrics say. A file that others may read is refused.
 * Threads: open, count and take_places where nobody else has the object; the rest from any. */
#ifndef BERTH_SERVER_KEYS_H
#define BERTH_SERVER_KEYS_H
#include "base/status.h"
#include "batching/policy.h"
#include <stdbool.h>

enum { KEY_NAME_BYTES = 33, KEY_MAX_SECRET_BYTES = 512, KEY_SHORT_SECRET_BYTES = 16 };
struct keys;
struct key {
    char name[KEY_NAME_BYTES]; // "": nobody has this index
    int index;                 // in policy_config.key_weights, at most POLICY_MAX_KEYS - 1
    int weight;
    enum priority priority;            // unless the request says lower
    double requests_per_second, burst; // 0: no limit
    bool is_admin;
    bool is_short; // of less than KEY_SHORT_SECRET_BYTES: worth a warning
};
/* Errors: STATUS_IO; STATUS_INVALID with the line and the fix, and never a part of a key. */
MUST_CHECK enum status keys_open(struct keys **out, const char *path, struct error *err);
/* The same from memory; `name` stands for the file in errors. */
MUST_CHECK enum status keys_read(struct keys **out, const char *bytes, size_t len, const char *name,
                                 struct error *err);
void keys_close(struct keys *k); // takes NULL
/* One more than the highest index that ever was in use; `out` of keys_at() gets name "" in gaps. */
int keys_count(struct keys *k);
void keys_at(struct keys *k, int i, struct key *out);
/* The key whose secret this is; false: none. Takes the same time whichever it is. */
bool keys_find(struct keys *k, const char *secret, size_t len, struct key *out);
/* One request's worth of the key's rate. 0: taken; else ns until there will be one. */
int64_t keys_take(struct keys *k, int index, int64_t now_ns);

/* A file read anew takes the old one's place in two steps, so that what may fail comes between:
 * first `next` gets the indexes that its names have in `k` (queued jobs know their key by it), then
 * k holds what next holds, with what was used of each rate kept; next is closed. */
void keys_take_places(struct keys *next, struct keys *k);
void keys_replace(struct keys *k, struct keys *next);
#endif
