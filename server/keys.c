/* keys.c - which key a secret is, and what is left of its rate.
 * A secret is hashed first and its digest compared with every key's, without stopping at a match:
 * so neither the place in the list nor the number of bytes that agree can be read from the time.
 * SHA-256 and the comparison are GnuTLS's: libmicrohttpd has it in the process already, and both
 * are one call without state of their own. The rate is a token bucket, filled up when it is asked.
 * One lock, held for microseconds: a reload swaps everything behind it. */
#include "server/keys.h"

#include <assert.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "server/keys_internal.h"

struct keys *keys_create(void) {
    struct keys *k = xcalloc(1, sizeof(*k));
    pthread_mutex_init(&k->lock, NULL);
    return k;
}
void keys_close(struct keys *k) {
    if (k) {
        pthread_mutex_destroy(&k->lock);
        explicit_bzero(k, sizeof(*k));
        free(k);
    }
}
void keys_digest(uint8_t out[KEY_DIGEST_BYTES], const char *secret, size_t len) {
    const int e = gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, len, out);
    assert(e == 0);
    (void)e;
}

int keys_count(struct keys *k) {
    pthread_mutex_lock(&k->lock);
    const int n = k->n_entries;
    pthread_mutex_unlock(&k->lock);
    return n;
}
void keys_at(struct keys *k, int i, struct key *out) {
    assert(i >= 0 && i < POLICY_MAX_KEYS);
    pthread_mutex_lock(&k->lock);
    *out = k->entries[i].key;
    pthread_mutex_unlock(&k->lock);
}
/* All of them are looked at, also those that are not in use. */
static int find(const struct keys *k, const uint8_t *digest) {
    int found = -1;
    for (int i = 0; i < k->n_entries; i++) {
        const struct key_entry *e = &k->entries[i];
        const bool same = gnutls_memcmp(e->digest, digest, KEY_DIGEST_BYTES) == 0;
        found = same && e->is_in_use ? i : found;
    }
    return found;
}
bool keys_find(struct keys *k, const char *secret, size_t len, struct key *out) {
    uint8_t digest[KEY_DIGEST_BYTES];
    keys_digest(digest, secret, len);
    pthread_mutex_lock(&k->lock);
    const int i = find(k, digest);
    if (i >= 0) {
        *out = k->entries[i].key;
    }
    pthread_mutex_unlock(&k->lock);
    explicit_bzero(digest, sizeof(digest));
    return i >= 0;
}

/* Fills the bucket up to now; ns until it holds one. */
static int64_t take(struct key_entry *e, int64_t now_ns) {
    const double rate = e->key.requests_per_second, burst = e->key.burst;
    if (!(rate > 0)) {
        return 0;
    }
    const double elapsed_s = (double)(now_ns - e->since_ns) / (double)NS_PER_S;
    e->tokens = e->since_ns ? fmin(burst, e->tokens + fmax(0, elapsed_s) * rate) : burst;
    e->since_ns = now_ns;
    if (e->tokens >= 1) {
        e->tokens -= 1;
        return 0;
    }
    return (int64_t)ceil((1 - e->tokens) / rate * (double)NS_PER_S);
}
int64_t keys_take(struct keys *k, int index, int64_t now_ns) {
    assert(index >= 0 && index < POLICY_MAX_KEYS);
    pthread_mutex_lock(&k->lock);
    const int64_t wait_ns = take(&k->entries[index], now_ns);
    pthread_mutex_unlock(&k->lock);
    return wait_ns;
}

static int index_of(const struct key_entry *entries, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        if (!strcmp(entries[i].key.name, name)) {
            return i;
        }
    }
    return -1;
}
/* For a name that is new: an index that never was in use, or else one that no longer is. */
static int free_index(const struct key_entry *entries, const bool *taken) {
    int out = -1;
    for (int i = POLICY_MAX_KEYS - 1; i >= 0; i--) {
        const bool fresh = !entries[i].key.name[0];
        if (!taken[i] && (out < 0 || fresh || entries[out].key.name[0])) {
            out = i;
        }
    }
    assert(out >= 0); // a file has no more keys than there are indexes
    return out;
}
static void put(struct key_entry *entries, bool *taken, int at, const struct key_entry *e) {
    const struct key_entry old = entries[at];
    entries[at] = *e;
    entries[at].key.index = at;
    if (!strcmp(old.key.name, e->key.name)) { // what it has used up stays used up
        entries[at].tokens = old.tokens;
        entries[at].since_ns = old.since_ns;
    }
    taken[at] = true;
}
void keys_take_places(struct keys *next, struct keys *k) {
    struct key_entry entries[POLICY_MAX_KEYS];
    bool taken[POLICY_MAX_KEYS] = {false};
    pthread_mutex_lock(&k->lock);
    memcpy(entries, k->entries, sizeof(entries));
    pthread_mutex_unlock(&k->lock);
    for (int i = 0; i < POLICY_MAX_KEYS; i++) {
        entries[i].is_in_use = false;
    }
    for (int pass = 0; pass < 2; pass++) { // names that are known go first
        for (int i = 0; i < next->n_entries; i++) {
            const struct key_entry *e = &next->entries[i];
            const int known = index_of(k->entries, POLICY_MAX_KEYS, e->key.name);
            if ((pass == 0) == (known >= 0)) {
                put(entries, taken, known >= 0 ? known : free_index(entries, taken), e);
            }
        }
    }
    memcpy(next->entries, entries, sizeof(entries));
    for (next->n_entries = POLICY_MAX_KEYS; !entries[next->n_entries - 1].key.name[0];) {
        next->n_entries--;
    }
}
void keys_replace(struct keys *k, struct keys *next) {
    pthread_mutex_lock(&k->lock);
    for (int i = 0; i < POLICY_MAX_KEYS; i++) {
        struct key_entry *to = &k->entries[i], *from = &next->entries[i];
        if (!strcmp(to->key.name, from->key.name)) { // requests went on since take_places
            from->tokens = to->tokens;
            from->since_ns = to->since_ns;
        }
        *to = *from;
    }
    k->n_entries = next->n_entries;
    pthread_mutex_unlock(&k->lock);
    keys_close(next);
}
