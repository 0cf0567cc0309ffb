/* draw.h - seeded random numbers by index, so that a text depends on its place in the load and not
 * on the thread that sends it. (A stream of them: batching/random.h.) */
#ifndef BERTH_BENCH_CLIENT_DRAW_H
#define BERTH_BENCH_CLIENT_DRAW_H
#include <stdint.h>

uint64_t draw_at(uint64_t seed, int64_t index);    // splitmix64 (Steele, Lea, Flood 2014)
double draw_unit_at(uint64_t seed, int64_t index); // 0 < u < 1
#endif
