/* vec_transpose.h - VEC x VEC floats, rows to columns, in registers. */
#ifndef BERTH_KERNELS_CPU_VEC_TRANSPOSE_H
#define BERTH_KERNELS_CPU_VEC_TRANSPOSE_H
#include "kernels/cpu/vec.h"

/* In place, VEC vectors of VEC: pairs, then quarters, then halves change places. */
ALWAYS_INLINE void vec_transpose(vec r[VEC]) {
    vec t[VEC];
    UNROLL(8)
    for (int i = 0; i < VEC; i += 4) {
#if VEC == 8
#define LOW(a, b) vec_shuffle(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) vec_shuffle(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW2(a, b) vec_shuffle(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH2(a, b) vec_shuffle(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#else
#define LOW(a, b) vec_shuffle(a, b, 0, 4, 1, 5)
#define HIGH(a, b) vec_shuffle(a, b, 2, 6, 3, 7)
#define LOW2(a, b) vec_shuffle(a, b, 0, 1, 4, 5)
#define HIGH2(a, b) vec_shuffle(a, b, 2, 3, 6, 7)
#endif
        const vec a = LOW(r[i], r[i + 1]), b = HIGH(r[i], r[i + 1]);
        const vec c = LOW(r[i + 2], r[i + 3]), d = HIGH(r[i + 2], r[i + 3]);
        t[i] = LOW2(a, c), t[i + 1] = HIGH2(a, c);
        t[i + 2] = LOW2(b, d), t[i + 3] = HIGH2(b, d);
    }
    UNROLL(8)
    for (int i = 0; i < 4; i++) {
#if VEC == 8
        r[i] = vec_shuffle(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = vec_shuffle(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
#else
        r[i] = t[i];
#endif
    }
#undef LOW
#undef HIGH
#undef LOW2
#undef HIGH2
}
#endif
