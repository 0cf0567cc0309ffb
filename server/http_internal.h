/* http_internal.h - what the http*.c files share: daemons, connections, slots.
 *   http.c           listening, the daemons, draining; libmicrohttpd's callbacks
 *   http_gate.c      the first look at a request: framing, type, length
 *   http_admit.c     headers to a slot, or to a refusal
 *   http_exchange.c  body, answer, end
 *   http_wait.c      jobs that are out: queued, given up, done
 *   http_slots.c     the pools of slots and connections
 * Threads: a connection belongs to its daemon's thread; its watch entry's callbacks run on the
 * watch thread and touch only what is said to be theirs. */
#ifndef BERTH_SERVER_HTTP_INTERNAL_H
#define BERTH_SERVER_HTTP_INTERNAL_H
#include "server/response.h"
#include "server/routes.h"
#include "server/watch.h"
#include <pthread.h>

struct MHD_Connection;
struct MHD_Daemon;
enum {
    CHUNKED_OVERRUN_BYTES = 1 << 20, // of a body that turns out too large: swallowed for the 413
    SPARE_CONNECTIONS = 256,         // beyond max_connections: told 503 instead of left hanging
    ADMIN_SLOTS = 2, // beyond max_concurrent_requests: /debug works when all others are taken
    MAX_HTTP_THREADS = 64,
};

/* How an accepted request ended; metrics.h says how they add up. */
enum outcome {
    OUTCOME_OPEN,
    OUTCOME_ANSWERED,
    OUTCOME_REFUSED,
    OUTCOME_EXPIRED,
    OUTCOME_CANCELLED
};
struct slot {
    struct request request; // first: a job knows its request, and that is its slot
    struct connection *connection;
    enum outcome outcome;
    char *body; // in the arena
    size_t body_capacity;
    bool too_large; // the body passed the limit while it came in
    bool submitted; // its jobs have been queued
    struct slot *next_free;
};
struct connection {
    struct http_daemon *daemon;
    struct MHD_Connection *mhd;
    int fd;                    // libmicrohttpd's; valid while `watch` is active
    bool over_limit;           // one more than max_connections
    bool late;                 // the watch has shut the socket; set under its lock
    const struct route *route; // of the exchange under way
    struct slot *slot;         // of the exchange under way; NULL for routes that take none
    int64_t target_bytes;      // of the request line, the query included
    int64_t overrun_bytes;     // of a body that nobody wants
    struct watch_entry watch;
    struct connection *next_free;
};
struct http_daemon {
    struct http *http;
    struct MHD_Daemon *mhd;
    struct request scratch; // for refusals and routes without a body: answered within one call
    struct id_source ids;
};
struct http {
    struct server_context *ctx;
    struct http_daemon daemons[MAX_HTTP_THREADS];
    int n_daemons;
    int listen_fd;
    struct watch *watch;
    atomic_bool refusing;  // draining took too long: what still waits is refused
    atomic_bool cutting;   // and longer: answers that are still being read are cut
    atomic_int n_resuming; // threads inside MHD_resume_connection()

    pthread_mutex_t lock; // of the pools
    struct slot *slots;   // [n_slots], owned
    struct slot *free_slots;
    struct connection *connections; // [n_connections], owned
    struct connection *free_connections;
    int n_slots, n_free_slots, n_connections, n_open;
};

MUST_CHECK enum status http_pools_init(struct http *h, struct error *err);
void http_pools_finish(struct http *h);
struct slot *http_take_slot(struct http *h, bool is_admin); // NULL: none is free
void http_give_slot(struct http *h, struct slot *s);
struct connection *http_take_connection(struct http *h); // NULL: none is free
void http_give_connection(struct http *h, struct connection *c);
/* What one request may use in all; address space until it is written. An ordinary body needs a few
 * times its size for tree and ids; what needs more (a 64-byte node for each two bytes of "1,1,") is
 * refused when it gets there, so that no request can take more than the configuration says. */
size_t http_arena_bytes(const struct config *cfg);

/* An empty request with the id that the client wants; its time begins now. */
void exchange_start(struct request *r, const struct connection *c);
bool exchange_answer(struct connection *c, struct request *r); // sends r->reply
watch_fn exchange_on_body;                                     // while the body comes in
/* Submits the slot's jobs and suspends the connection; and when they are done, answers. */
bool exchange_wait(struct connection *c, struct slot *s);
bool exchange_waited(struct connection *c, struct slot *s);
/* The three calls that libmicrohttpd makes for an exchange; false: it has to close. */
bool exchange_begin(struct connection *c, const char *method, const char *path,
                    const char *version);
bool exchange_body(struct connection *c, const char *bytes, size_t n);
bool exchange_end(struct connection *c); // the body is whole, or the jobs are done
/* The answer has left, or never will (`whole` false). */
void exchange_completed(struct connection *c, bool whole);
void exchange_await_headers(struct connection *c); // of a new connection, or after a request line
#endif
