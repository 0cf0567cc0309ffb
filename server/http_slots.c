/* http_slots.c - the pools that make a request cost no allocation: slots and connections.
 * Both are made at start and handed out under one lock, last in first out, so that the arena whose
 * pages are still there is the next to be used. A slot is one accepted request; when there is none,
 * the answer is 429, and a few are kept for those who may change that. A connection is one socket;
 * some are kept beyond max_connections so that one client too many is told so. */
#include "server/http_internal.h"

#include <stdlib.h>

size_t http_arena_bytes(const struct config *cfg) {
    const size_t said = (size_t)cfg->server.max_request_memory_bytes;
    return said ? said : 16 * (size_t)cfg->server.max_body_bytes + ((size_t)32 << 20);
}

static enum status slots_init(struct http *h, struct error *err) {
    const struct config *cfg = h->ctx->cfg;
    const size_t bytes = http_arena_bytes(cfg);
    const int n = cfg->server.max_concurrent_requests + ADMIN_SLOTS;
    h->slots = xcalloc((size_t)n, sizeof(*h->slots));
    for (int i = 0; i < n; i++) {
        const enum status s = arena_init(&h->slots[i].request.arena, bytes, err);
        if (s) {
            return error_prefix(err, s, "server.max_concurrent_requests: slot %d of %d", i + 1, n);
        }
        h->n_slots++, h->n_free_slots++;
        h->slots[i].next_free = h->free_slots;
        h->free_slots = &h->slots[i];
    }
    return STATUS_OK;
}
enum status http_pools_init(struct http *h, struct error *err) {
    pthread_mutex_init(&h->lock, NULL);
    h->n_connections = h->ctx->cfg->server.max_connections + SPARE_CONNECTIONS;
    h->connections = xcalloc((size_t)h->n_connections, sizeof(*h->connections));
    for (int i = h->n_connections - 1; i >= 0; i--) {
        h->connections[i].next_free = h->free_connections;
        h->free_connections = &h->connections[i];
    }
    return slots_init(h, err);
}
void http_pools_finish(struct http *h) {
    for (int i = 0; i < h->n_slots; i++) {
        arena_finish(&h->slots[i].request.arena);
    }
    free(h->slots);
    free(h->connections);
    pthread_mutex_destroy(&h->lock);
}

struct slot *http_take_slot(struct http *h, bool is_admin) {
    pthread_mutex_lock(&h->lock);
    struct slot *s = h->n_free_slots > ADMIN_SLOTS || is_admin ? h->free_slots : NULL;
    if (s) {
        h->free_slots = s->next_free;
        h->n_free_slots--;
        atomic_fetch_add(&h->ctx->metrics->slots_used, 1);
    }
    pthread_mutex_unlock(&h->lock);
    return s;
}
void http_give_slot(struct http *h, struct slot *s) {
    pthread_mutex_lock(&h->lock);
    s->next_free = h->free_slots;
    h->free_slots = s;
    h->n_free_slots++;
    atomic_fetch_sub(&h->ctx->metrics->slots_used, 1);
    pthread_mutex_unlock(&h->lock);
}
struct connection *http_take_connection(struct http *h) {
    struct metrics *m = h->ctx->metrics;
    pthread_mutex_lock(&h->lock);
    struct connection *c = h->free_connections;
    if (c) {
        h->free_connections = c->next_free;
        c->over_limit = h->n_open >= h->ctx->cfg->server.max_connections;
        h->n_open++;
        atomic_fetch_add(&m->connections_open, 1);
    }
    pthread_mutex_unlock(&h->lock);
    atomic_fetch_add(&m->connections_total, 1);
    return c;
}
void http_give_connection(struct http *h, struct connection *c) {
    pthread_mutex_lock(&h->lock);
    c->next_free = h->free_connections;
    h->free_connections = c;
    h->n_open--;
    atomic_fetch_sub(&h->ctx->metrics->connections_open, 1);
    pthread_mutex_unlock(&h->lock);
}
