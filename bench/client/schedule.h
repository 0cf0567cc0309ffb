/* schedule.h - when each request is due: a rate over time, and how arrivals scatter around it; or
 * the arrivals of a trace. Pure; the same for the same seed on every thread. */
#ifndef BERTH_BENCH_CLIENT_SCHEDULE_H
#define BERTH_BENCH_CLIENT_SCHEDULE_H
#include "base/status.h"
#include "batching/random.h"
#include "batching/trace.h"
#include <stdbool.h>
#include <stdint.h>

enum { SCHEDULE_MAX_PHASES = 64 };
#define SCHEDULE_MAX_RATE 1e6        // requests a second
#define SCHEDULE_MAX_SECONDS 86400.0 // a phase

struct phase { // the rate goes from first to last in a straight line
    double first, last, seconds;
};
struct rate_plan {
    struct phase phases[SCHEDULE_MAX_PHASES];
    int n;
};
/* "100": that rate for `seconds`; "100:10,200:10": steps, rate and seconds; "100-400:30": a ramp.
 * STATUS_INVALID says what is wrong. */
MUST_CHECK enum status rate_plan_parse(struct rate_plan *out, const char *text, double seconds,
                                       struct error *err);
double rate_plan_seconds(const struct rate_plan *p);
double rate_plan_requests(const struct rate_plan *p); // expected

struct schedule {
    enum arrival_kind kind;
    struct rate_plan plan;     // the warm-up is its first phase
    const struct trace *trace; // borrowed; NULL: the plan alone
    double speed;              // of the trace
    double warmup_s;
    struct random random;
    int phase;
    double t, begin; // seconds in the phase; where it begins
    int64_t index;   // of the next arrival after the warm-up
    int64_t n_warm;
    bool is_first;
};
struct due {
    int64_t at_ns; // since the start, warm-up included
    int64_t index; // counts from 0 after the warm-up, and, apart from that, within it
    bool is_warmup;
    const struct arrival *arrival; // of the trace; NULL: none
};
/* `trace`, when not NULL, takes the place of `plan` after the warm-up, `speed` times as fast. */
void schedule_init(struct schedule *s, enum arrival_kind kind, const struct rate_plan *plan,
                   const struct trace *trace, double speed, double warmup_s, uint64_t seed);
bool schedule_next(struct schedule *s, struct due *out); // false: there is no more
#endif
