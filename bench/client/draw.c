/* draw.c - the index-th number of the splitmix64 stream, which can be had without those before it:
 * its state is a counter, and a number is a hash of it. */
#include "bench/client/draw.h"

uint64_t draw_at(uint64_t seed, int64_t index) {
    uint64_t z = seed + ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
double draw_unit_at(uint64_t seed, int64_t index) {
    return ((double)(draw_at(seed, index) >> 12) + 0.5) * 0x1p-52;
}
