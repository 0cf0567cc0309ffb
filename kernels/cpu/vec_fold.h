/* vec_fold.h - a vector's elements to one float: their sum, the largest of them. */
#ifndef BERTH_KERNELS_CPU_VEC_FOLD_H
#define BERTH_KERNELS_CPU_VEC_FOLD_H
#include "kernels/cpu/vec.h"

/* Elements that stand VEC / 2, 4 and 2 apart change places: in the first two, folded so, all are.
 */
#if VEC == 16
#define FOLD(v, with)                                                                              \
    v = with(v, vec_shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));          \
    v = with(v, vec_shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));          \
    v = with(v, vec_shuffle(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
#elif VEC == 8
#define FOLD(v, with)                                                                              \
    v = with(v, vec_shuffle(v, v, 4, 5, 6, 7, 0, 1, 2, 3));                                        \
    v = with(v, vec_shuffle(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
#else
#define FOLD(v, with) v = with(v, vec_shuffle(v, v, 2, 3, 0, 1));
#endif
ALWAYS_INLINE float vec_sum(vec v) {
#define ADD(a, b) ((a) + (b))
    FOLD(v, ADD)
    return v[0] + v[1];
}
ALWAYS_INLINE float vec_largest(vec v) {
    FOLD(v, vec_max)
    return v[0] > v[1] ? v[0] : v[1];
}
#undef ADD
#undef FOLD
#endif
