/* vec_transpose.h - VEC x VEC floats, rows to columns, in registers. */
#ifndef BERTH_KERNELS_CPU_VEC_TRANSPOSE_H
#define BERTH_KERNELS_CPU_VEC_TRANSPOSE_H
#include "kernels/cpu/vec.h"

#if VEC == 16
#define LOW(a, b) vec_shuffle(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) vec_shuffle(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LOW2(a, b) vec_shuffle(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define HIGH2(a, b) vec_shuffle(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#elif VEC == 8
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

/* t holds blocks of 4 x 4, transposed each; vector i of block row b goes to row i of all blocks. */
ALWAYS_INLINE void join_blocks(vec r[VEC], const vec t[VEC]) {
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
#if VEC == 16
        const vec a =
            vec_shuffle(t[i], t[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
        const vec b = vec_shuffle(t[i], t[i + 4], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28,
                                  29, 30, 31);
        const vec c = vec_shuffle(t[i + 8], t[i + 12], 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20,
                                  21, 22, 23);
        const vec d = vec_shuffle(t[i + 8], t[i + 12], 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15,
                                  28, 29, 30, 31);
#define FIRSTS(x, y) vec_shuffle(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define LASTS(x, y) vec_shuffle(x, y, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
        r[i] = FIRSTS(a, c), r[i + 4] = LASTS(a, c);
        r[i + 8] = FIRSTS(b, d), r[i + 12] = LASTS(b, d);
#undef FIRSTS
#undef LASTS
#elif VEC == 8
        r[i] = vec_shuffle(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = vec_shuffle(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
#else
        r[i] = t[i];
#endif
    }
}
/* In place, VEC vectors of VEC: pairs, then quarters, then blocks of 4 change places. */
ALWAYS_INLINE void vec_transpose(vec r[VEC]) {
    vec t[VEC];
    UNROLL(4)
    for (int i = 0; i < VEC; i += 4) {
        const vec a = LOW(r[i], r[i + 1]), b = HIGH(r[i], r[i + 1]);
        const vec c = LOW(r[i + 2], r[i + 3]), d = HIGH(r[i + 2], r[i + 3]);
        t[i] = LOW2(a, c), t[i + 1] = HIGH2(a, c);
        t[i + 2] = LOW2(b, d), t[i + 3] = HIGH2(b, d);
    }
    join_blocks(r, t);
}
#undef LOW
#undef HIGH
#undef LOW2
#undef HIGH2
#endif
