/* hist.c - a value's bin is its shift, by which its leading one comes to bit 10, and what is left
 * then: for values below 2,048 that is the value itself. A quantile is the upper edge of its bin,
 * so that it never flatters. */
#include "bench/client/hist.h"

#include <math.h>

static int shift_of(int64_t value) {
    const int top = 63 - __builtin_clzll((unsigned long long)value | 1);
    return top > HIST_SUB_BITS ? top - HIST_SUB_BITS : 0;
}
static int bin_of(int64_t value) {
    const int shift = shift_of(value);
    return (shift << HIST_SUB_BITS) + (int)(value >> shift);
}
static int64_t upper_edge(int bin) {
    const int row = bin >> HIST_SUB_BITS, shift = row > 0 ? row - 1 : 0;
    const int64_t mantissa = bin - (shift << HIST_SUB_BITS);
    return ((mantissa + 1) << shift) - 1;
}
static int64_t clamp(int64_t value) {
    const int64_t most = (INT64_C(1) << HIST_MAX_BITS) - 1;
    return value < 0 ? 0 : value > most ? most : value;
}
void hist_record(struct hist *h, int64_t value) {
    const int64_t v = clamp(value);
    h->bins[bin_of(v)]++;
    h->min = h->count == 0 || v < h->min ? v : h->min;
    h->max = v > h->max ? v : h->max;
    h->count++;
    h->sum += (double)v;
}
void hist_add(struct hist *h, const struct hist *other) {
    if (other->count == 0) {
        return;
    }
    for (int i = 0; i < HIST_BINS; i++) {
        h->bins[i] += other->bins[i];
    }
    h->min = h->count == 0 || other->min < h->min ? other->min : h->min;
    h->max = other->max > h->max ? other->max : h->max;
    h->count += other->count;
    h->sum += other->sum;
}
int64_t hist_quantile(const struct hist *h, double q) {
    uint64_t rank = (uint64_t)ceil(q * (double)h->count), seen = 0;
    rank = rank < 1 ? 1 : rank > h->count ? h->count : rank;
    for (int i = 0; h->count > 0 && i < HIST_BINS; i++) {
        seen += h->bins[i];
        if (seen >= rank) {
            const int64_t edge = upper_edge(i);
            return edge < h->max ? edge : h->max;
        }
    }
    return 0;
}
double hist_mean(const struct hist *h) {
    return h->count ? h->sum / (double)h->count : 0;
}
uint64_t hist_count_le(const struct hist *h, int64_t bound) {
    uint64_t n = 0;
    for (int i = 0; i < HIST_BINS && upper_edge(i) <= bound; i++) {
        n += h->bins[i];
    }
    return n;
}
