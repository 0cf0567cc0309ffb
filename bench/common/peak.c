/* peak.c - how fast this core multiplies and adds when nothing stands in its way; compiled once an
 * ISA, like the kernels. 12 independent sums, as the GEMM's tile has. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_fold.h"

enum { SUMS = 12 };
double ISA(peak_flops)(int rounds, float *sink);
double ISA(peak_flops)(int rounds, float *sink) {
    vec s[SUMS];
    const vec a = vec_set(sink[0]), b = vec_set(sink[1]);
    UNROLL(12)
    for (int i = 0; i < SUMS; i++) {
        s[i] = vec_set((float)i);
    }
    for (int r = 0; r < rounds; r++) {
        UNROLL(12)
        for (int i = 0; i < SUMS; i++) {
            s[i] = vec_fma(s[i], a, b);
        }
    }
    UNROLL(12)
    for (int i = 0; i < SUMS; i++) {
        sink[2] += vec_sum(s[i]);
    }
    return 2.0 * SUMS * VEC * rounds;
}
