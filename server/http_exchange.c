/* http_exchange.c - one exchange: its body, its answer, its end.
 * libmicrohttpd calls in on the connection's own thread: when the headers are there (http_admit.c),
 * for every piece of the body, and when it is whole (end). What comes with a body has a slot by
 * then, everything else is answered by the thread's scratch request and copied. While jobs are out
 * the connection is suspended (http_wait.c). */
#include "server/http_internal.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"

static const struct config *config_of(const struct connection *c) {
    return c->daemon->http->ctx->cfg;
}
static void watch_for(struct connection *c, int64_t deadline_ns, watch_fn *fn) {
    watch_add(c->daemon->http->watch, &c->watch, -1, deadline_ns, fn, c);
}

/* Watch: too long between requests, over the headers, or over reading the answer. At the end of
 * the drain time the answer may go on a little (http.c says when it may not). */
static void on_late(void *arg, enum watch_event event) {
    struct connection *c = arg;
    if (event == WATCH_DEADLINE || atomic_load(&c->daemon->http->cutting)) {
        shutdown(c->fd, SHUT_RDWR); // libmicrohttpd sees the end and closes
    }
}
void exchange_await_headers(struct connection *c) {
    watch_for(c, time_now_ns() + config_of(c)->server.read_timeout_ms * NS_PER_MS, on_late);
}

static const char *header_value(const struct connection *c, const char *name) {
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}
void exchange_start(struct request *r, const struct connection *c) {
    request_reset(r);
    request_set_id(r, &c->daemon->ids, header_value(c, "X-Request-Id"));
    r->route = c->route;
    stage_clock_start(&r->clock, time_now_ns());
}

static int64_t tokens_of(const struct request *r) {
    int64_t n_tokens = 0;
    for (int i = 0; i < r->n_jobs; i++) {
        n_tokens += r->jobs[i].n_tokens;
    }
    return n_tokens;
}
static void log_request(const struct connection *c, const struct request *r, const char *outcome) {
    if (!config_of(c)->log.requests) {
        return;
    }
    const double ms = (double)(time_now_ns() - r->clock.start_ns) / (double)NS_PER_MS;
    log_event(LOG_INFO, "request", LOG_STR("id", r->id),
              LOG_STR("route", r->route ? r->route->path : ""), LOG_STR("key", r->caller.key_name),
              LOG_INT("status", r->reply.http_status), LOG_STR("outcome", outcome),
              LOG_NUM("ms", ms), LOG_INT("jobs", r->n_jobs), LOG_INT("tokens", tokens_of(r)));
}
static void count_reply(struct metrics *m, const struct request *r) {
    const int status = r->reply.http_status;
    const enum metric_route route = r->route ? r->route->metric : ROUTE_OTHER;
    assert(status >= 100 && status < 600);
    atomic_fetch_add(&m->requests[route][status / 100], 1);
    if (status >= 400) {
        atomic_fetch_add(&m->errors[status], 1);
    }
}
static void record_stages(struct metrics *m, const struct request *r) {
    for (int i = 0; i < N_STAGES; i++) {
        histogram_record(&m->stages[i], stage_clock_ns(&r->clock, (enum stage)i));
    }
    histogram_record(&m->total, stage_clock_total_ns(&r->clock));
}

static bool queue_reply(struct connection *c, const struct reply *reply,
                        enum MHD_ResponseMemoryMode mode) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->body_len, (void *)reply->body, mode);
    if (!response) {
        return false;
    }
    MHD_add_response_header(response, "Content-Type", reply->content_type);
    for (int i = 0; i < reply->n_headers; i++) {
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    }
    if (atomic_load(&c->daemon->http->ctx->draining)) {
        MHD_add_response_header(response, "Connection", "close");
    }
    const enum MHD_Result queued =
        MHD_queue_response(c->mhd, (unsigned)reply->http_status, response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}
/* Sends r->reply. A slot's arena outlives the response; what the scratch request holds is copied.
 */
bool exchange_answer(struct connection *c, struct request *r) {
    struct metrics *m = c->daemon->http->ctx->metrics;
    reply_add_timing(r, config_of(c));
    count_reply(m, r);
    watch_for(c, r->clock.ends_ns[STAGE_WRITE] + config_of(c)->server.idle_timeout_s * NS_PER_S,
              on_late);
    if (!c->slot) {
        log_request(c, r, r->reply.http_status < 400 ? "answered" : "refused");
        return queue_reply(c, &r->reply, MHD_RESPMEM_MUST_COPY);
    }
    if (r->reply.http_status < 400) {
        record_stages(m, r);
        c->slot->outcome = OUTCOME_ANSWERED;
    } else {
        c->slot->outcome = r->reply.http_status == 504 ? OUTCOME_EXPIRED : OUTCOME_REFUSED;
    }
    return queue_reply(c, &r->reply, MHD_RESPMEM_PERSISTENT);
}

/* Watch: the body is slow, or the drain time is over. Nothing of an answer can be under way, as
 * the entry is removed before one is made; so the refusal is written past libmicrohttpd, which
 * cannot queue one before the body is whole. Until then the request's reply and arena are not
 * touched by the connection's thread either. */
static void cut_body(struct connection *c, enum refusal why, const char *text) {
    struct request *r = &c->slot->request;
    char head[256 + REQUEST_ID_BYTES];
    reply_error(r, why, "%s", text);
    const int n =
        snprintf(head, sizeof(head),
                 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                 "X-Request-Id: %s\r\nConnection: close\r\n\r\n",
                 r->reply.http_status, MHD_get_reason_phrase_for((unsigned)r->reply.http_status),
                 r->reply.content_type, r->reply.body_len, r->id);
    struct iovec parts[] = {{.iov_base = head, .iov_len = (size_t)n},
                            {.iov_base = (void *)r->reply.body, .iov_len = r->reply.body_len}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = N_ITEMS(parts)};
    sendmsg(c->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL); // what does not fit now never will
    shutdown(c->fd, SHUT_RDWR);
    count_reply(c->daemon->http->ctx->metrics, r);
    c->slot->outcome = why == REFUSE_UNAVAILABLE ? OUTCOME_REFUSED : OUTCOME_EXPIRED;
    c->late = true;
}
/* libmicrohttpd reads no more of a socket whose end came together with the last bytes; shutting it
 * down wakes it, and the request ends as cancelled instead of holding its slot up to the deadline.
 */
static void give_up_body(struct connection *c) {
    c->late = true;
    shutdown(c->fd, SHUT_RDWR);
}
static void cut_late_body(struct connection *c) {
    const int64_t own_ns = c->slot->request.caller.deadline_ns;
    if (own_ns && time_now_ns() >= own_ns) {
        cut_body(c, REFUSE_DEADLINE, "Berth-Deadline-Ms passed before the body was there");
    } else {
        cut_body(c, REFUSE_SLOW, "the body did not arrive within read_timeout_ms");
    }
}
void exchange_on_body(void *arg, enum watch_event event) {
    struct connection *c = arg;
    if (c->late) {
        return;
    }
    switch (event) {
    case WATCH_HANG_UP: give_up_body(c); break;
    case WATCH_HALF_CLOSE:
        if (!config_of(c)->server.tolerate_half_close) {
            give_up_body(c);
        }
        break;
    case WATCH_DEADLINE: cut_late_body(c); break;
    case WATCH_STOP: cut_body(c, REFUSE_UNAVAILABLE, "the server is shutting down"); break;
    }
}

bool exchange_body(struct connection *c, const char *bytes, size_t n) {
    struct slot *s = c->slot;
    if (s && !s->too_large && n <= s->body_capacity - s->request.body_len) {
        memcpy(s->body + s->request.body_len, bytes, n);
        s->request.body_len += n;
        return true;
    }
    c->overrun_bytes += (int64_t)n;
    if (s) {
        s->too_large = true; // told once the body has ended, if it does so soon
    }
    return c->overrun_bytes <= CHUNKED_OVERRUN_BYTES;
}

static bool start_request(struct connection *c, struct slot *s) {
    struct http *h = c->daemon->http;
    struct request *r = &s->request;
    stage_clock_end(&r->clock, STAGE_READ, time_now_ns());
    watch_pause(h->watch, &c->watch);
    if (c->late) {
        return false; // refused already, or nobody is there
    }
    r->body = arena_resize_last(&r->arena, s->body, r->body_len, 1);
    if (s->too_large) {
        reply_error(r, REFUSE_TOO_LARGE, "the body is over the limit of %lld bytes",
                    (long long)h->ctx->cfg->server.max_body_bytes);
        return exchange_answer(c, r);
    }
    c->route->start(h->ctx, r);
    if (r->reply.http_status) {
        return exchange_answer(c, r);
    }
    assert(r->n_jobs > 0 && c->route->finish);
    return exchange_wait(c, s);
}

bool exchange_end(struct connection *c) {
    struct slot *s = c->slot;
    if (s) {
        return s->submitted ? exchange_waited(c, s) : start_request(c, s);
    }
    struct request *r = &c->daemon->scratch;
    exchange_start(r, c);
    c->route->start(c->daemon->http->ctx, r);
    return exchange_answer(c, r);
}

static void count_outcome(struct metrics *m, const struct request *r, enum outcome outcome) {
    struct key_metrics *k = &m->keys[r->caller.key];
    struct {
        counter *all, *of_key;
    } const counters[] = {[OUTCOME_ANSWERED] = {&m->answered, &k->answered},
                          [OUTCOME_REFUSED] = {&m->refused, &k->refused},
                          [OUTCOME_EXPIRED] = {&m->expired, &k->expired},
                          [OUTCOME_CANCELLED] = {&m->cancelled, &k->cancelled}};
    atomic_fetch_add(counters[outcome].all, 1);
    atomic_fetch_add(counters[outcome].of_key, 1);
    if (outcome == OUTCOME_ANSWERED) {
        atomic_fetch_add(&k->tokens, (uint_fast64_t)tokens_of(r));
    }
}
void exchange_completed(struct connection *c, bool whole) {
    static const char *const names[] = {"open", "answered", "refused", "expired", "cancelled"};
    const struct config *cfg = config_of(c);
    struct http *h = c->daemon->http;
    watch_for(c,
              time_now_ns() + cfg->server.idle_timeout_s * NS_PER_S +
                  cfg->server.read_timeout_ms * NS_PER_MS,
              on_late);
    struct slot *s = c->slot;
    if (!s) {
        return;
    }
    c->slot = NULL;
    if (s->outcome == OUTCOME_OPEN) {
        s->outcome = s->too_large ? OUTCOME_REFUSED : OUTCOME_CANCELLED;
    } else if (s->outcome == OUTCOME_ANSWERED && !whole) {
        s->outcome = OUTCOME_CANCELLED;
    }
    count_outcome(h->ctx->metrics, &s->request, s->outcome);
    log_request(c, &s->request, names[s->outcome]);
    request_reset(&s->request); // the pages go back now, not with the next request
    http_give_slot(h, s);
}
