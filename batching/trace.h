/* trace.h - arrivals over time, and histograms of lengths: what the server records, the simulator
 * plays and the tuner reads. Texts are never part of it.
 * File: CSV with the header "at_ms,tokens,priority,key", a line an arrival, ms since the first with
 * 3 decimals, rising; priority and key may be missing. */
#ifndef BERTH_BATCHING_TRACE_H
#define BERTH_BATCHING_TRACE_H
#include "batching/job.h"
#include <stdio.h>

struct arrival {
    int64_t at_ns; // since the start
    int n_tokens;
    enum priority priority;
    int key;
    int64_t deadline_ns; // after arrival; 0: none
};
struct trace { // owns `arrivals`
    struct arrival *arrivals;
    int n, capacity;
};
void trace_finish(struct trace *t); // takes a zeroed one
void trace_add(struct trace *t, const struct arrival *a);
/* Errors: STATUS_IO; STATUS_INVALID with the line. At most a fixed number of lines (10 million). */
MUST_CHECK enum status trace_read(struct trace *out, const char *path, struct error *err);
void trace_write_header(FILE *out);
void trace_write(FILE *out, const struct arrival *a);

/* Lengths to draw from; counts need not be normalised. Index = tokens. */
enum { TRACE_MAX_TOKENS = 8192 };
struct lengths {
    int64_t count[TRACE_MAX_TOKENS + 1];
};
void lengths_of_trace(struct lengths *out, const struct trace *t);
/* Shapes by name, cut to [min, max]: "chat", "reviews", "queries", "documents", "bimodal" (the five
 * mixes that the tuner is tested on), "mixed" (the load of bench/workload.py), or "fixed:N",
 * "lognormal:MEDIAN:SIGMA". STATUS_INVALID names what there is. */
MUST_CHECK enum status lengths_named(struct lengths *out, const char *name, int min, int max,
                                     struct error *err);

enum arrival_kind { ARRIVE_CONSTANT, ARRIVE_POISSON, ARRIVE_BURSTS }; // bursts: gamma, shape 0.25
/* n arrivals at `rate` a second, lengths drawn from `lengths`; the same for the same seed. */
void trace_generate(struct trace *out, enum arrival_kind kind, double rate, int n,
                    const struct lengths *lengths, uint64_t seed);
#endif
