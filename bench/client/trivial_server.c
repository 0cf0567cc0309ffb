/* trivial_server.c - answers every request with the same bytes, at once or after a fixed time, on
 * one thread: what the load client's own rate and accuracy are measured against, and wrk and h2load
 * beside it. It reads no more of HTTP than where a request ends. Loopback only.
 *   trivial_server [port=N] [delay_us=N] [timing=1] [status=N]
 * Prints "port N" when it listens; ends on SIGTERM. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/status.h"
#include "base/timing.h"

enum { BUFFER_BYTES = 1 << 16, MAX_FDS = 16384, EVENTS = 64, ANSWER_BYTES = 512 };

struct client {
    char *buffer; // owned, of what came
    size_t n;
    bool is_open, is_waiting;
};
struct pending {
    int fd;
    int64_t due_ns;
};
struct server {
    int listen_fd, epoll_fd, timer_fd;
    int64_t delay_ns;
    char answer[ANSWER_BYTES];
    size_t n_answer;
    struct client clients[MAX_FDS];
    struct pending pending[MAX_FDS]; // a ring: one delay for all, so the first is due first
    int first, n_pending;
};

static void hang_up(struct server *s, int fd) {
    free(s->clients[fd].buffer);
    s->clients[fd] = (struct client){.buffer = NULL};
    close(fd);
}
static void answer(struct server *s, int fd) {
    s->clients[fd].is_waiting = false;
    if (send(fd, s->answer, s->n_answer, MSG_NOSIGNAL) != (ssize_t)s->n_answer) {
        hang_up(s, fd);
    }
}
static void set_timer(const struct server *s) {
    const int64_t at_ns = s->pending[s->first].due_ns;
    const struct itimerspec at = {
        .it_value = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S}};
    timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}
static void answer_due(struct server *s) {
    while (s->n_pending > 0 && s->pending[s->first].due_ns <= time_now_ns()) {
        const int fd = s->pending[s->first].fd;
        s->first = (s->first + 1) % MAX_FDS;
        s->n_pending--;
        if (s->clients[fd].is_waiting) {
            answer(s, fd);
        }
    }
    if (s->n_pending > 0) {
        set_timer(s);
    }
}
/* The length of the request at the buffer's front; 0 when it is not whole. */
static size_t request_length(const struct client *c) {
    static const char name[] = "\r\ncontent-length:";
    const char *end = memmem(c->buffer, c->n, "\r\n\r\n", 4);
    if (!end) {
        return 0;
    }
    const size_t n_head = (size_t)(end - c->buffer) + 4;
    size_t n_body = 0;
    for (const char *at = c->buffer; at + sizeof(name) < end; at++) {
        if (*at == '\r' && !strncasecmp(at, name, sizeof(name) - 1)) {
            n_body = strtoul(at + sizeof(name) - 1, NULL, 10);
        }
    }
    return c->n >= n_head + n_body ? n_head + n_body : 0;
}
static void read_from(struct server *s, int fd) {
    struct client *c = &s->clients[fd];
    const ssize_t n = recv(fd, c->buffer + c->n, BUFFER_BYTES - 1 - c->n, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN) {
            hang_up(s, fd);
        }
        return;
    }
    c->n += (size_t)n;
    c->buffer[c->n] = '\0';
    const size_t taken = request_length(c);
    if (taken == 0) {
        return;
    }
    memmove(c->buffer, c->buffer + taken, c->n - taken);
    c->n -= taken;
    if (s->delay_ns == 0) {
        answer(s, fd);
        return;
    }
    c->is_waiting = true;
    s->pending[(s->first + s->n_pending++) % MAX_FDS] =
        (struct pending){fd, time_now_ns() + s->delay_ns};
    if (s->n_pending == 1) {
        set_timer(s);
    }
}
static void accept_all(struct server *s) {
    const int one = 1;
    for (;;) {
        const int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        if (fd >= MAX_FDS || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e)) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        s->clients[fd] = (struct client){.buffer = xcalloc(BUFFER_BYTES, 1), .is_open = true};
    }
}
static void make_answer(struct server *s, int status, bool has_timing) {
    s->n_answer = (size_t)snprintf(
        s->answer, sizeof(s->answer),
        "HTTP/1.1 %d Some\r\nContent-Type: application/json\r\n%sContent-Length: 2\r\n\r\n[]",
        status,
        has_timing ? "Server-Timing: queue;dur=3.000, infer;dur=1.000, total;dur=4.000\r\n"
                     "Berth-Batch: requests=2, jobs=2, tokens=30, rows=40, longest=20, bucket=32, "
                     "padding=0.250, mode=bucketed\r\n"
                   : "");
}
static bool listen_on(struct server *s, int port) {
    const int one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event on_accept = {.events = EPOLLIN, .data.fd = s->listen_fd};
    struct epoll_event on_timer = {.events = EPOLLIN | EPOLLET, .data.fd = s->timer_fd};
    if (setsockopt(s->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        bind(s->listen_fd, (struct sockaddr *)&address, len) || listen(s->listen_fd, 4096) ||
        getsockname(s->listen_fd, (struct sockaddr *)&address, &len) ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &on_accept) ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->timer_fd, &on_timer)) {
        perror("trivial_server");
        return false;
    }
    printf("port %d\n", ntohs(address.sin_port));
    return fflush(stdout) == 0;
}
static void serve(struct server *s) {
    struct epoll_event events[EVENTS];
    for (;;) {
        const int n = epoll_wait(s->epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            const int fd = events[i].data.fd;
            if (fd == s->listen_fd) {
                accept_all(s);
            } else if (fd != s->timer_fd && s->clients[fd].is_open) {
                read_from(s, fd);
            }
        }
        answer_due(s);
    }
}
int main(int argc, char **argv) {
    struct server *s = xcalloc(1, sizeof(*s));
    int port = 0, status = 200, delay_us = 0, has_timing = 0;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "port=%5d", &port) != 1 &&
            sscanf(argv[i], "status=%3d", &status) != 1 &&
            sscanf(argv[i], "delay_us=%8d", &delay_us) != 1 &&
            sscanf(argv[i], "timing=%1d", &has_timing) != 1) {
            fprintf(stderr, "trivial_server: unknown word %s\n", argv[i]);
            return 2;
        }
    }
    s->delay_ns = delay_us * INT64_C(1000);
    make_answer(s, status, has_timing);
    if (!listen_on(s, port)) {
        return 1;
    }
    serve(s);
    return 0;
}
