/* connection.h - one keep-alive connection and the request that is under way on it. No pipelining:
 * one request, then its answer. Never blocks. */
#ifndef BERTH_BENCH_CLIENT_CONNECTION_H
#define BERTH_BENCH_CLIENT_CONNECTION_H
#include "bench/client/plan.h"
#include "bench/client/record.h"

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_CONNECTING, // with a request that waits for it
    CONNECTION_SENDING,    // the kernel did not take all of it
    CONNECTION_WAITING,
    CONNECTION_IDLE,
};
struct connection {
    int fd;
    enum connection_state state;
    struct shot shot;
    struct text_slice text;
    char length_line[48];
    size_t n_sent;
    int64_t rest_until_ns;          // closed loop: not before then
    struct connection *prev, *next; // in the loop's list of its state
    char what[FAILURE_EXAMPLE_BYTES];
    struct answer answer;
};
/* What became of a step. Where it failed, `what` of the connection says it in words. */
struct outcome {
    bool is_done; // the answer is whole, or the request has failed; shot.done_ns is set
    enum failure failure;
};
/* Sends `c->shot`, connecting first where it is closed. */
struct outcome connection_begin(struct connection *c, const struct plan *p, int epoll_fd);
/* After epoll said that it is ready; buffer for reading. */
struct outcome connection_ready(struct connection *c, const struct plan *p, int epoll_fd,
                                uint32_t events, char *buffer, size_t size);
void connection_close(struct connection *c);
#endif
