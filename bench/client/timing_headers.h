/* timing_headers.h - what a server tells about a request's time: Server-Timing (W3C draft),
 * Berth-Batch, and TEI's x- headers. Pure parsers of bytes from strangers. */
#ifndef BERTH_BENCH_CLIENT_TIMING_HEADERS_H
#define BERTH_BENCH_CLIENT_TIMING_HEADERS_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STAGES_MAX = 20, STAGE_NAME_BYTES = 24 };
/* The names of stages, in the order in which they were first seen; "total" is none of them.
 * Threads: stages_find() from any. */
struct stages {
    char names[STAGES_MAX][STAGE_NAME_BYTES];
    atomic_int n;
    pthread_mutex_t lock;
};
void stages_init(struct stages *s);
void stages_finish(struct stages *s);
/* Its index; a new name is added; -1: it is too long, or there are STAGES_MAX already. */
int stages_find(struct stages *s, const char *name, size_t len);

struct batch_ride { // Berth-Batch; zeroed: there was none
    int n_requests, n_jobs, n_tokens, n_rows, longest, bucket, n_batches;
    double padding;
};
struct timing {
    float ms[STAGES_MAX];
    uint32_t has;    // a bit a stage
    double total_ms; // below 0: not told
    bool has_batch, is_malformed;
    struct batch_ride batch;
};
void timing_start(struct timing *t);
/* A header's value, without spaces around it. What is malformed sets is_malformed and adds nothing.
 * Of a stage that comes twice the first counts. */
void timing_read_server_timing(struct timing *t, struct stages *s, const char *value, size_t len);
void timing_read_batch(struct timing *t, const char *value, size_t len);
/* x-queue-time and its like, whole ms; a header of another name changes nothing. */
void timing_read_tei(struct timing *t, struct stages *s, const char *name, size_t n_name,
                     const char *value, size_t len);
#endif
