/* cost.h - how long a forward pass takes: t = a + b * rows + c * sum(len^2).
 * One model for each backend, precision and mode. It starts from a sweep and is corrected online by
 * recursive least squares with a forgetting factor; a time far off the prediction (a page fault, a
 * neighbour on the machine) is pulled in before it counts, and a change that stays is followed.
 * Pure: no clock, no lock, no allocation; whoever shares a model locks it (batcher.c).
 * Source: Haykin, Adaptive Filter Theory, chapter on RLS; Huber 1964 for the robust weight. */
#ifndef BERTH_BATCHING_COST_H
#define BERTH_BATCHING_COST_H
#include <stdint.h>
#include "model/token_batch.h"

enum { COST_TERMS = 3, COST_ERRORS = 64, COST_RATIOS = 11 };
/* What the cost of a pass depends on. Padding counts: `len` is what is computed for a sequence. */
struct cost_shape {
    int64_t rows, sum_len2; // at least 1
};
struct cost_model {          // zeroed: knows nothing, predicts 0 and learns fast
    double coef[COST_TERMS]; // a: ns; b: ns a row; c: ns a squared token; never < 0
    double information[COST_TERMS][COST_TERMS]; // the inverse of the coefficients' covariance
    double usual;              // the size of error that half of the updates stay below
    double drift;              // -1 to 1: how much of late was an outlier to one side
    float ratios[COST_RATIOS]; // of the latest updates: measured / predicted, a ring
    int64_t n_updates;
    float errors[COST_ERRORS]; // of the latest updates: |measured - predicted| / measured, a ring
};
struct cost_sample {
    struct cost_shape shape;
    int64_t ns;
};
/* From a sweep's samples (several shapes, repeats allowed) by least squares of relative errors,
 * among coefficients of at least zero. Samples that do not tell terms apart give the simplest model
 * that explains them. n of 0 gives a model that knows nothing. */
void cost_fit(struct cost_model *m, const struct cost_sample *samples, int n);
void cost_set(struct cost_model *m, const double coef[COST_TERMS]);  // from a cache
void cost_update(struct cost_model *m, const struct cost_sample *s); // ns below 1: nothing was told
int64_t cost_predict_ns(const struct cost_model *m, struct cost_shape s);
/* What one more sequence of `len` computed tokens adds to a pass. */
int64_t cost_job_ns(const struct cost_model *m, int len);
/* The median of the latest errors; 0 before the first. */
double cost_error(const struct cost_model *m);
struct cost_shape cost_shape_of(const struct token_batch *b);
#endif
