/* convert.c - half precision and bfloat16 to float, and back.
 * To float both are exact. A half's exponent and mantissa, moved to a float's places, make the
 * value times 2^-112, subnormals too, so one multiplication is the whole conversion; infinity and
 * NaN alone need their exponent filled up. The loops have no branch, so that compilers make vectors
 * of them. The way back is the same one, rounded where bits are dropped.
 */
#include "kernels/convert.h"

#include <assert.h>
#include <string.h>

static float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}
static uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static void from_half(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t sign = (uint32_t)(in[i] & 0x8000u) << 16;
        const uint32_t magnitude = (uint32_t)(in[i] & 0x7fffu) << 13;
        const uint32_t special = magnitude >= (0x7c00u << 13) ? 0x7f800000u : 0;
        const uint32_t bits = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
        out[i] = float_of_bits(bits | special | sign);
    }
}

static void from_bfloat(float *out, const uint16_t *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = float_of_bits((uint32_t)in[i] << 16);
    }
}

void host_tensor_to_float(float *out, const struct host_tensor *t, size_t first, size_t n) {
    assert(t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16);
    const unsigned char *from = (const unsigned char *)t->data + first * dtype_size(t->dtype);
    if (t->dtype == DTYPE_F32) {
        memcpy(out, from, n * sizeof(*out));
    } else if (t->dtype == DTYPE_F16) {
        from_half(out, (const uint16_t *)from, n);
    } else {
        from_bfloat(out, (const uint16_t *)from, n);
    }
}

/* The upper bits of a float, rounded; a NaN keeps its uppermost bit, so that it stays one. */
static uint32_t rounded(uint32_t bits, int dropped) {
    const uint32_t half = (1u << (dropped - 1)) - 1;
    return (bits & 0x7fffffffu) > 0x7f800000u ? bits >> dropped
                                              : (bits + half + (bits >> dropped & 1)) >> dropped;
}
static void to_half(uint16_t *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of_float(in[i]), sign = bits >> 16 & 0x8000u;
        const uint32_t magnitude = bits & 0x7fffffffu;
        const uint32_t word = rounded(bits_of_float(float_of_bits(magnitude) * 0x1p-112f), 13);
        const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
        out[i] = (uint16_t)(sign | (magnitude >= 0x7f800000u || word > 0x7c00u ? special : word));
    }
}
static void to_bfloat(uint16_t *out, const float *in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint16_t)rounded(bits_of_float(in[i]), 16);
    }
}
void floats_to_words(void *out, enum dtype to, const float *in, size_t n) {
    assert(to == DTYPE_F32 || to == DTYPE_F16 || to == DTYPE_BF16);
    if (to == DTYPE_F32) {
        memcpy(out, in, n * sizeof(*in));
    } else if (to == DTYPE_F16) {
        to_half((uint16_t *)out, in, n);
    } else {
        to_bfloat((uint16_t *)out, in, n);
    }
}
