/* draw.h - seeded random numbers: a stream for the arrivals, and numbers by index for the texts, so
 * that a text depends on its place in the load and not on the thread that sends it. */
#ifndef BERTH_BENCH_CLIENT_DRAW_H
#define BERTH_BENCH_CLIENT_DRAW_H
#include <stdint.h>

uint64_t draw_at(uint64_t seed, int64_t index); // splitmix64 (Steele, Lea, Flood 2014)
double draw_unit_at(uint64_t seed, int64_t index); // 0 < u < 1

struct draw { // zeroed is a stream of seed 0
    uint64_t seed;
    int64_t n;
};
double draw_unit(struct draw *d);        // 0 < u < 1
double draw_exponential(struct draw *d); // mean 1
double draw_normal(struct draw *d);
/* Mean 1; Marsaglia and Tsang 2000, for shapes below 1 too. */
double draw_gamma(struct draw *d, double shape);
#endif
