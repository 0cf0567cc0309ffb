/* request.h - one HTTP exchange: its slot, its jobs, its answer. Knows nothing of libmicrohttpd.
 * Owner:   the slot pool in http.c; everything a request needs lives in its arena until the
 * response has left. Threads: the connection's thread, except `pending`, which workers count down,
 * and what watch.c sets under its lock. */
#ifndef BERTH_SERVER_REQUEST_H
#define BERTH_SERVER_REQUEST_H
#include "base/arena.h"
#include "base/timing.h"
#include "batching/job.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "tokenizer/tokenizer.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct request_header {
    const char *name, *value;
};
enum { REPLY_MAX_HEADERS = 24, REQUEST_ID_BYTES = 65 };
struct reply {
    int http_status; // 0: not yet decided
    const char *content_type;
    const char *body; // in the request's arena, or static
    size_t body_len;
    struct request_header headers[REPLY_MAX_HEADERS]; // values in the arena, or static
    int n_headers;
};
/* The text or pair of texts behind one job. */
struct input {
    struct text first, second;
    bool is_pair;
    int64_t n_tokens_uncut;
    int job;                        // index; -1: it has none, because of `error`
    const char *error, *error_type; // in the arena; NULL: none
};
/* Who asks, and how urgently: from the headers (access.h). */
struct caller {
    char key_name[KEY_NAME_BYTES]; // "": no keys are configured
    int key;                       // its index
    enum priority priority;
    int64_t deadline_ns; // monotonic, the client's own; 0: none
};
struct request {
    struct arena arena;
    const struct route *route;
    char
        id[REQUEST_ID_BYTES]; // the client's X-Request-Id when it is printable and short, else made
    struct caller caller;
    bool wants_profile;   // Berth-Profile: 1
    int n_profile_layers; // of the jobs' profile_ns, when they have one
    const char *body;     // in the arena
    size_t body_len;
    struct stage_clock clock;

    struct input *inputs; // [n_inputs]
    struct job *jobs;     // [n_jobs]; n_jobs is 0 where the route needs no forward pass
    int n_inputs, n_jobs; // fewer jobs than inputs when some have failed before
    bool is_batch;        // the answer is a list of lists
    bool is_partial;      // an input that fails has its error in its place, the others go on
    bool raw_scores;
    int64_t n_chars;    // Unicode code points of all inputs
    int n_truncated;    // inputs that were cut
    atomic_int pending; // jobs not done
    atomic_int
        ended; // enum status: STATUS_TIMEOUT or STATUS_CANCELLED, when watch.c ended it early
    struct reply reply;
};
void request_reset(struct request *r); // ready for the next exchange; the arena is reset
/* Random bits for ids, several fetched at a time. One thread's own; zeroed is empty. */
enum { ID_SOURCE_IDS = 16 };
struct id_source {
    uint64_t bits[2 * ID_SOURCE_IDS];
    int n_left; // ids
};
/* Takes an id for logs and the X-Request-Id header; `wanted` may be NULL. */
void request_set_id(struct request *r, struct id_source *ids, const char *wanted);
#endif
