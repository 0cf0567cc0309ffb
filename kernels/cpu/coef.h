/* coef.h - made by fit_coef.py, lowest power first. Largest errors in float32:
 * x * Phi(x) on [-10, 10] 1.1e-06 absolute, 2^f on [-1/2, 1/2] 1.9e-07 relative. */
#ifndef BERTH_KERNELS_CPU_COEF_H
#define BERTH_KERNELS_CPU_COEF_H
#define GELU_LIMIT 5.1f
#define GELU_DEGREE 12
#define EXP2_DEGREE 5
static const float gelu_coef[GELU_DEGREE + 1] = {
    1.386052817e-01f,  -6.900326163e-02f, 5.078295618e-02f,  -4.021865875e-02f, 3.171602637e-02f,
    -2.401646599e-02f, 1.746547781e-02f,  -1.202426106e-02f, 6.859949790e-03f,  -3.229619469e-03f,
    2.404398052e-03f,  -1.956832595e-03f, 6.542057381e-04f};
static const float exp2_coef[EXP2_DEGREE + 1] = {1.000000000e+00f, 6.931470037e-01f,
                                                 2.402224243e-01f, 5.550733581e-02f,
                                                 9.671512991e-03f, 1.326472615e-03f};
#endif
