/* scrape.c - one request on a connection that the server closes; what comes is text. */
#include "bench/experiment/scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20, TIMEOUT_S = 10 };

static int connect_to(int port) {
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = TIMEOUT_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at))) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}
static bool ask(int fd, char *text) {
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    size_t n = 0;
    ssize_t got = 1;
    if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1) {
        return false;
    }
    while (got > 0 && n < MAX_BYTES - 1) {
        got = recv(fd, text + n, MAX_BYTES - 1 - n, 0);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = '\0';
    return got == 0 && !strncmp(text, "HTTP/1.1 200", 12);
}
double metric_of(const char *text, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, name, n) && line[n] == ' ') {
            return strtod(line + n, NULL);
        }
    }
    return 0;
}
enum status scrape(struct counters *out, int port, struct error *err) {
    static const char *const parts[] = {"attention", "gemm", "layernorm", "embed", "head"};
    char *text = xcalloc(MAX_BYTES, 1);
    const int fd = connect_to(port);
    const bool is_well = fd >= 0 && ask(fd, text);
    *out = (struct counters){.tokens = metric_of(text, "berth_tokens_total"),
                             .rows = metric_of(text, "berth_rows_total")};
    for (size_t i = 0; i < N_ITEMS(parts); i++) {
        char name[80];
        snprintf(name, sizeof(name), "berth_op_seconds_total{op=\"%s\"}", parts[i]);
        const double s = metric_of(text, name);
        out->compute_s += s;
        out->attention_s += i == 0 ? s : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return is_well ? STATUS_OK
                   : error_set(err, STATUS_IO, "/metrics of port %d: no whole answer", port);
}
