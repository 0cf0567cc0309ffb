/* http_get.c - one request of HTTP/1.0 on a connection of its own: the answer ends where the
 * connection does, so there is nothing to parse but the first line and the blank one. Blocking,
 * with time limits of the socket. */
#include "server/http_get.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMEOUT_S = 10, MAX_ANSWER_BYTES = 8 << 20, MAX_HOST = 256 };

struct place {
    char host[MAX_HOST], port[8];
};
static enum status parse_url(struct place *out, const char *url, struct error *err) {
    static const char scheme[] = "http://";
    const size_t n_scheme = sizeof(scheme) - 1;
    const char *at = url + n_scheme;
    if (strncmp(url, scheme, n_scheme)) {
        return error_set(err, STATUS_INVALID,
                         "%.100s: a URL like http://127.0.0.1:8080 is expected", url);
    }
    const bool has_brackets = *at == '[';
    at += has_brackets;
    const size_t n_host = strcspn(at, has_brackets ? "]" : ":/");
    const char *rest = at + n_host + (has_brackets && at[n_host]);
    const size_t n_port = *rest == ':' ? strspn(rest + 1, "0123456789") : 0;
    const char *end = rest + (*rest == ':') + n_port;
    if (n_host == 0 || n_host >= MAX_HOST || n_port > 5 || (*rest == ':' && n_port == 0) ||
        (*end && strcmp(end, "/"))) {
        return error_set(err, STATUS_INVALID,
                         "%.100s: http://HOST:PORT is expected, without a path", url);
    }
    snprintf(out->host, sizeof(out->host), "%.*s", (int)n_host, at);
    snprintf(out->port, sizeof(out->port), "%.*s", n_port ? (int)n_port : 2,
             n_port ? rest + 1 : "80");
    return STATUS_OK;
}

static int connect_to(const struct addrinfo *a) {
    const struct timeval limit = {.tv_sec = TIMEOUT_S};
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); // connect() keeps to it too
    if (connect(fd, a->ai_addr, a->ai_addrlen)) {
        const int e = errno;
        close(fd);
        errno = e;
        return -1;
    }
    return fd;
}
static enum status open_place(int *fd, const struct place *p, const char *url, struct error *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int rc = getaddrinfo(p->host, p->port, &hints, &found);
    if (rc) {
        return error_set(err, STATUS_IO, "%.100s: %s", url, gai_strerror(rc));
    }
    *fd = -1;
    for (const struct addrinfo *a = found; a && *fd < 0; a = a->ai_next) {
        *fd = connect_to(a);
    }
    const int e = errno;
    freeaddrinfo(found);
    return *fd < 0 ? error_set(err, STATUS_IO, "%.100s: %s", url, strerror(e)) : STATUS_OK;
}

static bool send_all(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        const ssize_t done = send(fd, bytes, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes += done, n -= (size_t)done;
    }
    return true;
}
struct question {
    const char *method, *path, *secret, *body; // NULL: no secret, no body
};
static bool send_request(int fd, const struct place *p, const struct question *q) {
    char text[2048];
    const size_t n_body = q->body ? strlen(q->body) : 0;
    int n = snprintf(text, sizeof(text), "%s %s HTTP/1.0\r\nHost: %s\r\n%s%s%s", q->method, q->path,
                     p->host, q->secret ? "Authorization: Bearer " : "", q->secret ? q->secret : "",
                     q->secret ? "\r\n" : "");
    if (n < 0 || (size_t)n >= sizeof(text)) {
        return false;
    }
    const size_t room = sizeof(text) - (size_t)n;
    const int more =
        q->body ? snprintf(text + n, room,
                           "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", n_body)
                : snprintf(text + n, room, "\r\n");
    return more > 0 && (size_t)more < room && send_all(fd, text, (size_t)(n + more)) &&
           send_all(fd, q->body ? q->body : "", n_body);
}
/* Until the connection ends; -1: an error, or too much. */
static ssize_t receive_all(int fd, char *bytes, size_t size) {
    size_t n = 0;
    while (n < size) {
        const ssize_t got = recv(fd, bytes + n, size - n, 0);
        if (got == 0) {
            return (ssize_t)n;
        }
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        n += got > 0 ? (size_t)got : 0;
    }
    errno = EMSGSIZE;
    return -1;
}
/* Leaves the body alone in `answer`. */
static enum status take_body(char *answer, size_t *len, const char *url, const char *path,
                             struct error *err) {
    const char *end = strstr(answer, "\r\n\r\n");
    int http_status = 0;
    if (!end || sscanf(answer, "HTTP/1.%*d %d", &http_status) != 1) {
        return error_set(err, STATUS_IO, "%.100s%s: the answer is no HTTP", url, path);
    }
    const size_t head = (size_t)(end - answer) + 4;
    *len -= head;
    memmove(answer, answer + head, *len + 1);
    if (http_status != 200) {
        answer[strcspn(answer, "\r\n")] = 0;
        const bool is_refused = http_status >= 400 && http_status < 500;
        return error_set(err, is_refused ? STATUS_INVALID : STATUS_IO,
                         "%.100s%s: status %d: %.200s", url, path, http_status, answer);
    }
    return STATUS_OK;
}
static enum status ask(char **body, size_t *len, const char *url, const struct question *q,
                       struct error *err) {
    struct place p;
    int fd = -1;
    enum status s = parse_url(&p, url, err);
    if (s) {
        return s;
    }
    s = open_place(&fd, &p, url, err);
    if (s) {
        return s;
    }
    char *answer = xcalloc(MAX_ANSWER_BYTES + 1, 1);
    const ssize_t n = send_request(fd, &p, q) ? receive_all(fd, answer, MAX_ANSWER_BYTES) : -1;
    if (n < 0) {
        s = error_set(err, STATUS_IO, "%.100s%s: %s", url, q->path, strerror(errno));
    }
    close(fd);
    *len = n < 0 ? 0 : (size_t)n;
    if (!s) {
        s = take_body(answer, len, url, q->path, err);
    }
    if (s) {
        free(answer);
        return s;
    }
    *body = answer;
    return STATUS_OK;
}
enum status http_get(char **body, size_t *len, const char *url, const char *path,
                     const char *secret, struct error *err) {
    const struct question q = {"GET", path, secret, NULL};
    return ask(body, len, url, &q, err);
}
enum status http_put(const char *url, const char *path, const char *json, const char *secret,
                     struct error *err) {
    const struct question q = {"PUT", path, secret, json};
    char *body = NULL;
    size_t len = 0;
    const enum status s = ask(&body, &len, url, &q, err);
    free(body);
    return s;
}
