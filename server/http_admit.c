/* http_admit.c - the headers are there: does this request come in?
 * Everything that can be said before the body is said here, in the order of what it costs: framing,
 * size of the headers, path, key, size of the body, whether the model is there, type, rate, slot. A
 * reply queued in the first call closes the connection, so only refusals are; what comes with a
 * body takes a slot, everything else waits for the second call. */
#include "server/http_internal.h"

#include <assert.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "server/http_gate.h"

static const struct config *config_of(const struct connection *c) {
    return c->daemon->http->ctx->cfg;
}
static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len) {
    (void)kind;
    gate_header(arg, name, name_len, value, value_len);
    return MHD_YES;
}
static bool refuse(struct connection *c, enum refusal why, const char *text, const char *allowed) {
    struct request *r = &c->daemon->scratch;
    exchange_start(r, c);
    reply_error(r, why, "%s", text);
    if (allowed) {
        reply_header(r, "Allow", allowed);
    }
    return exchange_answer(c, r);
}
static bool refuse_size(struct connection *c, int64_t n) {
    char text[128];
    snprintf(text, sizeof(text), "a body of %lld bytes is over the limit of %lld", (long long)n,
             (long long)config_of(c)->server.max_body_bytes);
    return refuse(c, REFUSE_TOO_LARGE, text, NULL);
}
static bool has_body(const struct route *route) {
    return strcmp(route->method, "GET") != 0;
}
/* For the peers of a proxy on this machine too: who has one needs keys, or keeps /debug from it. */
static bool is_local(const struct connection *c) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;
    if (a && a->sa_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    }
    if (!a || a->sa_family != AF_INET6) {
        return false;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

/* Too much at the moment: says when to come again. */
static bool limit(struct connection *c, enum limit why, const char *text, int64_t retry_ns) {
    struct request *r = &c->daemon->scratch;
    exchange_start(r, c);
    reply_error(r, why == LIMIT_CONNECTIONS ? REFUSE_UNAVAILABLE : REFUSE_OVERLOADED, "%s", text);
    reply_retry_after(r, retry_ns);
    atomic_fetch_add(&c->daemon->http->ctx->metrics->limited[why], 1);
    return exchange_answer(c, r);
}
/* A guess for whoever finds all slots taken: the queue's end, as the batcher predicts it. */
static int64_t drain_ns(const struct http *h) {
    struct engine *engine = atomic_load(&h->ctx->engine);
    struct batcher_stats stats = {.queues = {.n_jobs = 0}};
    if (engine) {
        batcher_get_stats(engine_batcher(engine), &stats);
    }
    return stats.queues.drain_ns > NS_PER_MS ? stats.queues.drain_ns : NS_PER_S;
}
/* A deadline of the client's own may pass before the body is there. */
static int64_t body_deadline(const struct connection *c, const struct request *r) {
    const int64_t read_ns = config_of(c)->server.read_timeout_ms * NS_PER_MS;
    const int64_t own_ns = r->caller.deadline_ns, end_ns = r->clock.start_ns + read_ns;
    return own_ns && own_ns < end_ns ? own_ns : end_ns;
}
/* The request is accepted: from here on it has a slot, and ends in one of the outcomes. */
static bool accept_request(struct connection *c, const struct gate *g,
                           const struct caller *caller) {
    struct http *h = c->daemon->http;
    struct slot *s = http_take_slot(h, access_is_admin(c->route));
    if (!s) {
        return limit(c, LIMIT_SLOTS, "all max_concurrent_requests slots are in use", drain_ns(h));
    }
    struct request *r = &s->request;
    exchange_start(r, c);
    r->caller = *caller;
    r->caller.deadline_ns = caller->deadline_ns ? r->clock.start_ns + caller->deadline_ns : 0;
    const char *profile = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Berth-Profile");
    r->wants_profile = h->ctx->cfg->server.profile_header && profile && !strcmp(profile, "1");
    s->connection = c;
    s->outcome = OUTCOME_OPEN;
    s->too_large = s->submitted = false;
    s->body_capacity = (size_t)(g->is_chunked ? h->ctx->cfg->server.max_body_bytes : g->length);
    s->body = arena_alloc(&r->arena, s->body_capacity, 1); // pages become real as they are written
    assert(s->body);
    c->slot = s;
    c->late = false;
    atomic_fetch_add(&h->ctx->metrics->accepted, 1);
    watch_add(h->watch, &c->watch, c->fd, body_deadline(c, r), exchange_on_body, c);
    return true;
}
static bool keep_to_rate(struct connection *c, const struct gate *g, const struct caller *caller) {
    struct http *h = c->daemon->http;
    const bool counts = h->ctx->keys && !access_is_admin(c->route);
    const int64_t wait_ns = counts ? keys_take(h->ctx->keys, caller->key, time_now_ns()) : 0;
    if (wait_ns) {
        char text[96];
        snprintf(text, sizeof(text), "the key \"%s\" is over its requests_per_second",
                 caller->key_name);
        atomic_fetch_add(&h->ctx->metrics->keys[caller->key].limited, 1);
        return limit(c, LIMIT_RATE, text, wait_ns);
    }
    return accept_request(c, g, caller);
}
static bool begin_with_body(struct connection *c, const struct gate *g,
                            const struct caller *caller) {
    struct http *h = c->daemon->http;
    if (c->over_limit && !access_is_admin(c->route)) {
        return limit(c, LIMIT_CONNECTIONS, "all max_connections connections are in use", NS_PER_S);
    }
    if (!gate_is_json(g->content_type)) {
        return refuse(c, REFUSE_TYPE, "Content-Type has to be application/json, in UTF-8", NULL);
    }
    if (!g->n_lengths && !g->is_chunked) {
        return refuse(c, REFUSE_NO_LENGTH, "Content-Length is missing", NULL);
    }
    if (atomic_load(&h->refusing)) {
        return refuse(c, REFUSE_UNAVAILABLE, "the server is shutting down", NULL);
    }
    return keep_to_rate(c, g, caller);
}
/* The path is served: may this caller, and can it be answered now? */
static bool begin_route(struct connection *c, const struct gate *g) {
    const struct server_context *ctx = c->daemon->http->ctx;
    const struct access a =
        access_judge(&g->access, c->route, ctx->keys, ctx->cfg->auth.open_metrics, is_local(c));
    if (a.fault) {
        return refuse(c, a.why, a.fault, NULL);
    }
    if (g->length > ctx->cfg->server.max_body_bytes) {
        return refuse_size(c, g->length);
    }
    if (c->route->needs_engine && !atomic_load(&ctx->engine)) {
        return refuse(c, REFUSE_UNAVAILABLE, "the model is still being loaded", NULL);
    }
    return has_body(c->route) ? begin_with_body(c, g, &a.caller) : true;
}
bool exchange_begin(struct connection *c, const char *method, const char *path,
                    const char *version) {
    struct gate g = {.n_hosts = 0};
    c->route = NULL;
    c->overrun_bytes = 0;
    MHD_get_connection_values_n(c->mhd, MHD_HEADER_KIND, on_header, &g);
    const char *fault = gate_framing_fault(&g, version);
    if (fault) {
        return refuse(c, REFUSE_BAD_REQUEST, fault, NULL);
    }
    if (c->target_bytes + g.n_bytes > config_of(c)->server.max_header_bytes) {
        return refuse(c, REFUSE_HEADERS, "path and headers are over max_header_bytes", NULL);
    }
    const char *allowed = NULL;
    c->route = route_find(method, path, &allowed);
    if (!c->route) {
        return allowed ? refuse(c, REFUSE_METHOD, "this path takes other methods", allowed)
                       : refuse(c, REFUSE_NOT_FOUND, "nothing is served at this path", NULL);
    }
    return begin_route(c, &g);
}
