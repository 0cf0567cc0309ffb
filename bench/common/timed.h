/* timed.h - calls that are timed until a budget is spent, and medians. */
#ifndef BERTH_BENCH_COMMON_TIMED_H
#define BERTH_BENCH_COMMON_TIMED_H

double median_of(double *values, int n); // sorts them; n >= 1

typedef double timed_fn(void *arg); // one call; gives its milliseconds
/* Calls `fn` until `seconds` are over, once at least and `max` times at most; ms: [max]. Gives how
 * many were counted. The first call is a warm-up that does not count unless it took WARM_UP_MS or
 * more: whoever runs in turn with others finds the caches full of their data, which a long call
 * does not feel. */
enum { WARM_UP_MS = 250 };
int time_calls(double *ms, int max, double seconds, timed_fn *fn, void *arg);
#endif
