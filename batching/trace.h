/* trace.h - arrivals over time, and histograms of lengths: what the server records, the simulator
 * plays and the tuner reads. Texts are never part of it. Allocates; for tools and tests, but for
 * trace_write() and trace_write_header().
 * File: CSV with the header "at_ms,tokens,priority,key", a line an arrival, ms since the first with
 * 3 decimals, never falling; priority and key may be missing (then the header lacks them too). */
#ifndef BERTH_BATCHING_TRACE_H
#define BERTH_BATCHING_TRACE_H
#include "batching/job.h"
#include <stdio.h>

enum { TRACE_MAX_ARRIVALS = 10 * 1000 * 1000, TRACE_MAX_TOKENS = 8192 };

struct arrival {
    int64_t at_ns; // since the start
    int n_tokens;
    enum priority priority;
    int key;
    int64_t deadline_ns; // the client's own, after arrival; 0: none. Not in the file
};
struct trace { // owns `arrivals`, which do not fall in time
    struct arrival *arrivals;
    int n, capacity;
};
void trace_finish(struct trace *t); // takes a zeroed one
void trace_add(struct trace *t, const struct arrival *a);
/* Into a zeroed trace. Errors: STATUS_IO; STATUS_INVALID with the line; `out` is then as it was. At
 * most TRACE_MAX_ARRIVALS lines. */
MUST_CHECK enum status trace_read(struct trace *out, const char *path, struct error *err);
/* The same from a stream that stays the caller's; `name` is what errors call it. */
MUST_CHECK enum status trace_read_stream(struct trace *out, FILE *in, const char *name,
                                         struct error *err);
void trace_write_header(FILE *out);
void trace_write(FILE *out, const struct arrival *a);

/* Lengths to draw from; counts need not be normalised. Index = tokens. */
struct lengths {
    int64_t count[TRACE_MAX_TOKENS + 1];
};
void lengths_of_trace(struct lengths *out, const struct trace *t);
double lengths_mean(const struct lengths *l); // 0 when empty
/* Shapes by name: "chat", "reviews", "queries", "documents", "bimodal" (the five mixes that the
 * tuner is tested on), "mixed" (the load of bench/workload.py), or "fixed:N",
 * "lognormal:MEDIAN:SIGMA". What would be outside of [min, max] (1 <= min <= max) counts as the
 * nearer end, as texts are cut there. In closed form: no seed. STATUS_INVALID names what there is.
 */
MUST_CHECK enum status lengths_named(struct lengths *out, const char *name, int min, int max,
                                     struct error *err);

enum arrival_kind { ARRIVE_CONSTANT, ARRIVE_POISSON, ARRIVE_BURSTS, N_ARRIVAL_KINDS };
extern const char *const arrival_kind_names[N_ARRIVAL_KINDS]; // "constant", "poisson", "bursts"
/* Adds n arrivals at `rate` a second to a zeroed trace, lengths drawn from `lengths` (not empty):
 * evenly spaced, exponential gaps, or gaps of a gamma law of shape 0.25 (bursts, variance 4 times
 * Poisson's). The same for the same seed. */
void trace_generate(struct trace *out, enum arrival_kind kind, double rate, int n,
                    const struct lengths *lengths, uint64_t seed);
/* Puts the arrivals of `other` between those of `t`, in order of time. */
void trace_merge(struct trace *t, const struct trace *other);
#endif
