/* draw.c - every number is a hash of seed and index; a stream counts its index up. That is as good
 * as splitmix64 itself, of which it is the definition, and needs no state to be shared. */
#include "bench/client/draw.h"

#include <math.h>

uint64_t draw_at(uint64_t seed, int64_t index) {
    uint64_t z = seed + ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
double draw_unit_at(uint64_t seed, int64_t index) {
    return ((double)(draw_at(seed, index) >> 12) + 0.5) * 0x1p-52;
}
double draw_unit(struct draw *d) {
    return draw_unit_at(d->seed, d->n++);
}
double draw_exponential(struct draw *d) {
    return -log(draw_unit(d));
}
double draw_normal(struct draw *d) {
    const double radius = sqrt(-2 * log(draw_unit(d)));
    return radius * cos(2 * 3.14159265358979323846 * draw_unit(d));
}
/* Shape at least 1, mean `shape`. */
static double gamma_above_1(struct draw *d, double shape) {
    const double a = shape - 1.0 / 3, c = 1 / sqrt(9 * a);
    for (;;) {
        const double x = draw_normal(d), root = 1 + c * x;
        if (root <= 0) {
            continue;
        }
        const double v = root * root * root;
        if (log(draw_unit(d)) < 0.5 * x * x + a - a * v + a * log(v)) {
            return a * v;
        }
    }
}
double draw_gamma(struct draw *d, double shape) {
    if (shape >= 1) {
        return gamma_above_1(d, shape) / shape;
    }
    return gamma_above_1(d, shape + 1) * pow(draw_unit(d), 1 / shape) / shape;
}
