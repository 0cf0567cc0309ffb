/* vec_int.h - vectors of integers, as wide as those of floats. */
#ifndef BERTH_KERNELS_CPU_VEC_INT_H
#define BERTH_KERNELS_CPU_VEC_INT_H
#include "kernels/cpu/vec.h"
#include <stdbool.h>

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
/* Is there a bit set? */
ALWAYS_INLINE bool ivec_any(ivec v) {
#if VEC == 16 && !defined(CPU_EMULATE)
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < VEC; i++) {
        any |= v[i];
    }
    return any != 0;
#endif
}
#endif
