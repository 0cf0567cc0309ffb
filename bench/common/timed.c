/* timed.c - the loop around what is timed. */
#include "bench/common/timed.h"

#include "base/timing.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
double median_of(double *values, int n) {
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int time_calls(double *ms, int max, double seconds, timed_fn *fn, void *arg) {
    int n = 0;
    ms[0] = fn(arg);
    n += ms[0] >= WARM_UP_MS;
    const int64_t end = time_now_ns() + (int64_t)(seconds * NS_PER_S);
    while (n < max && (n == 0 || time_now_ns() < end)) {
        ms[n++] = fn(arg);
    }
    return n;
}
