/* vec_int.h - vectors of integers, as wide as those of floats. */
#ifndef BERTH_KERNELS_CPU_VEC_INT_H
#define BERTH_KERNELS_CPU_VEC_INT_H
#include "kernels/cpu/vec.h"

ALWAYS_INLINE ivec ivec_load(const int32_t *p) {
    return *(const ivec_anywhere *)p;
}
ALWAYS_INLINE ivec ivec_set(int32_t i) {
#if VEC == 16
    return (ivec){i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i};
#elif VEC == 8
    return (ivec){i, i, i, i, i, i, i, i};
#else
    return (ivec){i, i, i, i};
#endif
}
ALWAYS_INLINE vec vec_from_ints(ivec v) {
    return __builtin_convertvector(v, vec);
}
ALWAYS_INLINE ivec vec_to_ints(vec v) { // towards zero
    return __builtin_convertvector(v, ivec);
}
#endif
