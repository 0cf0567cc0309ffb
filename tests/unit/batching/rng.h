/* rng.h - random numbers that are the same on every machine. */
#ifndef BERTH_TESTS_BATCHING_RNG_H
#define BERTH_TESTS_BATCHING_RNG_H
#include <stdint.h>

struct rng {
    uint64_t state;
};
static inline struct rng rng_of(uint64_t seed) {
    return (struct rng){seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
}
static inline int64_t rng_in(struct rng *r, int64_t low, int64_t high) {
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return low + (int64_t)((r->state >> 1) % (uint64_t)(high - low + 1));
}
#endif
