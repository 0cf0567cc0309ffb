/* hist_quantiles.c - quantiles of the integers on standard input, for the comparison with another
 * implementation: prints count, min, max, mean, then a line a quantile given. */
#include "bench/client/hist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    static struct hist halves[2];
    int64_t value;
    for (int i = 0; scanf("%" SCNd64, &value) == 1; i++) {
        hist_record(&halves[i % 2], value);
    }
    hist_add(&halves[0], &halves[1]);
    const struct hist *h = &halves[0];
    printf("%" PRIu64 "\n%" PRId64 "\n%" PRId64 "\n%.17g\n", h->count, h->min, h->max,
           hist_mean(h));
    for (int i = 1; i < argc; i++) {
        printf("%" PRId64 "\n", hist_quantile(h, strtod(argv[i], NULL)));
    }
    return 0;
}
