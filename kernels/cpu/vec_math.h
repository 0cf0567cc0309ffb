/* vec_math.h - exp2 and the activations on vectors, by polynomials; coef.h states their errors. */
#ifndef BERTH_KERNELS_CPU_VEC_MATH_H
#define BERTH_KERNELS_CPU_VEC_MATH_H
#include "kernels/cpu/coef.h"
#include "kernels/cpu/vec.h"
#include "kernels/types.h"

/* Horner's scheme, the degree a constant. */
ALWAYS_INLINE vec vec_horner(const float *coef, int degree, vec u) {
    vec p = vec_set(coef[degree]);
    UNROLL(16)
    for (int i = degree - 1; i >= 0; i--) {
        p = vec_fma(p, u, vec_set(coef[i]));
    }
    return p;
}
/* 2^x, x clamped to [-126, 126]. x is an integer and a fraction in [-1/2, 1/2]: the fraction goes
 * through a polynomial, the integer into the exponent. */
ALWAYS_INLINE vec vec_exp2(vec x) {
    x = vec_min(vec_set(126.0f), vec_max(vec_set(-126.0f), x));
    const vec magic = vec_set(12582912.0f); // 1.5 * 2^23: what is added to it loses its fraction
    const vec t = x + magic;
    const vec p = vec_horner(exp2_coef, EXP2_DEGREE, x - (t - magic));
    return (vec)((ivec)p + ((ivec)t << 23));
}
/* x * Phi(x). Clamped from below twice, so that what Phi lacks to 0 there is not blown up by x. */
ALWAYS_INLINE vec vec_gelu(vec x) {
    const vec low = vec_max(vec_set(-GELU_LIMIT), x), c = vec_min(vec_set(GELU_LIMIT), low);
    const vec u = vec_fma(c * c, vec_set(2.0f / (GELU_LIMIT * GELU_LIMIT)), vec_set(-1.0f));
    return low * vec_fma(c, vec_horner(gelu_coef, GELU_DEGREE, u), vec_set(0.5f));
}
/* 1 / (1 + e^-x) */
ALWAYS_INLINE vec vec_sigmoid(vec x) {
    return vec_set(1.0f) / (vec_set(1.0f) + vec_exp2(x * vec_set(-1.44269504f)));
}
/* The rarer activations, by formulas that only need exp2. */
static inline vec vec_activation(enum activation a, vec x) {
    switch (a) {
    case ACT_GELU: return vec_gelu(x);
    case ACT_GELU_TANH: // x / 2 * (1 + tanh(z)) = x * sigmoid(2 z)
        return x * vec_sigmoid(x * vec_fma(x * x, vec_set(0.0713548163f), vec_set(1.59576912f)));
    case ACT_RELU: return vec_max(vec_set(0.0f), x);
    case ACT_TANH: return vec_fma(vec_set(2.0f), vec_sigmoid(x + x), vec_set(-1.0f));
    default: return x;
    }
}
#endif
