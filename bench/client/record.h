/* record.h - what one thread has seen, and the sum over threads and rounds. Filled while the load
 * runs, without allocating; read when it is over.
 * Memory: samples are kept up to a fixed number; counts and histograms are of all requests. */
#ifndef BERTH_BENCH_CLIENT_RECORD_H
#define BERTH_BENCH_CLIENT_RECORD_H
#include "bench/client/answer.h"
#include "bench/client/hist.h"

/* How a request can fail. Answers that are not 2xx have kinds of their own. */
enum failure {
    FAILURE_NONE,
    FAILURE_CONNECT,  // refused, unreachable, no port left
    FAILURE_CLOSED,   // the server closed before the answer was whole
    FAILURE_RESET,    // the same with RST
    FAILURE_TIMEOUT,  // no answer in time
    FAILURE_PROTOCOL, // the answer is no HTTP, or too long
    FAILURE_429,
    FAILURE_503,
    FAILURE_504,
    FAILURE_3XX,
    FAILURE_4XX, // others
    FAILURE_5XX, // others
    N_FAILURES,
};
extern const char *const failure_names[N_FAILURES];
enum failure failure_of_status(int http_status);

enum { RECORD_MAX_BUCKETS = 32, RECORD_SLOTS = 256, FAILURE_EXAMPLE_BYTES = 240 };
enum { RECORD_PADDING_BINS = 20 };

/* One request, as it went. */
struct shot {
    int64_t index;
    int64_t due_ns, turned_ns, sent_ns, done_ns; // monotonic; turned: the client took it up
    int n_words;
    bool is_recorded; // false in the warm-up
    bool has_waited;  // for a connection: all were busy
};
struct sample {
    int64_t index, due_ns;                  // since the first recorded moment
    float latency_ms, service_ms, total_ms; // total as the server told; below 0: untold
    float ms[STAGES_MAX];
    uint32_t has;
    int32_t n_words, bucket;
    uint16_t http_status;
    uint8_t failure;
};
struct bucket_record {
    int up_to;
    bool is_told; // by Berth-Batch; else words, rounded up to a power of two
    struct hist latency;
    int64_t queue_n;
    double queue_ms, n_rows, n_tokens; // rows and tokens weighted by 1 / requests of the batch
};
struct slot { // a piece of time
    int64_t n_due, n_ok, n_failed, queue_n;
    double latency_ms, latency_max_ms, queue_ms, queue_max_ms;
};
struct record {
    struct hist latency;  // ns from the intended send, 2xx and timeouts
    struct hist service;  // ns from the real send, 2xx
    struct hist lateness; // ns from the intended send until the client turned to it; not of
                          // requests that waited for a connection
    int64_t n_due, n_ok, n_failed[N_FAILURES];
    int64_t n_ok_in_window; // answered before the schedule's end, whenever they were sent
    int64_t n_waited, n_connects, n_malformed, n_bytes;
    int64_t n_abandoned;                             // in flight when the run was stopped
    char example[N_FAILURES][FAILURE_EXAMPLE_BYTES]; // the first of its kind
    double stage_ms[STAGES_MAX], total_ms, outside_ms;
    int64_t stage_n[STAGES_MAX], total_n;
    int n_buckets;
    struct bucket_record buckets[RECORD_MAX_BUCKETS];
    double padding_bins[RECORD_PADDING_BINS]; // batches, by padding
    double n_batches, batch_rows, batch_tokens, batch_requests;
    struct slot slots[RECORD_SLOTS];
    int64_t slot_ns;
    int64_t begin_ns, end_ns, offset_ns, last_done_ns;
    double cpu_s;
    struct sample *samples; // owned
    int64_t n_samples, max_samples;
};
struct record *record_create(int64_t max_samples);
void record_destroy(struct record *r); // takes NULL
/* Before the first shot. begin_ns: the first recorded moment; end_ns: the schedule's end;
 * offset_ns: where, in the series of slots, this round begins. */
void record_begin(struct record *r, int64_t begin_ns, int64_t end_ns, int64_t offset_ns);
/* A whole answer, of any status. */
void record_answer(struct record *r, const struct shot *shot, const struct answer *a,
                   const struct stages *stages);
/* No answer. `what`: one sentence. */
void record_failure(struct record *r, const struct shot *shot, enum failure kind, const char *what);
/* `other` began with the same offset or a later one. */
void record_add(struct record *sum, const struct record *other);
int64_t record_failures(const struct record *r);
#endif
