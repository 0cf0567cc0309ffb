/* passes.c - what fused kernels do on the way, as passes of their own over memory: for
 * compute.fusion off, which is there to be compared with. Each pass is as fast as the vectors
 * allow, so that what separate.c measures is the cost of separate passes and not of slow ones. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_fold.h"
#include "kernels/cpu/vec_math.h"
#include <math.h>

static void scale(float *x, size_t n, float by) {
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec_store(x + i, vec_load(x + i) * vec_set(by));
    }
    for (; i < n; i++) {
        x[i] *= by;
    }
}
static void add(float *y, const float *x, size_t n) {
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec_store(y + i, vec_load(y + i) + vec_load(x + i));
    }
    for (; i < n; i++) {
        y[i] += x[i];
    }
}
static void activate(float *x, size_t n, enum activation activation) {
    size_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        const vec v = vec_load(x + i);
        vec_store(x + i, activation == ACT_GELU ? vec_gelu(v) : vec_activation(activation, v));
    }
    if (i < n) {
        vec_store_n(x + i, vec_activation(activation, vec_load_n(x + i, (int)(n - i))),
                    (int)(n - i));
    }
}
static float row_max(const float *x, int n) {
    vec most = vec_set(-INFINITY);
    float max = -INFINITY;
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        most = vec_max(most, vec_load(x + i));
    }
    for (int j = 0; j < VEC; j++) {
        max = most[j] > max ? most[j] : max;
    }
    for (; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}
/* x = e^(x - max); their sum. Columns past the last whole vector are summed in the places that they
 * would have in one, so that a row's sum does not depend on how far it is padded. */
static float row_exp(float *x, float max, int n) {
    const vec m = vec_set(max), log2_e = vec_set((float)M_LOG2E);
    vec sum = vec_set(0.0f);
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        const vec e = vec_exp2((vec_load(x + i) - m) * log2_e);
        vec_store(x + i, e);
        sum += e;
    }
    if (i < n) {
        float last[VEC] = {0};
        vec_store_n(x + i, vec_exp2((vec_load_n(x + i, n - i) - m) * log2_e), n - i);
        memcpy(last, x + i, (size_t)(n - i) * sizeof(*x));
        sum += vec_load(last);
    }
    return vec_sum(sum);
}
static void softmax(float *x, int rows, int cols) {
    for (int r = 0; r < rows; r++, x += cols) {
        const float sum = row_exp(x, row_max(x, cols), cols);
        scale(x, (size_t)cols, 1.0f / sum);
    }
}

extern const struct cpu_passes ISA(cpu_passes);
const struct cpu_passes ISA(cpu_passes) = {
    .scale = scale, .add = add, .activate = activate, .softmax = softmax};
