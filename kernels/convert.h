/* convert.h - values of any storage type as float, and back. Pure. */
#ifndef BERTH_KERNELS_CONVERT_H
#define BERTH_KERNELS_CONVERT_H
#include "kernels/kernels.h"
#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = element first + i of `t` (F32, F16 or BF16), for n elements. NaN and infinity stay. */
void host_tensor_to_float(float *out, const struct host_tensor *t, size_t first, size_t n);
/* out[i] = in[i] as a `to` (F32, F16 or BF16), to nearest, ties to even. */
void floats_to_words(void *out, enum dtype to, const float *in, size_t n);
#ifdef __cplusplus
}
#endif
#endif
