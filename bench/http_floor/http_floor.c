/* http_floor.c - a bare libmicrohttpd server that answers every request with the bytes that berth's
 * /health answers with: what is left of its rate when berth answers the same is what our front end
 * costs. Threads and flags as in server/http.c: daemons of one thread each on one listening socket.
 *   bench_http_floor [THREADS]      (2)
 * Prints "port N" when it listens on loopback; ends on SIGTERM. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_THREADS = 64, BACKLOG = 1024, CONNECTIONS = 4096, IDLE_TIMEOUT_S = 60 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* The first call is for the headers alone: an answer then would end the connection (keep-alive). */
static enum MHD_Result answer(void *response, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *n_body, void **seen) {
    if (!*seen) {
        *seen = response;
        return MHD_YES;
    }
    *n_body = 0;
    return MHD_queue_response(c, MHD_HTTP_OK, response);
}
static int listen_on_loopback(int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) || listen(fd, BACKLOG) ||
        getsockname(fd, (struct sockaddr *)&at, &len)) {
        die("bench_http_floor: listen");
    }
    *port = ntohs(at.sin_port);
    return fd;
}
static struct MHD_Daemon *start(int fd, struct MHD_Response *response) {
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_Daemon *d =
        MHD_start_daemon(flags, 0, NULL, NULL, answer, response, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S, MHD_OPTION_END);
    if (!d) {
        die("bench_http_floor: libmicrohttpd");
    }
    return d;
}

int main(int argc, char **argv) {
    static char body[] = "{\"status\":\"ready\"}";
    struct MHD_Daemon *daemons[MAX_THREADS];
    const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 2;
    sigset_t end;
    int port, number;
    if (n < 1 || n > MAX_THREADS) {
        fprintf(stderr, "usage: bench_http_floor [THREADS]: 1 to %d\n", MAX_THREADS);
        return 2;
    }
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL); // before the threads, which inherit it
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof(body) - 1, body, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    const int fd = listen_on_loopback(&port);
    for (long i = 0; i < n; i++) {
        daemons[i] = start(fd, response);
    }
    printf("port %d\n", port);
    fflush(stdout);
    sigwait(&end, &number);
    for (long i = 0; i < n; i++) {
        MHD_quiesce_daemon(daemons[i]); // or each would close the one socket
    }
    for (long i = 0; i < n; i++) {
        MHD_stop_daemon(daemons[i]);
    }
    close(fd);
    MHD_destroy_response(response);
    return 0;
}
