/* rounds.h - how many rounds, at which rates: one, until the figures are stable, or a search. */
#ifndef BERTH_BENCH_CLIENT_ROUNDS_H
#define BERTH_BENCH_CLIENT_ROUNDS_H
#include "bench/client/result.h"

/* Sum and summary of what `r->cfg` asks for. After a failure `sum` may be empty. */
MUST_CHECK enum status rounds_run(struct result *r, struct round *sum, struct plan *p,
                                  struct error *err);
/* Of the mean of n values, by Student's t; half_width INFINITY for fewer than 2. */
struct interval interval_of(const double *values, int n);
#endif
