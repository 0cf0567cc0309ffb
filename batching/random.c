/* random.c - a generator of 256 bits of state and the distributions that traces are drawn from.
 * All are exact transforms of uniform numbers; a normal is drawn afresh each time (its twin is
 * thrown away) so that the state is the generator's alone. */
#include "batching/random.h"

#include <math.h>

#define TWO_PI 6.283185307179586

static uint64_t rotate(uint64_t x, int by) {
    return (x << by) | (x >> (64 - by));
}

void random_seed(struct random *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) { // splitmix64
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r->state[i] = z ^ (z >> 31);
    }
}

uint64_t random_next(struct random *r) {
    uint64_t *s = r->state;
    const uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double random_unit(struct random *r) {
    return ((double)(random_next(r) >> 11) + 1) * 0x1p-53;
}

double random_exponential(struct random *r) {
    return -log(random_unit(r));
}

double random_normal(struct random *r) { // Box and Muller 1958
    const double radius = sqrt(2 * random_exponential(r));
    return radius * cos(TWO_PI * random_unit(r));
}

/* Marsaglia and Tsang 2000 (ACM TOMS 26), with their boost for shapes below one. */
double random_gamma(struct random *r, double shape) {
    if (shape < 1) {
        const double boost = pow(random_unit(r), 1 / shape);
        return boost * random_gamma(r, shape + 1); // once: shape + 1 is above one
    }
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = random_normal(r), cubed = 1 + c * x, v = cubed * cubed * cubed;
        if (cubed > 0 && log(random_unit(r)) < x * x / 2 + d - d * v + d * log(v)) {
            return d * v;
        }
    }
}
