/* tuner_bounds.c - the exact dynamic programme for bucket bounds.
 * An optimal bound is a length that occurs (lowering one to the longest length below it costs
 * nothing), or `last`. With the distinct lengths l_1 < .. < l_n, their counts summed up to P_j and
 * f(x) = b x + c x^2, jobs i+1 .. j computed at l_j cost w(i, j) = (P_j - P_i) f(l_j), and
 *   D_m(j) = min over i < j of D_{m-1}(i) + w(i, j),  D_m(0) = 0: at most m bounds.
 * w has the quadrangle inequality: for i <= i' <= j <= j',
 *   w(i, j) + w(i', j') - w(i, j') - w(i', j) = (P_i' - P_i) (f(l_j) - f(l_j')) <= 0,
 * since counts are not negative and f does not fall. So the smallest best i does not fall as j
 * rises (Yao 1980), and a row of the table is filled in strides: the middle of two known j's looks
 * only between their best i's. O(k n log n), no recursion, the same minimum as trying every i. */
#include "batching/tuner.h"

#include <assert.h>
#include <stdlib.h>

struct bounds_table {
    int n;                              // distinct lengths, `last` among them
    int length[TRACE_MAX_TOKENS + 2];   // [1 .. n], rising
    double below[TRACE_MAX_TOKENS + 2]; // P: jobs of at most length[j]; 0 for j = 0
    double each[TRACE_MAX_TOKENS + 2];  // f(length[j])
    double cost[TRACE_MAX_TOKENS + 2], before[TRACE_MAX_TOKENS + 2]; // D_m, D_{m-1}
    int *best;                                                       // [k][n + 1], owned
};

/* Longer jobs than `last` do not exist for a server; they count as cut there. */
static void fill_lengths(struct bounds_table *t, const struct lengths *lengths, int last,
                         const double coef[COST_TERMS]) {
    double below = 0;
    for (int len = 1; len <= TRACE_MAX_TOKENS; len++) {
        const int computed = len < last ? len : last;
        if (lengths->count[len] <= 0) {
            continue;
        }
        below += (double)lengths->count[len];
        t->n += t->length[t->n] != computed;
        t->length[t->n] = computed;
        t->below[t->n] = below;
    }
    if (t->length[t->n] != last) {
        t->n++;
        t->length[t->n] = last;
        t->below[t->n] = below;
    }
    for (int j = 1; j <= t->n; j++) {
        const double x = t->length[j];
        t->each[j] = coef[1] * x + coef[2] * x * x;
    }
}

/* D_m(j), looking at i in [lo, hi]; best[j] is the smallest best i. */
static void fill_one(struct bounds_table *t, int *best, int j, int lo, int hi) {
    hi = hi < j ? hi : j - 1;
    int at = lo;
    double least = t->before[lo] + (t->below[j] - t->below[lo]) * t->each[j];
    for (int i = lo + 1; i <= hi; i++) {
        const double cost = t->before[i] + (t->below[j] - t->below[i]) * t->each[j];
        if (cost < least) {
            least = cost;
            at = i;
        }
    }
    t->cost[j] = least;
    best[j] = at;
}
static void fill_row(struct bounds_table *t, int *best) {
    int stride = 1;
    while (stride <= t->n) {
        stride *= 2;
    }
    t->cost[0] = 0;
    best[0] = 0;
    for (; stride > 0; stride /= 2) {
        for (int j = stride; j <= t->n; j += 2 * stride) { // the even multiples are known
            const int hi = j + stride <= t->n ? best[j + stride] : t->n;
            fill_one(t, best, j, best[j - stride], hi);
        }
    }
}

int tuner_bounds(int *bounds, int k, const struct lengths *lengths, int last,
                 const double coef[COST_TERMS], double *cost) {
    assert(k >= 1 && last >= 1);
    struct bounds_table *t = xcalloc(1, sizeof(*t));
    fill_lengths(t, lengths, last, coef);
    k = k < t->n ? k : t->n;
    const size_t row = (size_t)t->n + 1;
    t->best = xcalloc((size_t)k * row, sizeof(*t->best));
    for (int j = 1; j <= t->n; j++) {
        t->cost[j] = t->below[j] * t->each[j]; // one bound
    }
    for (int m = 1; m < k; m++) {
        for (int j = 0; j <= t->n; j++) {
            t->before[j] = t->cost[j];
        }
        fill_row(t, t->best + (size_t)m * row);
    }
    int n_bounds = 0, m = k - 1;
    for (int j = t->n; j > 0; j = t->best[(size_t)m * row + (size_t)j], m--) {
        bounds[n_bounds++] = t->length[j];
    }
    for (int i = 0; i < n_bounds / 2; i++) { // they came out falling
        const int swapped = bounds[i];
        bounds[i] = bounds[n_bounds - 1 - i];
        bounds[n_bounds - 1 - i] = swapped;
    }
    *cost = t->cost[t->n];
    free(t->best);
    free(t);
    return n_bounds;
}
