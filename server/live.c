/* live.c - from a new configuration to what is in force, or not at all.
 * What may fail comes first (reading, checking, and the batcher, which refuses whole); what follows
 * cannot: counters, keys, level. A setting that only a start can apply is named and left as it is.
 * A weight or a name of a key is the batcher's by index, so the keys' places are settled before it
 * is told, and the keys themselves are let in after it. */
#include "server/live.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/config_table.h"

struct live {
    pthread_mutex_t lock;
    const struct options *opt;
    struct server_context *ctx;
    struct config cfg; // in force
};

struct live *live_create(const struct options *opt, struct server_context *ctx) {
    struct live *l = xcalloc(1, sizeof(*l));
    pthread_mutex_init(&l->lock, NULL);
    l->opt = opt;
    l->ctx = ctx;
    l->cfg = opt->cfg;
    return l;
}
void live_destroy(struct live *l) {
    if (l) {
        pthread_mutex_destroy(&l->lock);
        free(l);
    }
}
static void warn_of_short(struct keys *keys) {
    for (int i = 0; keys && i < keys_count(keys); i++) {
        struct key key;
        keys_at(keys, i, &key);
        if (key.is_short) {
            log_event(LOG_WARN, "weak_key", LOG_STR("name", key.name),
                      LOG_STR("reason", "it is short enough to be guessed"));
        }
    }
}
static void set_weights(struct policy_config *p, struct keys *keys) {
    p->n_keys = keys ? keys_count(keys) : 1;
    for (int i = 0; i < p->n_keys; i++) {
        struct key key = {.weight = 1};
        if (keys) {
            keys_at(keys, i, &key);
        }
        p->key_weights[i] = key.weight > 0 ? key.weight : 1; // 0: a gap between indexes
    }
}
/* The batcher and the counters; `keys` have their places. */
static enum status configure(const struct live *l, struct engine *engine, const struct config *next,
                             struct keys *keys, struct error *err) {
    struct policy_config policy;
    enum status s = engine_policy(engine, &policy, next, err);
    if (s) {
        return s;
    }
    set_weights(&policy, keys);
    return engine_configure(engine, &policy, err);
}
enum status live_begin(struct live *l, struct engine *engine, struct error *err) {
    pthread_mutex_lock(&l->lock);
    const enum status s = configure(l, engine, &l->cfg, l->ctx->keys, err);
    warn_of_short(l->ctx->keys);
    pthread_mutex_unlock(&l->lock);
    return s;
}

static const char *const sizes[] = {"batching.max_queued_jobs", "batching.max_queued_tokens",
                                    "batching.reload_max_batch_tokens"};
/* Sizes of what was made at start; all else of batching is policy. */
static bool is_fixed(const struct setting *s) {
    for (size_t i = 0; i < N_ITEMS(sizes); i++) {
        if (!strcmp(s->key, sizes[i])) {
            return true;
        }
    }
    return !setting_in_section(s, "batching") && strcmp(s->key, "log.level") != 0;
}
/* The settings that differ and only a start can apply, "a, b"; they are put back in `next`. */
static void keep_fixed(char *names, size_t size, struct config *next, struct config *now) {
    size_t n = 0;
    names[0] = '\0';
    for (int i = 0; i < config_n_settings; i++) {
        const struct setting *s = &config_settings[i];
        void *to = setting_field(s, next);
        const void *from = setting_field(s, now);
        if (is_fixed(s) && memcmp(to, from, s->size) != 0) {
            memcpy(to, from, s->size);
            if (n < size) {
                n += (size_t)snprintf(names + n, size - n, "%s%s", n ? ", " : "", s->key);
            }
        }
    }
}
static void forget_reused(struct metrics *m, struct keys *now, struct keys *next) {
    for (int i = 0; i < POLICY_MAX_KEYS; i++) {
        struct key before, after;
        keys_at(now, i, &before);
        keys_at(next, i, &after);
        if (before.name[0] && strcmp(before.name, after.name) != 0) {
            metrics_reset_key(m, i);
        }
    }
}
/* Everything is read: now all of it, or nothing. Takes over next_keys (NULL: none are configured).
 */
static enum status commit(struct live *l, const struct config *next, struct keys *next_keys,
                          struct error *err) {
    struct keys *keys = l->ctx->keys;
    if (next_keys) {
        keys_take_places(next_keys, keys);
    }
    const enum status s = configure(l, atomic_load(&l->ctx->engine), next, next_keys, err);
    if (s) {
        keys_close(next_keys);
        return s;
    }
    if (next_keys) {
        forget_reused(l->ctx->metrics, keys, next_keys);
        keys_replace(keys, next_keys);
        warn_of_short(keys);
    }
    l->cfg = *next;
    log_set_level(next->log.level);
    return STATUS_OK;
}
static enum status read_and_commit(struct live *l, char *fixed, size_t size, struct error *err) {
    struct config next;
    struct keys *keys = NULL;
    enum status s = options_reread(&next, l->opt, err);
    if (s) {
        return s;
    }
    keep_fixed(fixed, size, &next, &l->cfg);
    if (l->ctx->keys) {
        s = keys_open(&keys, next.auth.keys_file, err);
        if (s) {
            return error_prefix(err, s, "auth.keys_file");
        }
    }
    return commit(l, &next, keys, err);
}
static void log_reload(const struct live *l, enum status s, const char *fixed, const char *reason) {
    if (s) {
        log_event(LOG_ERROR, "reload_failed", LOG_STR("reason", reason),
                  LOG_STR("effect", "none: what was in force stays in force"));
        return;
    }
    log_event(LOG_INFO, "reload", LOG_INT("keys", l->ctx->keys ? keys_count(l->ctx->keys) : 0),
              LOG_INT("buckets", l->cfg.batching.n_buckets));
    if (*fixed) {
        log_event(LOG_WARN, "reload_needs_restart", LOG_STR("settings", fixed),
                  LOG_STR("effect", "these keep their old values until the next start"));
    }
}
enum status live_reload(struct live *l, struct error *err) {
    char fixed[1024];
    pthread_mutex_lock(&l->lock);
    const enum status s = read_and_commit(l, fixed, sizeof(fixed), err);
    atomic_fetch_add(s ? &l->ctx->metrics->reloads_failed : &l->ctx->metrics->reloads, 1);
    log_reload(l, s, fixed, err->text);
    pthread_mutex_unlock(&l->lock);
    return s;
}

/* {"mode": ...} stands for {"batching": {"mode": ...}}; that it is one object the caller knows. */
static enum status read_batching(struct config *next, const char *json, size_t len,
                                 struct error *err) {
    static const char head[] = "{\"batching\":";
    const size_t n_head = sizeof(head) - 1;
    char *text = xcalloc(n_head + len + 2, 1);
    memcpy(text, head, n_head);
    memcpy(text + n_head, json, len);
    text[n_head + len] = '}';
    const enum status s = config_read_text(next, text, n_head + len + 1, "body", err);
    free(text);
    return s ? s : config_check(next, err);
}
enum status live_set_batching(struct live *l, const char *json, size_t len, struct error *err) {
    char fixed[1024];
    pthread_mutex_lock(&l->lock);
    struct config next = l->cfg;
    enum status s = read_batching(&next, json, len, err);
    if (!s) {
        keep_fixed(fixed, sizeof(fixed), &next, &l->cfg);
        s = *fixed ? error_set(err, STATUS_INVALID,
                               "%s cannot change while the server runs: leave it out", fixed)
                   : configure(l, atomic_load(&l->ctx->engine), &next, l->ctx->keys, err);
    }
    if (!s) {
        l->cfg = next;
        log_event(LOG_INFO, "batching_changed",
                  LOG_STR("mode", batch_mode_names[next.batching.mode]),
                  LOG_INT("buckets", next.batching.n_buckets));
    }
    pthread_mutex_unlock(&l->lock);
    return s;
}
