/* layernorm.c - y = (x - mean) / sqrt(variance + eps) * gamma + beta. */
#include "kernels/reference/internal.h"

#include <math.h>

static void norm_row(float *y, const float *x, const struct norm_weight *w) {
    double mean = 0, variance = 0;
    for (int i = 0; i < w->cols; i++) {
        mean += (double)x[i] / w->cols;
    }
    for (int i = 0; i < w->cols; i++) {
        variance += (x[i] - mean) * (x[i] - mean) / w->cols;
    }
    for (int i = 0; i < w->cols; i++) {
        y[i] = (float)((x[i] - mean) / sqrt(variance + w->eps) * w->gamma[i] + w->beta[i]);
    }
}

void reference_layernorm(struct lane *ln, const struct tensor *y, const struct tensor *x,
                         const struct norm_weight *w) {
    assert(x->cols == w->cols && y->cols == w->cols && x->axis == y->axis);
    for (int r = 0; r < batch_rows(ln, x); r++) {
        norm_row(tensor_row(y, r), tensor_row(x, r), w);
    }
    reference_timed(ln, ln->norm_step);
}
