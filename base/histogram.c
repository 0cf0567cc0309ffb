/* histogram.c - bins by the position of the highest bit and the HISTOGRAM_SUB parts below it.
 * Values under HISTOGRAM_SUB have a bin each; from there on bin width doubles with every power of
 * two, so the relative error stays below 1 / HISTOGRAM_SUB. Relaxed atomics: a reader may see a
 * record's bin before its count, which a metric can bear. */
#include "base/histogram.h"

enum { SUB_BITS = 5 }; // log2(HISTOGRAM_SUB)
_Static_assert(1 << SUB_BITS == HISTOGRAM_SUB, "SUB_BITS follows HISTOGRAM_SUB");

static int bin_of(uint64_t v) {
    if (v < HISTOGRAM_SUB) {
        return (int)v;
    }
    const int shift = 63 - __builtin_clzll(v) - SUB_BITS;
    const int bin = (shift + 1) * HISTOGRAM_SUB + (int)((v >> shift) - HISTOGRAM_SUB);
    return bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1;
}

static int64_t upper_edge(int bin) { // the largest value that falls into it
    if (bin < HISTOGRAM_SUB) {
        return bin;
    }
    const int shift = bin / HISTOGRAM_SUB - 1;
    return (int64_t)(((uint64_t)(bin % HISTOGRAM_SUB + HISTOGRAM_SUB + 1) << shift) - 1);
}

void histogram_record(struct histogram *h, int64_t value) {
    const uint64_t v = value > 0 ? (uint64_t)value : 0;
    atomic_fetch_add_explicit(&h->bins[bin_of(v)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum, v, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
}

int64_t histogram_quantile(const struct histogram *h, double q) {
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        total += atomic_load_explicit(&h->bins[i], memory_order_relaxed);
    }
    const double want = q * (double)total;
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        seen += atomic_load_explicit(&h->bins[i], memory_order_relaxed);
        if (seen && (double)seen >= want) {
            return upper_edge(i);
        }
    }
    return 0;
}

uint64_t histogram_count_le(const struct histogram *h, int64_t bound) {
    uint64_t seen = 0;
    for (int i = 0; i < HISTOGRAM_BINS && upper_edge(i) <= bound; i++) {
        seen += atomic_load_explicit(&h->bins[i], memory_order_relaxed);
    }
    return seen;
}
