/* http.c - listening, the daemons, and the way out.
 * Several single-threaded daemons share one socket that is ours: a connection stays with the
 * daemon that accepted it, and draining can close the socket while the daemons go on. Draining:
 * accepting ends (what the kernel had queued is still taken), every answer says Connection: close,
 * and the daemons stop when no request is left. Past drain_timeout_ms what waits is refused with
 * 503; only what runs on the device is awaited, because a daemon must not stop with a connection
 * suspended. */
#include "server/http.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "server/http_internal.h"

enum {
    LISTEN_BACKLOG = 1024,
    LEAST_CONNECTION_BYTES = 32 * 1024,
    SCRATCH_BYTES = 16 << 20,
    KEEPALIVE_IDLE_S = 30,
    KEEPALIVE_INTERVAL_S = 10,
    UNACKNOWLEDGED_MS = 30000, // data that the peer's machine does not acknowledge
    LINGER_MS = 200,           // for connections between requests, once draining
    CUT_AFTER_MS = 1000,       // for answers that are still being read after the drain time
};

static struct connection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}
static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *url,
                                  const char *method, const char *version, const char *bytes,
                                  size_t *n_bytes, void **request_context) {
    (void)arg;
    struct connection *c = connection_of(mhd);
    bool ok = false;
    if (c && !*request_context) {
        *request_context = c;
        ok = exchange_begin(c, method, url, version);
    } else if (c && *n_bytes) {
        ok = exchange_body(c, bytes, *n_bytes);
        *n_bytes = 0;
    } else if (c) {
        ok = exchange_end(c);
    }
    return ok ? MHD_YES : MHD_NO;
}
/* A path is compared as it was sent: none that is served here needs an escape, and one decoded to
 * NUL would end the path early. */
static size_t on_unescape(void *arg, struct MHD_Connection *mhd, char *text) {
    (void)arg, (void)mhd;
    return strlen(text);
}
static void on_completed(void *arg, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode code) {
    (void)arg, (void)mhd;
    if (*request_context) {
        exchange_completed(*request_context, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
        *request_context = NULL;
    }
}
/* The request line is there. The first one of a connection has to come, with its headers, within
 * the time since it was accepted. */
static void *on_request_line(void *arg, const char *line, struct MHD_Connection *mhd) {
    (void)arg;
    struct connection *c = connection_of(mhd);
    if (c && c->route) {
        exchange_await_headers(c);
    }
    if (c) {
        c->target_bytes = (int64_t)strlen(line);
    }
    return NULL; // the request's context is set by on_request()
}

static void set_socket_options(int fd) {
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS},
    };
    for (size_t i = 0; i < N_ITEMS(options); i++) { // a refusal costs early notice, nothing else
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    }
}
static void connection_started(struct http_daemon *d, struct MHD_Connection *mhd, void **context) {
    const int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct connection *c = http_take_connection(d->http);
    *context = c;
    if (!c) {
        shutdown(fd, SHUT_RDWR); // even the spare ones are taken
        return;
    }
    c->daemon = d;
    c->mhd = mhd;
    c->fd = fd;
    c->route = NULL;
    c->slot = NULL;
    set_socket_options(fd);
    exchange_await_headers(c);
}
static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    struct http_daemon *d = arg;
    struct connection *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        connection_started(d, mhd, context);
    } else if (c) {
        watch_remove(d->http->watch, &c->watch); // the socket is closed after this returns
        http_give_connection(d->http, c);
        *context = NULL;
    }
}
static void on_library_log(void *arg, const char *format, va_list args) PRINTF_LIKE(2, 0);
static void on_library_log(void *arg, const char *format, va_list args) {
    (void)arg;
    char text[512];
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\r\n")] = '\0';
    log_event(LOG_DEBUG, "libmicrohttpd", LOG_STR("text", text));
}

static int open_socket(const struct addrinfo *a) {
    const int on = 1;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, LISTEN_BACKLOG)) {
        const int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}
static int port_of(int fd) {
    struct sockaddr_storage addr;
    socklen_t n = sizeof(addr);
    getsockname(fd, (struct sockaddr *)&addr, &n);
    return ntohs(addr.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&addr)->sin6_port
                                            : ((const struct sockaddr_in *)&addr)->sin_port);
}
static enum status listen_at(struct http *h, int *port, struct error *err) {
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    const char *host = h->ctx->cfg->server.host;
    const int wanted = h->ctx->cfg->server.port;
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof(service), "%d", wanted);
    const int e = getaddrinfo(host, service, &hints, &found);
    if (e) {
        return error_set(err, STATUS_INVALID, "server.host \"%s\": %s", host, gai_strerror(e));
    }
    h->listen_fd = open_socket(found);
    freeaddrinfo(found);
    if (h->listen_fd < 0) {
        return error_set(err, STATUS_IO, "cannot listen on %s port %d: %s", host, wanted,
                         strerror(errno));
    }
    *port = port_of(h->listen_fd);
    return STATUS_OK;
}
/* A connection is a file descriptor, and many systems start a program with 1,024 of them. */
static void raise_file_limit(rlim_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) {
        return;
    }
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted) {
        log_event(LOG_WARN, "file_limit", LOG_INT("wanted", (int64_t)wanted),
                  LOG_INT("allowed", (int64_t)limit.rlim_cur));
    }
}

/* What the library may use for a connection: headers as they came, what it notes about each, a
 * piece of the body, the answer's headers. It clears all of that after every request, so it is
 * resident, and through the cache, as many times as there are connections: 64 KiB instead of the 32
 * that the default asks for cost a health request a twentieth. */
static size_t connection_bytes(const struct config *cfg) {
    const size_t wanted = 2 * (size_t)cfg->server.max_header_bytes;
    return wanted > LEAST_CONNECTION_BYTES ? wanted : LEAST_CONNECTION_BYTES;
}
static enum status daemon_start(struct http *h, struct error *err) {
    struct http_daemon *d = &h->daemons[h->n_daemons];
    const enum status s = arena_init(&d->scratch.arena, SCRATCH_BYTES, err);
    if (s) {
        return s;
    }
    h->n_daemons++;
    d->http = h;
    d->mhd = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, d, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        h->listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->n_connections + SPARE_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->ctx->cfg->server.idle_timeout_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes(h->ctx->cfg),
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, d, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        d, MHD_OPTION_URI_LOG_CALLBACK, on_request_line, NULL, MHD_OPTION_UNESCAPE_CALLBACK,
        on_unescape, NULL, MHD_OPTION_END);
    return d->mhd ? STATUS_OK
                  : error_set(err, STATUS_IO, "http thread %d does not start", h->n_daemons);
}
static void stop_daemons(struct http *h) {
    for (int i = 0; i < h->n_daemons; i++) {
        if (h->daemons[i].mhd) {
            MHD_stop_daemon(h->daemons[i].mhd);
        }
        h->daemons[i].mhd = NULL;
    }
}
void http_close(struct http *h) {
    if (!h) {
        return;
    }
    for (int i = 0; i < h->n_daemons; i++) {
        arena_finish(&h->daemons[i].scratch.arena);
    }
    watch_stop(h->watch);
    if (h->listen_fd >= 0) {
        close(h->listen_fd);
    }
    http_pools_finish(h);
    free(h);
}
enum status http_start(struct http **out, struct server_context *ctx, int *port,
                       struct error *err) {
    struct http *h = xcalloc(1, sizeof(*h));
    h->ctx = ctx;
    h->listen_fd = -1;
    assert(ctx->cfg->server.http_threads <= MAX_HTTP_THREADS);
    enum status s = http_pools_init(h, err);
    if (!s) {
        raise_file_limit((rlim_t)h->n_connections + 64);
        s = watch_start(&h->watch, h->n_connections, err);
    }
    if (!s) {
        s = listen_at(h, port, err);
    }
    while (!s && h->n_daemons < ctx->cfg->server.http_threads) {
        s = daemon_start(h, err);
    }
    if (s) {
        stop_daemons(h);
        http_close(h);
        return s;
    }
    *out = h;
    return STATUS_OK;
}

void http_look(struct http *h) {
    watch_look(h->watch);
}

static void sleep_ms(int ms) {
    const struct timespec t = {.tv_nsec = ms * NS_PER_MS};
    nanosleep(&t, NULL);
}
/* The kernel has made connections that no daemon has taken yet; closing the socket would reset
 * them. */
static void take_backlog(struct http *h) {
    struct sockaddr_storage addr;
    for (int i = 0;; i++) {
        socklen_t n = sizeof(addr);
        const int fd =
            accept4(h->listen_fd, (struct sockaddr *)&addr, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        MHD_add_connection(h->daemons[i % h->n_daemons].mhd, fd, (struct sockaddr *)&addr, n);
    }
}
static void stop_accepting(struct http *h) {
    for (int i = 0; i < h->n_daemons; i++) {
        MHD_quiesce_daemon(h->daemons[i].mhd);
    }
    take_backlog(h);
    /* Not closed yet: a daemon's thread may still be about to accept from it, and would meet
     * whatever has its number by then. */
    shutdown(h->listen_fd, SHUT_RDWR);
}
static bool is_idle(struct http *h, bool with_connections) {
    return !atomic_load(&h->ctx->metrics->slots_used) && !atomic_load(&h->n_resuming) &&
           (!with_connections || !atomic_load(&h->ctx->metrics->connections_open));
}
static bool wait_idle(struct http *h, int64_t until_ns, bool with_connections) {
    while (!is_idle(h, with_connections)) {
        if (time_now_ns() >= until_ns) {
            return false;
        }
        sleep_ms(2);
    }
    return true;
}
static void refuse_the_rest(struct http *h) {
    const int64_t begin_ns = time_now_ns();
    log_event(LOG_WARN, "drain_timeout",
              LOG_INT("requests", (int64_t)atomic_load(&h->ctx->metrics->slots_used)));
    atomic_store(&h->refusing, true);
    do {
        watch_tell_all(h->watch);
        atomic_store(&h->cutting, time_now_ns() - begin_ns > CUT_AFTER_MS * NS_PER_MS);
    } while (!wait_idle(h, time_now_ns() + 20 * NS_PER_MS, false));
}
void http_stop(struct http *h) {
    if (!h) {
        return;
    }
    const int64_t now_ns = time_now_ns();
    const int64_t until_ns = now_ns + h->ctx->cfg->server.drain_timeout_ms * NS_PER_MS;
    const int64_t linger_ns = now_ns + LINGER_MS * NS_PER_MS;
    atomic_store(&h->ctx->draining, true);
    stop_accepting(h);
    wait_idle(h, linger_ns < until_ns ? linger_ns : until_ns, true);
    if (!wait_idle(h, until_ns, false)) {
        refuse_the_rest(h);
    }
    stop_daemons(h);
}
