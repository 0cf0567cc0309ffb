/* finite.c - is every value of a checkpoint a number?
 * NaN and infinity are the values whose exponent bits are all ones, in each of the three types, so
 * the check is integer work without branches, which compilers make vectors of: a file is checked
 * at the speed of memory. Only when a block fails is the place looked for. */
#include "model/safetensors.h"

#include <assert.h>

enum { BLOCK = 4096 };

static int any_special32(const uint32_t *x, size_t n) {
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (int32_t)(x[i] & 0x7fffffffu) >= 0x7f800000;
    }
    return any;
}
static int any_special16(const uint16_t *x, size_t n, int16_t exponent) {
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (int16_t)(x[i] & 0x7fffu) >= exponent;
    }
    return any;
}

static int any_special(const struct host_tensor *t, size_t first, size_t n) {
    if (t->dtype == DTYPE_F32) {
        return any_special32((const uint32_t *)t->data + first, n);
    }
    return any_special16((const uint16_t *)t->data + first, n,
                         t->dtype == DTYPE_F16 ? 0x7c00 : 0x7f80);
}

enum status host_tensor_check_finite(const struct host_tensor *t, const char *name,
                                     struct error *err) {
    assert(t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16);
    const size_t n = (size_t)t->rows * (size_t)t->cols;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t block = n - at < BLOCK ? n - at : BLOCK;
        if (any_special(t, at, block)) {
            size_t i = at;
            while (!any_special(t, i, 1)) {
                i++;
            }
            return error_set(
                err, STATUS_INVALID,
                "tensor %.100s: value %zu (row %zu, column %zu) is not a finite number", name, i,
                i / (size_t)t->cols, i % (size_t)t->cols);
        }
    }
    return STATUS_OK;
}
