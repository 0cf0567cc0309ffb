/* http_exchange.c - one exchange, from its headers to the answer's last byte.
 * libmicrohttpd calls in on the connection's own thread: when the headers are there (begin), for
 * every piece of the body, and when it is whole (end). A reply queued in the first call closes the
 * connection, so only refusals are; what comes with a body takes a slot, everything else is
 * answered by the thread's scratch request and copied.
 * While jobs are out the connection is suspended. `pending` counts them, plus one that the handler
 * itself holds until suspending is done; who brings it to zero resumes the connection, once. */
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
static void request_begin(struct request *r, const struct connection *c) {
    request_reset(r);
    request_set_id(r, header_value(c, "X-Request-Id"));
    r->route = c->route;
    stage_clock_start(&r->clock, time_now_ns());
}

static void log_request(const struct connection *c, const struct request *r, const char *outcome) {
    if (!config_of(c)->log.requests) {
        return;
    }
    int64_t n_tokens = 0;
    for (int i = 0; i < r->n_jobs; i++) {
        n_tokens += r->jobs[i].n_tokens;
    }
    const double ms = (double)(time_now_ns() - r->clock.start_ns) / (double)NS_PER_MS;
    log_event(LOG_INFO, "request", LOG_STR("id", r->id),
              LOG_STR("route", r->route ? r->route->path : ""),
              LOG_INT("status", r->reply.http_status), LOG_STR("outcome", outcome),
              LOG_NUM("ms", ms), LOG_INT("jobs", r->n_jobs), LOG_INT("tokens", n_tokens));
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
static bool answer(struct connection *c, struct request *r) {
    struct metrics *m = c->daemon->http->ctx->metrics;
    reply_add_timing(r, config_of(c));
    count_reply(m, r);
    watch_for(c, time_now_ns() + config_of(c)->server.idle_timeout_s * NS_PER_S, on_late);
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
    c->slot->outcome = why == REFUSE_SLOW ? OUTCOME_EXPIRED : OUTCOME_REFUSED;
    c->late = true;
}
/* libmicrohttpd reads no more of a socket whose end came together with the last bytes; shutting it
 * down wakes it, and the request ends as cancelled instead of holding its slot up to the deadline.
 */
static void give_up_body(struct connection *c) {
    c->late = true;
    shutdown(c->fd, SHUT_RDWR);
}
static void on_body(void *arg, enum watch_event event) {
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
    case WATCH_DEADLINE:
        cut_body(c, REFUSE_SLOW, "the body did not arrive within read_timeout_ms");
        break;
    case WATCH_STOP: cut_body(c, REFUSE_UNAVAILABLE, "the server is shutting down"); break;
    }
}

static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len) {
    (void)kind;
    gate_header(arg, name, name_len, value, value_len);
    return MHD_YES;
}
static bool refuse(struct connection *c, enum refusal why, const char *text, const char *allowed) {
    struct request *r = &c->daemon->scratch;
    request_begin(r, c);
    reply_error(r, why, "%s", text);
    if (allowed) {
        reply_header(r, "Allow", allowed);
    }
    return answer(c, r);
}
static bool refuse_size(struct connection *c, int64_t n) {
    char text[128];
    snprintf(text, sizeof(text), "a body of %lld bytes is over the limit of %lld", (long long)n,
             (long long)config_of(c)->server.max_body_bytes);
    return refuse(c, REFUSE_TOO_LARGE, text, NULL);
}
static bool has_body(const struct route *route) {
    return !strcmp(route->method, "POST");
}
/* The request is accepted: from here on it has a slot, and ends in one of the outcomes. */
static bool accept_request(struct connection *c, const struct gate *g) {
    struct http *h = c->daemon->http;
    struct slot *s = http_take_slot(h);
    if (!s) {
        return refuse(c, REFUSE_OVERLOADED, "all max_concurrent_requests slots are in use", NULL);
    }
    struct request *r = &s->request;
    request_begin(r, c);
    const char *profile = header_value(c, "Berth-Profile");
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
    const int64_t read_ns = h->ctx->cfg->server.read_timeout_ms * NS_PER_MS;
    watch_add(h->watch, &c->watch, c->fd, time_now_ns() + read_ns, on_body, c);
    return true;
}
static bool begin_with_body(struct connection *c, const struct gate *g) {
    struct http *h = c->daemon->http;
    if (c->over_limit) {
        return refuse(c, REFUSE_UNAVAILABLE, "all max_connections connections are in use", NULL);
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
    return accept_request(c, g);
}
bool exchange_begin(struct connection *c, const char *method, const char *path,
                    const char *version) {
    struct http *h = c->daemon->http;
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
    if (g.length > h->ctx->cfg->server.max_body_bytes) {
        return refuse_size(c, g.length);
    }
    if (c->route->needs_engine && !atomic_load(&h->ctx->engine)) {
        return refuse(c, REFUSE_UNAVAILABLE, "the model is still being loaded", NULL);
    }
    return has_body(c->route) ? begin_with_body(c, &g) : true;
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

static void release(struct slot *s, int n) {
    struct connection *c = s->connection;
    struct http *h = c->daemon->http;
    if (atomic_fetch_sub(&s->request.pending, n) == n) {
        atomic_fetch_add(&h->n_resuming, 1);
        MHD_resume_connection(c->mhd);
        atomic_fetch_sub(&h->n_resuming, 1);
    }
}
static void on_job_done(struct job *job) {
    release(job->owner, 1);
}
/* Ends a request that waits: what is queued comes back, what runs is awaited. */
static void end_early(struct connection *c, enum status why) {
    struct slot *s = c->slot;
    struct request *r = &s->request;
    struct batcher *b = engine_batcher(atomic_load(&c->daemon->http->ctx->engine));
    int expected = STATUS_OK, n_cancelled = 0;
    if (!atomic_load(&r->pending) || !atomic_compare_exchange_strong(&r->ended, &expected, why)) {
        return; // all done, or ended before
    }
    for (int i = 0; i < r->n_jobs; i++) {
        if (batcher_cancel(b, &r->jobs[i])) {
            r->jobs[i].status = why;
            n_cancelled++;
        }
    }
    atomic_fetch_add(&c->daemon->http->ctx->metrics->jobs_cancelled, (unsigned)n_cancelled);
    if (n_cancelled) {
        release(s, n_cancelled);
    }
}
static void on_wait(void *arg, enum watch_event event) {
    struct connection *c = arg;
    switch (event) {
    case WATCH_HANG_UP: end_early(c, STATUS_CANCELLED); break;
    case WATCH_HALF_CLOSE:
        if (!config_of(c)->server.tolerate_half_close) {
            end_early(c, STATUS_CANCELLED);
        }
        break;
    case WATCH_DEADLINE: end_early(c, STATUS_TIMEOUT); break;
    case WATCH_STOP: end_early(c, STATUS_UNAVAILABLE); break;
    }
}

static enum status submit_jobs(struct connection *c, struct slot *s, int64_t deadline_ns) {
    struct request *r = &s->request;
    struct job **jobs = arena_alloc(&r->arena, (size_t)r->n_jobs, sizeof(struct job *));
    if (!jobs) {
        return STATUS_TOO_LONG;
    }
    for (int i = 0; i < r->n_jobs; i++) {
        struct job *job = jobs[i] = &r->jobs[i];
        job->done = on_job_done;
        job->owner = s;
        job->deadline_ns = deadline_ns;
        job->status = STATUS_OK;
        job->queued_ns = job->chosen_ns = job->infer_ns = job->done_ns = 0;
        memset(&job->ride, 0, sizeof(job->ride));
    }
    atomic_store(&r->pending, r->n_jobs + 1);
    return batcher_submit(engine_batcher(atomic_load(&c->daemon->http->ctx->engine)), jobs,
                          r->n_jobs, NULL);
}
static bool submit_and_suspend(struct connection *c, struct slot *s) {
    struct request *r = &s->request;
    const int64_t deadline_ns =
        r->clock.ends_ns[STAGE_READ] + config_of(c)->server.request_timeout_ms * NS_PER_MS;
    const enum status status = submit_jobs(c, s, deadline_ns);
    if (status) {
        reply_error(r, refusal_of_status(status), "%s",
                    status == STATUS_OVERLOADED    ? "the queue is full"
                    : status == STATUS_UNAVAILABLE ? "the server is shutting down"
                                                   : "the input is too long");
        return answer(c, r);
    }
    s->submitted = true;
    MHD_suspend_connection(c->mhd);
    watch_add(c->daemon->http->watch, &c->watch, c->fd, deadline_ns, on_wait, c);
    release(s, 1); // the handler's own: from here on the connection may be resumed
    return true;
}
static bool start_request(struct connection *c, struct slot *s) {
    struct http *h = c->daemon->http;
    struct request *r = &s->request;
    stage_clock_end(&r->clock, STAGE_READ, time_now_ns());
    watch_remove(h->watch, &c->watch);
    if (c->late) {
        return false; // refused already, or nobody is there
    }
    r->body = arena_resize_last(&r->arena, s->body, r->body_len, 1);
    if (s->too_large) {
        reply_error(r, REFUSE_TOO_LARGE, "the body is over the limit of %lld bytes",
                    (long long)h->ctx->cfg->server.max_body_bytes);
        return answer(c, r);
    }
    c->route->start(h->ctx, r);
    if (r->reply.http_status) {
        return answer(c, r);
    }
    assert(r->n_jobs > 0 && c->route->finish);
    return submit_and_suspend(c, s);
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}
/* A request is in a stage as long as any of its jobs is. */
static void end_job_stages(struct request *r) {
    int64_t chosen_ns = 0, infer_ns = 0, done_ns = 0;
    for (int i = 0; i < r->n_jobs; i++) {
        chosen_ns = later(chosen_ns, r->jobs[i].chosen_ns);
        infer_ns = later(infer_ns, r->jobs[i].infer_ns);
        done_ns = later(done_ns, r->jobs[i].done_ns);
    }
    stage_clock_end(&r->clock, STAGE_QUEUE, chosen_ns);
    stage_clock_end(&r->clock, STAGE_FORM, infer_ns);
    stage_clock_end(&r->clock, STAGE_INFER, done_ns);
}
static bool finish_request(struct connection *c, struct slot *s) {
    struct http *h = c->daemon->http;
    struct request *r = &s->request;
    watch_remove(h->watch, &c->watch);
    assert(atomic_load(&r->pending) == 0);
    const enum status ended = (enum status)atomic_load(&r->ended);
    if (ended == STATUS_CANCELLED) {
        s->outcome = OUTCOME_CANCELLED;
        return false; // nobody is there to be answered
    }
    end_job_stages(r);
    if (ended) {
        reply_error(r, refusal_of_status(ended), "%s",
                    ended == STATUS_TIMEOUT ? "no answer within request_timeout_ms"
                                            : "the server is shutting down");
    } else {
        c->route->finish(h->ctx, r);
    }
    return answer(c, r);
}
bool exchange_end(struct connection *c) {
    struct slot *s = c->slot;
    if (s) {
        return s->submitted ? finish_request(c, s) : start_request(c, s);
    }
    struct request *r = &c->daemon->scratch;
    request_begin(r, c);
    c->route->start(c->daemon->http->ctx, r);
    return answer(c, r);
}

static void count_outcome(struct metrics *m, enum outcome outcome) {
    counter *const counters[] = {[OUTCOME_ANSWERED] = &m->answered,
                                 [OUTCOME_REFUSED] = &m->refused,
                                 [OUTCOME_EXPIRED] = &m->expired,
                                 [OUTCOME_CANCELLED] = &m->cancelled};
    atomic_fetch_add(counters[outcome], 1);
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
    count_outcome(h->ctx->metrics, s->outcome);
    log_request(c, &s->request, names[s->outcome]);
    request_reset(&s->request); // the pages go back now, not with the next request
    http_give_slot(h, s);
}
