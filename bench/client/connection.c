/* connection.c - the steps of a request on a socket: connect, send, receive. A request is sent with
 * one sendmsg of pieces that stay where they are (head, length, JSON, text), so nothing is copied;
 * what the kernel did not take is sent when epoll says so. A connection is registered once, for
 * reading; writing is asked for only while it is needed. */
#include "bench/client/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/timing.h"

enum { N_PIECES = 5 };

static struct outcome going_on(void) {
    return (struct outcome){.is_done = false};
}
static struct outcome failed(struct connection *c, enum failure kind, const char *what) {
    snprintf(c->what, sizeof(c->what), "%s", what);
    connection_close(c);
    c->shot.done_ns = time_now_ns();
    c->shot.sent_ns = c->shot.sent_ns ? c->shot.sent_ns : c->shot.done_ns;
    return (struct outcome){.is_done = true, .failure = kind};
}
static struct outcome failed_errno(struct connection *c, enum failure kind, int code) {
    return failed(c, kind, strerror(code));
}
static enum failure failure_of_errno(int code) {
    return code == ECONNRESET || code == EPIPE ? FAILURE_RESET : FAILURE_CLOSED;
}
void connection_close(struct connection *c) {
    if (c->state != CONNECTION_CLOSED) {
        close(c->fd); // takes it out of epoll too
    }
    c->state = CONNECTION_CLOSED;
}

/* Asks epoll for writing, or no more. False: errno. */
static bool watch(struct connection *c, int epoll_fd, int op, bool for_writing) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    e.events |= for_writing ? EPOLLOUT : 0U;
    return epoll_ctl(epoll_fd, op, c->fd, &e) == 0;
}
static size_t fill_pieces(const struct connection *c, const struct plan *p,
                          struct iovec pieces[N_PIECES]) {
    const struct {
        const char *bytes;
        size_t len;
    } all[N_PIECES] = {{p->head, p->n_head},
                       {c->length_line, strlen(c->length_line)},
                       {p->before, p->has_body ? strlen(p->before) : 0},
                       {c->text.bytes, p->has_body ? (size_t)c->text.len : 0},
                       {p->after, p->has_body ? strlen(p->after) : 0}};
    size_t skip = c->n_sent, n = 0;
    for (int i = 0; i < N_PIECES; i++) {
        const size_t cut = skip < all[i].len ? skip : all[i].len;
        skip -= cut;
        if (all[i].len > cut) {
            pieces[n++] = (struct iovec){(void *)(uintptr_t)(all[i].bytes + cut), all[i].len - cut};
        }
    }
    return n;
}
static struct outcome send_rest(struct connection *c, const struct plan *p, int epoll_fd) {
    const bool was_waiting = c->state == CONNECTION_SENDING || c->state == CONNECTION_CONNECTING;
    for (;;) {
        struct iovec pieces[N_PIECES];
        const size_t n_pieces = fill_pieces(c, p, pieces);
        if (n_pieces == 0) {
            break;
        }
        const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = n_pieces};
        const ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (n >= 0) {
            c->n_sent += (size_t)n;
        } else if (errno == EAGAIN) {
            c->state = CONNECTION_SENDING;
            if (!was_waiting && !watch(c, epoll_fd, EPOLL_CTL_MOD, true)) {
                return failed_errno(c, FAILURE_CONNECT, errno);
            }
            return going_on();
        } else if (errno != EINTR) {
            break; // it may have answered before it closed: reading will tell
        }
    }
    c->state = CONNECTION_WAITING;
    if (was_waiting && !watch(c, epoll_fd, EPOLL_CTL_MOD, false)) {
        return failed_errno(c, FAILURE_CONNECT, errno);
    }
    return going_on();
}
static struct outcome open_socket(struct connection *c, const struct plan *p, int epoll_fd) {
    const int one = 1;
    c->fd = socket(p->address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        return failed_errno(c, FAILURE_CONNECT, errno);
    }
    c->state = CONNECTION_CONNECTING;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); // slower, not wrong
    if (connect(c->fd, (const struct sockaddr *)&p->address.storage, p->address.len) &&
        errno != EINPROGRESS) {
        return failed_errno(c, FAILURE_CONNECT, errno);
    }
    if (!watch(c, epoll_fd, EPOLL_CTL_ADD, true)) {
        return failed_errno(c, FAILURE_CONNECT, errno);
    }
    return going_on();
}
struct outcome connection_begin(struct connection *c, const struct plan *p, int epoll_fd) {
    const size_t n = strlen(p->before) + (size_t)c->text.len + strlen(p->after);
    if (p->has_body) {
        snprintf(c->length_line, sizeof(c->length_line), "Content-Length: %zu\r\n\r\n", n);
    } else {
        snprintf(c->length_line, sizeof(c->length_line), "\r\n");
    }
    c->n_sent = 0;
    answer_start(&c->answer);
    if (c->state == CONNECTION_CLOSED) {
        return open_socket(c, p, epoll_fd);
    }
    c->shot.sent_ns = time_now_ns();
    return send_rest(c, p, epoll_fd);
}

static struct outcome finish(struct connection *c, size_t n_left) {
    if (n_left > 0) {
        return failed(c, FAILURE_PROTOCOL, "the answer is no HTTP: bytes behind it");
    }
    c->shot.done_ns = time_now_ns();
    if (c->answer.closes || c->state == CONNECTION_SENDING) { // answered before all was sent

        connection_close(c);
    } else {
        c->state = CONNECTION_IDLE;
    }
    return (struct outcome){.is_done = true};
}
static struct outcome ended(struct connection *c, int code) {
    if (code == 0 && answer_end(&c->answer)) {
        return finish(c, 0);
    }
    if (code) {
        return failed_errno(c, failure_of_errno(code), code);
    }
    return failed(c, FAILURE_CLOSED,
                  answer_has_begun(&c->answer) ? "the server closed in the middle of an answer"
                                               : "the server closed without an answer");
}
static struct outcome receive(struct connection *c, const struct plan *p, char *buffer,
                              size_t size) {
    struct error err = {""};
    size_t used = 0;
    const ssize_t n = recv(c->fd, buffer, size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return going_on();
    }
    if (n <= 0) {
        return ended(c, n < 0 ? errno : 0);
    }
    if (answer_feed(&c->answer, &p->rules, buffer, (size_t)n, &used, &err)) {
        return failed(c, FAILURE_PROTOCOL, err.text);
    }
    return c->answer.state == ANSWER_DONE ? finish(c, (size_t)n - used) : going_on();
}
static struct outcome connected(struct connection *c, const struct plan *p, int epoll_fd) {
    int code = 0;
    socklen_t len = sizeof(code);
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &code, &len) || code) {
        return failed_errno(c, FAILURE_CONNECT, code ? code : errno);
    }
    c->shot.sent_ns = time_now_ns();
    return send_rest(c, p, epoll_fd);
}
struct outcome connection_ready(struct connection *c, const struct plan *p, int epoll_fd,
                                uint32_t events, char *buffer, size_t size) {
    if (c->state == CONNECTION_IDLE) {
        connection_close(c); // closed by the server between two requests, or bytes nobody asked for
        return going_on();
    }
    if (c->state == CONNECTION_CONNECTING) {
        return connected(c, p, epoll_fd);
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        return receive(c, p, buffer, size);
    }
    return send_rest(c, p, epoll_fd);
}
