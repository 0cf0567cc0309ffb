/* words.h - 16-bit floats as the device rounds them: to nearest, ties to even. Pure. */
#ifndef BERTH_KERNELS_SIMT_WORDS_H
#define BERTH_KERNELS_SIMT_WORDS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t simt_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}
static inline float simt_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline float simt_from_bf16(uint16_t w) {
    return simt_float((uint32_t)w << 16);
}
static inline uint16_t simt_to_bf16(float f) {
    const uint32_t u = simt_bits(f);
    if (f != f) {
        return 0x7fff; // the one NaN that conversions give
    }
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float simt_from_f16(uint16_t w) {
    const uint32_t sign = (uint32_t)(w & 0x8000) << 16, exponent = w >> 10 & 31, low = w & 1023;
    if (exponent == 31) {
        return simt_float(sign | 0x7f800000u | low << 13);
    }
    if (exponent == 0) {
        return simt_float(sign | simt_bits((float)low * 0x1p-24f));
    }
    return simt_float(sign | (exponent + 112) << 23 | low << 13);
}
static inline uint16_t simt_to_f16(float f) {
    const uint16_t sign = (uint16_t)(simt_bits(f) >> 16 & 0x8000);
    const float size = fabsf(f);
    if (f != f) {
        return 0x7fff;
    }
    if (size >= 65520.0f) {
        return (uint16_t)(sign | 0x7c00);
    }
    if (size < 0x1p-14f) { // the sum rounds to a multiple of 2^-24
        return (uint16_t)(sign | (simt_bits(size + 0.5f) - simt_bits(0.5f)));
    }
    const uint32_t u = simt_bits(size) - (112u << 23);
    return (uint16_t)(sign | (u + 0xfffu + (u >> 13 & 1)) >> 13);
}
static inline uint32_t simt_ex2_f16x2(uint32_t x) {
    const uint16_t low = simt_to_f16(exp2f(simt_from_f16((uint16_t)x)));
    return low | (uint32_t)simt_to_f16(exp2f(simt_from_f16((uint16_t)(x >> 16)))) << 16;
}
#endif
