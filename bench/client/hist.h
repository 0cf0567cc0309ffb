/* hist.h - counts of latencies in log-linear bins, fine enough for a p99.9: each power of two is
 * cut into 1,024, so a quantile is less than 0.1 % above the true one (the accuracy of HdrHistogram
 * with three digits; values below 2,048 are exact). base/histogram.h is coarser, and atomic.
 * Threads: one thread records; hist_add() when it has ended. */
#ifndef BERTH_BENCH_CLIENT_HIST_H
#define BERTH_BENCH_CLIENT_HIST_H
#include <stdint.h>

enum {
    HIST_SUB_BITS = 10,
    HIST_MAX_BITS = 40, // in ns some 18 minutes; what is above counts as the largest
    HIST_BINS = (HIST_MAX_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS,
};
struct hist { // zeroed is empty
    uint64_t bins[HIST_BINS];
    uint64_t count;
    double sum;
    int64_t min, max; // exact
};
void hist_record(struct hist *h, int64_t value); // below zero counts as zero
void hist_add(struct hist *h, const struct hist *other);
/* The upper edge of the bin that holds the q-quantile (nearest rank), at most `max`; 0 when empty.
 */
int64_t hist_quantile(const struct hist *h, double q);
double hist_mean(const struct hist *h);
/* How many values were at most `bound`, to the accuracy of a bin. */
uint64_t hist_count_le(const struct hist *h, int64_t bound);
#endif
