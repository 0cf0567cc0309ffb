/* random.h - numbers that only look random: the same for the same seed, on every machine.
 * For tools and tests. Source: xoshiro256**, Blackman and Vigna 2018, arXiv:1805.01407; seeded by
 * splitmix64, Steele, Lea and Flood 2014 (OOPSLA), as its authors advise. */
#ifndef BERTH_BATCHING_RANDOM_H
#define BERTH_BATCHING_RANDOM_H
#include <stdint.h>

struct random {
    uint64_t state[4];
};
void random_seed(struct random *r, uint64_t seed);
uint64_t random_next(struct random *r);
double random_unit(struct random *r);                // in (0, 1], so that its logarithm is finite
double random_exponential(struct random *r);         // mean 1
double random_normal(struct random *r);              // mean 0, sigma 1
double random_gamma(struct random *r, double shape); // scale 1, so its mean is `shape`
#endif
