"""Fits the polynomials behind vec_gelu() and vec_exp2() and prints coef.h. Needs numpy.

    python3 fit_coef.py > coef.h

GELU: with c = x clamped to [-L, L], Phi(x) is taken as 1/2 + c * Q(u), u = 2 c^2 / L^2 - 1 in
[-1, 1]: Phi - 1/2 is odd, so Q needs half the degree, and centring u keeps Horner's scheme from
cancelling. Q is nearly minimax in max(|x|, FLOOR) * |x| * error: what counts is the error of
x * Phi(x).
exp2: 2^f on [-1/2, 1/2], nearly minimax in the relative error, through 1 at 0.

Both come from Lawson's method: least squares, each point's weight multiplied by the error there,
again and again. The figures printed are measured in float32, once with fused multiply-add and once
without, the larger of both."""
import math
import numpy as np
from numpy.polynomial import chebyshev

FLOOR = 0.25
F = np.float32


def lawson(u, target, degree, importance):
    mass = np.ones_like(u)
    best = None
    for _ in range(150):
        c = chebyshev.chebfit(u, target, degree, w=importance * np.sqrt(mass))
        error = np.abs(chebyshev.chebval(u, c) - target) * importance
        if best is None or error.max() < best[0]:
            best = (error.max(), c)
        mass *= error / error.max() + 1e-3
        mass /= mass.sum()
    return chebyshev.cheb2poly(best[1])


def nodes(n=3000):
    return np.cos((np.arange(n) + 0.5) * np.pi / n)


def fit_gelu(limit, degree):
    u = nodes()
    x = limit * np.sqrt((u + 1) / 2)
    target = np.array([math.erf(v / math.sqrt(2)) / (2 * v) for v in x])
    return lawson(u, target, degree, x * np.maximum(x, FLOOR)).astype(F)


def fit_exp2(degree):
    u = nodes()  # f = u / 2; (2^f - 1) / f is fitted one degree lower, so that 2^0 is 1
    f = u / 2
    q = lawson(u, (np.exp2(f) - 1) / f, degree - 1, np.abs(f) / np.exp2(f))
    return np.concatenate([[1.0], q * 2.0 ** np.arange(degree)]).astype(F)


def fma(a, b, c, fused):
    exact = a.astype(np.float64) * b
    return ((exact if fused else exact.astype(F)) + c).astype(F)


def horner(coef, u, fused):
    p = np.full_like(u, coef[-1])
    for a in coef[-2::-1]:
        p = fma(p, u, a, fused)
    return p


def gelu(x, coef, limit, fused):
    low = np.maximum(x, F(-limit))
    c = np.minimum(low, F(limit))
    u = fma((c * c).astype(F), F(2 / limit**2), F(-1), fused)
    return (low * fma(c, horner(coef, u, fused), F(0.5), fused)).astype(F)


def worst_gelu(coef, limit):
    x = np.linspace(-10, 10, 400001).astype(F)
    exact = np.array([v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)])
    return max(np.abs(gelu(x, coef, limit, fused) - exact).max() for fused in (True, False))


def worst_exp2(coef):
    f = np.linspace(-0.5, 0.5, 400001).astype(F)
    exact = np.exp2(f.astype(np.float64))
    return max(np.abs(horner(coef, f, fused) / exact - 1).max() for fused in (True, False))


def best_gelu():
    found = []
    for degree in (10, 11, 12):
        for limit in np.arange(4.4, 5.6, 0.1):
            coef = fit_gelu(limit, degree)
            found.append((worst_gelu(coef, limit), degree, limit, coef))
    least = min(f[0] for f in found)
    # The lowest degree that comes within a quarter of the best error seen.
    return min((f for f in found if f[0] <= 1.25 * least), key=lambda f: (f[1], f[0]))


def array(name, size, coef):
    values = ["%.9ef" % v for v in coef]
    rows = [", ".join(values[i : i + 5]) for i in range(0, len(values), 5)]
    print("static const float %s[%s] = {\n    %s};" % (name, size, ",\n    ".join(rows)))


def main():
    error, degree, limit, coef = best_gelu()
    exp2 = fit_exp2(5)
    print("/* coef.h - made by fit_coef.py, lowest power first. Largest errors in float32:")
    print(" * x * Phi(x) on [-10, 10] %.1e absolute, 2^f on [-1/2, 1/2] %.1e relative. */"
          % (error, worst_exp2(exp2)))
    print("#ifndef BERTH_KERNELS_CPU_COEF_H\n#define BERTH_KERNELS_CPU_COEF_H")
    print("#define GELU_LIMIT %.1ff\n#define GELU_DEGREE %d\n#define EXP2_DEGREE 5"
          % (limit, degree))
    array("gelu_coef", "GELU_DEGREE + 1", coef)
    array("exp2_coef", "EXP2_DEGREE + 1", exp2)
    print("#endif")


if __name__ == "__main__":
    main()
