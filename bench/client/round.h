/* round.h - one round of load: threads, progress on a terminal, signals; and its sum. */
#ifndef BERTH_BENCH_CLIENT_ROUND_H
#define BERTH_BENCH_CLIENT_ROUND_H
#include "bench/client/plan.h"
#include "bench/client/record.h"

struct round {
    struct record *sum; // owned
    double window_s;    // measured: as planned, or until the last answer, or the stop
    double throughput;  // answers with 2xx a second
    enum stop stop;
    char reason[STOP_REASON_BYTES]; // why it was stopped
    double wall_s;                  // of the threads, warm-up included
};
/* The plan's `offset_ns` and rate are the caller's to set between rounds. SIGINT and SIGTERM stop
 * the round. `title` is for the progress line; NULL: none. */
MUST_CHECK enum status round_run(struct round *out, struct plan *p, int64_t max_samples,
                                 const char *title, struct error *err);
void round_finish(struct round *r); // takes a zeroed one
/* One request on a connection of its own; out->sum has one sample. */
MUST_CHECK enum status round_probe(struct round *out, struct plan *p, struct error *err);
#endif
