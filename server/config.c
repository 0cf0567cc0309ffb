/* config.c - settings by name, and the bounds between them.
 * What one setting may be stands in the table; what two may be together stands here. Bounds that
 * need the model (its limit on length) are config_policy()'s. */
#include "server/config.h"

#include <arpa/inet.h>
#include <string.h>

#include "server/config_table.h"
#include "server/nearest.h"

/* "http-threads" and "server.http_threads" are one key. */
static void normalise(char *out, size_t size, const char *key) {
    snprintf(out, size, "%s", key);
    for (char *c = out; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
}
static const struct setting *find_option(const char *key, struct error *err) {
    char name[EDIT_MAX_LENGTH];
    normalise(name, sizeof(name), key);
    const struct setting *found = setting_find(name);
    for (int i = 0; i < config_n_settings && !strchr(name, '.'); i++) {
        const struct setting *s = &config_settings[i];
        if (strcmp(setting_name(s), name)) {
            continue;
        }
        if (found) {
            (void)error_set(err, STATUS_INVALID, "--%.60s is %s or %s: write it whole", key,
                            found->key, s->key);
            return NULL;
        }
        found = s;
    }
    if (!found) {
        (void)error_set(err, STATUS_INVALID,
                        "unknown option --%.60s; the nearest known one is "
                        "--%s",
                        key, config_nearest(name));
    }
    return found;
}
bool config_is_switch(const char *key) {
    const struct setting *s = find_option(key, NULL);
    return s && s->kind == SETTING_BOOL;
}
enum status config_set(struct config *c, const char *key, const char *value, struct error *err) {
    const struct setting *s = find_option(key, err);
    if (!s) {
        return STATUS_INVALID;
    }
    if (!value && s->kind != SETTING_BOOL) {
        return error_set(err, STATUS_INVALID, "--%.60s needs a value", key);
    }
    return setting_set_text(s, c, value ? value : "true", err);
}

bool config_host_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return !strcmp(host, "localhost");
}
static enum status check_exposure(const struct config *c, struct error *err) {
    if (*c->auth.keys_file || c->auth.allow_open || config_host_is_loopback(c->server.host)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "server.host is \"%s\", where other machines may reach it, and there are no "
                     "API keys: set auth.keys_file, or auth.allow_open if whoever reaches it may "
                     "ask",
                     c->server.host);
}
enum status config_check(const struct config *c, struct error *err) {
    const enum status exposed = check_exposure(c, err);
    if (exposed) {
        return exposed;
    }
    if (c->batching.max_queued_jobs < c->server.max_client_batch_size) {
        return error_set(err, STATUS_INVALID,
                         "batching.max_queued_jobs is %d, less than "
                         "server.max_client_batch_size (%d): the largest requests would never be "
                         "taken; raise the first or lower the second",
                         c->batching.max_queued_jobs, c->server.max_client_batch_size);
    }
    const int64_t memory = c->server.max_request_memory_bytes;
    if (memory && memory < 2 * c->server.max_body_bytes) {
        return error_set(err, STATUS_INVALID,
                         "server.max_request_memory_bytes is %lld, less than twice "
                         "server.max_body_bytes (%lld): raise the first, lower the second, or "
                         "leave it at 0",
                         (long long)memory, (long long)c->server.max_body_bytes);
    }
    /* Ascending, nothing overlapping: as for a model whose limit is the last bucket's, and in every
     * mode, so that a change of mode brings no old error to light. */
    struct config bucketed = *c;
    struct policy_config unused;
    bucketed.batching.mode = BATCH_PACKED;
    return config_policy(&unused, &bucketed, c->batching.buckets[c->batching.n_buckets - 1].up_to,
                         err);
}
