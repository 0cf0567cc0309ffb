/* recorder.h - what lengths are asked for and when, for `berth tune`: exact counts since the start
 * (GET /debug/lengths) and, when a file is named, a trace of arrivals (batching/trace.h). Texts are
 * never part of it. What the batcher refuses is counted too: it was asked for.
 * Threads: note and get from any thread; counts are relaxed atomics, the trace is a bounded ring
 *          that a writer thread empties once a second, so that a slow disk never stops a request.
 * Memory:  all made at start; an arrival that finds the ring full is dropped and counted. */
#ifndef BERTH_SERVER_RECORDER_H
#define BERTH_SERVER_RECORDER_H
#include "batching/trace.h"

struct recorder;
struct recorder_config {
    const char *path;  // "": counts alone. A file that is there becomes PATH.old
    int64_t max_bytes; // of the file; what would pass it is dropped and counted
};
MUST_CHECK enum status recorder_start(struct recorder **out, const struct recorder_config *cfg,
                                      int64_t now_ns, struct error *err);
void recorder_stop(struct recorder *r); // writes what is in the ring; takes NULL
/* n jobs of one request. Takes NULL, which records nothing. */
void recorder_note(struct recorder *r, const struct job *jobs, int n, int64_t now_ns);

struct recorder_stats {
    int64_t since_ns; // how long the counts go back
    int64_t n_jobs, n_tokens;
    double per_second;            // jobs, over the last whole seconds, a minute at most
    int64_t n_written, n_dropped; // of the trace
};
/* `lengths` (may be NULL): longer jobs than TRACE_MAX_TOKENS count there. */
void recorder_get(const struct recorder *r, struct recorder_stats *out, struct lengths *lengths,
                  int64_t now_ns);
#endif
