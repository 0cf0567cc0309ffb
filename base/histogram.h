/* histogram.h - log-linear counts of durations (or any non-negative integers), and their quantiles.
 * Each power of two is cut into HISTOGRAM_SUB parts, so a quantile is off by at most
 * 1/HISTOGRAM_SUB. Threads: record and read from any thread; counters are relaxed atomics. */
#ifndef BERTH_BASE_HISTOGRAM_H
#define BERTH_BASE_HISTOGRAM_H
#include <stdatomic.h>
#include <stdint.h>

enum { HISTOGRAM_SUB = 32, HISTOGRAM_BINS = HISTOGRAM_SUB * 60 };

struct histogram { // zeroed is empty
    atomic_uint_fast64_t bins[HISTOGRAM_BINS];
    atomic_uint_fast64_t count, sum;
};
void histogram_record(struct histogram *h, int64_t value); // below zero counts as zero
/* The upper edge of the bin that holds the q-quantile, 0 <= q <= 1; 0 when empty. */
int64_t histogram_quantile(const struct histogram *h, double q);
/* How many values were at most `bound`, to the accuracy of a bin: for Prometheus' `le`. */
uint64_t histogram_count_le(const struct histogram *h, int64_t bound);
#endif
