#include "kernels/convert.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* By the definition of the format: sign, 5 bits of exponent, 10 of fraction. */
static double half_value(unsigned h) {
    const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31) {
        return fraction ? NAN : sign * INFINITY;
    }
    return exponent ? sign * ldexp(1024 + fraction, exponent - 25) : sign * ldexp(fraction, -24);
}

static void assert_same_float(float got, double want, unsigned bits) {
    if (isnan(want) ? !isnan(got) : got != want || !signbit(got) != !signbit(want)) {
        fail_msg("%04x became %g, expected %g", bits, (double)got, want);
    }
}

static void every_half_is_exact(void **state) {
    uint16_t *in = calloc(65536, sizeof(*in));
    float *out = calloc(65536, sizeof(*out));
    for (unsigned i = 0; i < 65536; i++) {
        in[i] = (uint16_t)i;
    }
    const struct host_tensor t = {in, DTYPE_F16, 256, 256};
    host_tensor_to_float(out, &t, 0, 65536);
    for (unsigned i = 0; i < 65536; i++) {
        assert_same_float(out[i], half_value(i), i);
    }
    free(in);
    free(out);
}

static void every_bfloat_is_exact(void **state) {
    for (unsigned i = 0; i < 65536; i++) {
        const uint16_t in = (uint16_t)i;
        const struct host_tensor t = {&in, DTYPE_BF16, 1, 1};
        const uint32_t bits = i << 16;
        float want, got;
        memcpy(&want, &bits, sizeof(want));
        host_tensor_to_float(&got, &t, 0, 1);
        assert_same_float(got, (double)want, i);
    }
}

static void a_part_is_taken_from_its_place(void **state) {
    const float in[] = {1, 2, 3, 4};
    const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400};
    const struct host_tensor t = {in, DTYPE_F32, 2, 2}, h = {halves, DTYPE_F16, 2, 2};
    float out[3] = {0, 0, 9};
    host_tensor_to_float(out, &t, 1, 2);
    assert_true(out[0] == 2 && out[1] == 3 && out[2] == 9);
    host_tensor_to_float(out, &h, 2, 2);
    assert_true(out[0] == 3 && out[1] == 4 && out[2] == 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_exact),
        cmocka_unit_test(every_bfloat_is_exact),
        cmocka_unit_test(a_part_is_taken_from_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
