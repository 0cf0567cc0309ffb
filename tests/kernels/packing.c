/* packing.c - what a matrix becomes in memory, beside gemm.h's description of it, read value by
 * value: every value where it belongs, zeros where there is none; bf16 rounded to the nearest; int8
 * within half a step of what it stands for, sums right, neighbours in bounds where pairs saturate.
 */
#include "kernels/convert.h"
#include "kernels/cpu/isa.h"
#include "tests/kernels/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q_MAX = 127, PAIR_MAX = 128 };

/* The bits of value k of column j; k up to the end of the block's last chunk. */
static uint32_t bits_at(const struct linear_weight *w, int k, int j) {
    const struct gemm_kernel *kn = w->kernel;
    const int last = (gemm_blocks(w) - 1) * w->kernel->kc;
    const int k0 = k / kn->kc * kn->kc < last ? k / kn->kc * kn->kc : last;
    const int words = gemm_words(kn, gemm_block_len(w, k0)), chunk = kn->per_word * kn->lanes;
    const int in_block = k - k0, panel = j / kn->nr * kn->nr;
    const int i = in_block / chunk * kn->lanes + in_block % kn->lanes;
    const uint32_t *data = (const uint32_t *)w->data +
                           (size_t)(k0 / kn->per_word) * (size_t)w->n_padded +
                           (size_t)panel * (size_t)words;
    const int bits = 32 / kn->per_word, part = in_block % chunk / kn->lanes;
    const uint32_t word = data[(size_t)i * (size_t)kn->nr + (size_t)(j - panel)];
    return kn->per_word == 1 ? word : (word >> (bits * part)) & ((1u << bits) - 1);
}
/* Values of a column, the last chunk's filling among them. */
static int padded_k(const struct linear_weight *w) {
    const int last = (gemm_blocks(w) - 1) * w->kernel->kc;
    return last + gemm_words(w->kernel, w->k - last) * w->kernel->per_word;
}
static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}
static uint32_t nearest_bfloat(float f) {
    const uint32_t bits = bits_of(f), low = bits & 0xffff, odd = bits >> 16 & 1;
    return (bits >> 16) + (low > 0x8000 || (low == 0x8000 && odd));
}

static void check_column_bits(const struct linear_weight *w, const float *want, int j) {
    for (int k = 0; k < padded_k(w); k++) {
        const float value = k < w->k ? want[k] : 0;
        const uint32_t bits =
            w->kernel->dtype == DTYPE_F32 ? bits_of(value) : nearest_bfloat(value);
        if (bits_at(w, k, j) != bits) {
            fail_msg("%d x %d, value %d of column %d: %08x, %08x is right", w->n, w->k, k, j,
                     bits_at(w, k, j), bits);
        }
    }
}
/* The scale that gemm.h's rules give for values [k0, k0 + len) of a column. */
static double group_scale(const struct gemm_kernel *kn, const float *column, int len) {
    double value = 0, pair = 0;
    for (int k = 0; k < len; k++) {
        const int other = k + kn->lanes;
        const double a = column[k], b = other < len ? column[other] : 0;
        value = fmax(value, fabs(a));
        if (k / kn->lanes % 2 == 0) { // a pair's first
            pair = fmax(pair, fmax(fmax(a, 0) + fmax(b, 0), -fmin(a, 0) - fmin(b, 0)));
        }
    }
    return fmax(value / Q_MAX, kn->pairs_saturate ? pair / PAIR_MAX : 0);
}
static void check_group(const struct linear_weight *w, const float *column, int k0, int len,
                        int j) {
    const struct gemm_kernel *kn = w->kernel;
    const size_t at = (size_t)(k0 / kn->scaled) * (size_t)w->n_padded + (size_t)j;
    const double scale = group_scale(kn, column + k0, len), got = w->scales[at];
    const double most = (kn->pairs_saturate ? 1.5 : 0.5) * got * (1 + 1e-4) + 1e-28;
    int sum = 0;
    assert_true(fabs(got - scale) <= 1e-6 * scale + 1e-44);
    for (int k = 0; k < len; k++) {
        const int q = (int8_t)bits_at(w, k0 + k, j);
        sum += q;
        if (abs(q) > Q_MAX || !(fabs(column[k0 + k] - got * q) <= most)) {
            fail_msg("%d x %d, value %d of column %d: %d * %.9g for %.9g", w->n, w->k, k0 + k, j, q,
                     got, (double)column[k0 + k]);
        }
        if (kn->pairs_saturate && k / kn->lanes % 2 == 0 && k + kn->lanes < len) {
            assert_true(abs(q + (int8_t)bits_at(w, k0 + k + kn->lanes, j)) <= PAIR_MAX);
        }
    }
    assert_true(w->sums[at] == (float)sum);
}
static void check_column_int8(const struct linear_weight *w, const float *column, int j) {
    for (int k0 = 0; k0 < w->k; k0 += w->kernel->scaled) {
        check_group(w, column, k0, w->k - k0 < w->kernel->scaled ? w->k - k0 : w->kernel->scaled,
                    j);
    }
    for (int k = w->k; k < padded_k(w); k++) {
        assert_int_equal(bits_at(w, k, j), 0);
    }
}
static void check_column(const struct linear_weight *w, const float *column, int j) {
    if (w->kernel->dtype == DTYPE_I8) {
        check_column_int8(w, column, j);
    } else {
        check_column_bits(w, column, j);
    }
}

/* Columns that test rounding and scales: none at all, tiny, huge, neighbours all alike, ties. */
static void strange_column(float *column, int k, int which) {
    static const float all[] = {0, 1e-42f, 3e38f, -1, 1e-30f, -3e38f};
    for (int i = 0; i < k; i++) {
        column[i] = which < (int)N_ITEMS(all) ? all[which] : (float)(i % 255 - 127) / 2;
    }
}
static struct linear_part make_part(int n, int k, enum dtype dtype, float scale) {
    struct linear_part part = {check_host(n, k, 0.05f, dtype), {0}, scale, false, false};
    for (int j = 0; dtype == DTYPE_F32 && j < n && j < 7; j++) {
        strange_column((float *)(uintptr_t)part.weight.data + (size_t)j * (size_t)k, k, j);
    }
    return part;
}
/* Columns that no part has are zeros. */
static void packed_matrix(struct backend *be, const struct linear_part *parts, int n_parts) {
    struct linear_weight *w = NULL;
    struct error err;
    assert_int_equal(be->fn->linear_create(be, &w, parts, n_parts, &err), STATUS_OK);
    float *column = xcalloc((size_t)w->k, sizeof(*column));
    int j = 0;
    for (int p = 0; p < n_parts; p++) {
        for (int r = 0; r < parts[p].weight.rows; r++, j++) {
            host_tensor_to_float(column, &parts[p].weight, (size_t)r * (size_t)w->k, (size_t)w->k);
            for (int i = 0; i < w->k; i++) {
                column[i] *= parts[p].scale;
            }
            check_column(w, column, j);
        }
    }
    assert_int_equal(j, w->n);
    memset(column, 0, (size_t)w->k * sizeof(*column));
    for (; j < w->n_padded; j++) {
        check_column(w, column, j);
    }
    free(column);
    be->fn->linear_destroy(be, w);
}
static void pack_some(struct backend *be) {
    static const int ks[] = {1, 3, 20, 36, 64, 95, 100, 128, 383, 384, 385, 500, 768, 801};
    static const int ns[] = {1, 2, 7, 15, 31, 32, 33, 48, 65};
    for (size_t i = 0; i < N_ITEMS(ks); i++) {
        const int n = ns[check_rand(0, N_ITEMS(ns) - 1)], more = ns[i % N_ITEMS(ns)];
        struct linear_part parts[] = {make_part(n, ks[i], DTYPE_F32, 1),
                                      make_part(more, ks[i], DTYPE_F32, 0.25f),
                                      make_part(3, ks[i], i % 2 ? DTYPE_F16 : DTYPE_BF16, 0.5f)};
        packed_matrix(be, parts, N_ITEMS(parts));
        packed_matrix(be, parts, 1);
        for (size_t p = 0; p < N_ITEMS(parts); p++) {
            check_host_free(&parts[p].weight);
        }
    }
}

static void test_float32(void **unused) {
    for (const char *const *isa = check_isas(); *isa; isa++) {
        struct pair p = check_pair(*isa, 1);
        check_case(&p, "packing");
        pack_some(p.dev);
        check_pair_finish(&p);
    }
}
static void test_other_precisions(void **unused) {
    for (const struct kind *k = check_kinds(); k->isa; k++) {
        struct pair p = check_pair_in(k->isa, 1, k->precision);
        check_case(&p, "packing");
        pack_some(p.dev);
        check_pair_finish(&p);
    }
}

int test_packing(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float32),
        cmocka_unit_test(test_other_precisions),
    };
    return cmocka_run_group_tests_name("packing", tests, NULL, NULL);
}
