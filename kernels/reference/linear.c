/* linear.c - y = activation(x * w^T + bias) + residual, and the activations. */
#include "kernels/reference/internal.h"

#include <math.h>

static double activate(double x, enum activation activation) {
    switch (activation) {
    case ACT_NONE: return x;
    case ACT_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ACT_RELU: return x > 0 ? x : 0;
    case ACT_TANH: return tanh(x);
    }
    assert(!"an activation");
    return 0;
}

void reference_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                      const struct linear_weight *w, enum activation activation,
                      const struct tensor *residual) {
    assert(x->cols == w->k && y->cols == w->n && x->axis == y->axis && x->data != y->data);
    assert(!residual || activation == ACT_NONE);
    for (int r = 0; r < batch_rows(ln, x); r++) {
        const float *in = tensor_row(x, r);
        for (int j = 0; j < w->n; j++) {
            double sum = w->bias[j];
            for (int i = 0; i < w->k; i++) {
                sum += (double)in[i] * w->weight[(int64_t)j * w->k + i];
            }
            sum = activate(sum, activation) + (residual ? tensor_row(residual, r)[j] : 0);
            tensor_row(y, r)[j] = (float)sum;
        }
    }
    reference_timed(ln, ln->linear_step);
}
