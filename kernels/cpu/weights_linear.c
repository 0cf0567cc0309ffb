/* weights_linear.c - matrices of a checkpoint packed for the products of the backend's precision
 * (gemm.h), with scale and bias. Panel by panel, so that no second copy of a matrix is ever made.
 * int8: a column has a scale for each group of values, the largest being 127. Where pairs saturate
 * (maddubs adds two products of up to 255 * 127 in 16 bits), the scale is also as large as keeps
 * two neighbours of one sign within 128 together: 255 * 128 fits. Large weights seldom stand side
 * by side, so that costs half a bit, where keeping every weight to 7 bits would cost a whole one.
 */
#include "kernels/convert.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { Q_MAX = 127, PAIR_MAX = 128 };

/* To the nearest, ties to even; the value is finite. */
static uint16_t to_bfloat(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Where the values begin whose products are added to those of the `lanes` values from k on; or len,
 * when there are none. Even ones: each pair comes up once. */
static int next_pair(const struct gemm_kernel *kn, int *k, int len) {
    while (*k < len && *k / kn->lanes % 2) {
        *k += kn->lanes;
    }
    const int other = *k + kn->lanes;
    return other < len ? other : len;
}
static float largest_pair(const struct gemm_kernel *kn, const float *row, int len) {
    float largest = 0;
    for (int k = 0; k < len; k += kn->lanes) {
        const int other = next_pair(kn, &k, len);
        for (int i = 0; i < kn->lanes && other + i < len; i++) {
            const float a = row[k + i], b = row[other + i];
            const float sum = fmaxf(a, 0) + fmaxf(b, 0);
            largest = fmaxf(largest, fmaxf(sum, -(fminf(a, 0) + fminf(b, 0))));
        }
    }
    return largest;
}
static float group_scale(const struct gemm_kernel *kn, const float *row, int len) {
    float largest = 0;
    for (int k = 0; k < len; k++) {
        largest = fmaxf(largest, fabsf(row[k]));
    }
    const float pair = kn->pairs_saturate ? largest_pair(kn, row, len) : 0;
    return fmaxf(largest / Q_MAX, pair / PAIR_MAX);
}
/* Rounding may lift two neighbours of one sign to 129: the larger one gives way. */
static void bound_pairs(const struct gemm_kernel *kn, int8_t *q, int len) {
    for (int k = 0; k < len; k += kn->lanes) {
        const int other = next_pair(kn, &k, len);
        for (int i = 0; i < kn->lanes && other + i < len; i++) {
            if (abs(q[k + i] + q[other + i]) > PAIR_MAX) {
                int8_t *larger = abs(q[k + i]) > abs(q[other + i]) ? &q[k + i] : &q[other + i];
                *larger = (int8_t)(*larger > 0 ? *larger - 1 : *larger + 1);
            }
        }
    }
}
/* Values [k0, k0 + len) of column j. */
static void quantise_group(struct linear_weight *w, int8_t *q, const float *row, int k0, int len,
                           int j) {
    const float scale = group_scale(w->kernel, row, len), inverse = scale > 0 ? 1 / scale : 0;
    const size_t at = (size_t)(k0 / w->kernel->scaled) * (size_t)w->n_padded + (size_t)j;
    int sum = 0;
    for (int k = 0; k < len; k++) {
        q[k] = (int8_t)rintf(fmaxf(-Q_MAX, fminf(Q_MAX, row[k] * inverse)));
    }
    if (w->kernel->pairs_saturate) {
        bound_pairs(w->kernel, q, len);
    }
    for (int k = 0; k < len; k++) {
        sum += q[k];
    }
    w->scales[at] = scale;
    w->sums[at] = (float)sum;
}

/* bf16 and int8: a block of one column, in words of the kernel's order (gemm.h). */
static void make_words(struct linear_weight *w, uint32_t words[GEMM_KC], const float *row, int k0,
                       int len, int j) {
    const struct gemm_kernel *kn = w->kernel;
    int8_t q[GEMM_KC];
    memset(words, 0, (size_t)gemm_words(kn, len) * sizeof(*words));
    for (int k = 0; kn->dtype == DTYPE_I8 && k < len; k += kn->scaled) {
        const int n = len - k < kn->scaled ? len - k : kn->scaled;
        quantise_group(w, q + k, row + k, k0 + k, n, j);
    }
    for (int k = 0; k < len; k++) {
        const int chunk = kn->per_word * kn->lanes, part = k % chunk / kn->lanes;
        const uint32_t bits = kn->dtype == DTYPE_I8 ? (uint8_t)q[k] : to_bfloat(row[k]);
        words[k / chunk * kn->lanes + k % kn->lanes] |= bits << (32 / kn->per_word * part);
    }
}
/* Column `j` of N: one row of the checkpoint's matrix, [k], goes to every k block's panel. */
static void pack_column(struct linear_weight *w, const float *row, int j) {
    const int nr = w->kernel->nr, panel = j / nr * nr;
    uint32_t words[GEMM_KC];
    for (int k0 = 0; k0 < w->k; k0 += GEMM_KC) {
        const int len = gemm_block_len(w->k, k0), n = gemm_words(w->kernel, len);
        uint32_t *out = (uint32_t *)w->data +
                        (size_t)(k0 / w->kernel->per_word) * (size_t)w->n_padded +
                        (size_t)panel * (size_t)n + (j - panel);
        make_words(w, words, row + k0, k0, len, j);
        for (int i = 0; i < n; i++) {
            out[(ptrdiff_t)i * nr] = words[i];
        }
    }
}

/* Row j of all parts one below the other, [k], as floats, scaled; rows beyond the last are zero. */
static void fetch_row(float *out, const struct linear_part *parts, int n_parts, int j, size_t k) {
    int i = 0;
    for (; i < n_parts && j >= parts[i].weight.rows; i++) {
        j -= parts[i].weight.rows;
    }
    if (i == n_parts) {
        memset(out, 0, k * sizeof(*out));
        return;
    }
    host_tensor_to_float(out, &parts[i].weight, (size_t)j * k, k);
    for (size_t c = 0; c < k && parts[i].scale != 1; c++) {
        out[c] *= parts[i].scale;
    }
}
/* fp32: a panel's rows to columns, nr at a time, so that what is written is one stream. */
static void pack_panel(struct linear_weight *w, const float *rows, int panel) {
    const size_t nr = (size_t)w->kernel->nr, k = (size_t)w->k;
    for (int block = 0; block < gemm_blocks(w); block++) {
        const int k0 = block * GEMM_KC;
        const size_t len = (size_t)gemm_block_len(w->k, k0);
        float *out = (float *)w->data + (size_t)k0 * (size_t)w->n_padded + (size_t)panel * len * nr;
        for (size_t i = 0; i < len; i++) {
            for (size_t c = 0; c < nr; c++) {
                out[i * nr + c] = rows[c * k + (size_t)k0 + i];
            }
        }
    }
}
/* rows: [nr, k], scratch. */
static void pack_weight(struct linear_weight *w, float *rows, const struct linear_part *parts,
                        int n_parts) {
    const int nr = w->kernel->nr;
    const size_t k = (size_t)w->k;
    for (int panel = 0; panel < w->n_padded / nr; panel++) {
        for (int c = 0; c < nr; c++) {
            fetch_row(rows + (size_t)c * k, parts, n_parts, panel * nr + c, k);
        }
        if (w->kernel->dtype == DTYPE_F32) {
            pack_panel(w, rows, panel);
            continue;
        }
        for (int c = 0; c < nr && panel * nr + c < w->n; c++) {
            pack_column(w, rows + (size_t)c * k, panel * nr + c);
        }
    }
}
static void pack_bias(float *out, const struct linear_part *part) {
    const size_t n = (size_t)part->weight.rows;
    if (part->bias.data) {
        host_tensor_to_float(out, &part->bias, 0, n);
    }
    for (size_t j = 0; j < n; j++) {
        out[j] *= part->scale;
    }
}

static void set_shape(struct linear_weight *w, const struct cpu_backend *cpu,
                      const struct linear_part *parts, int n_parts) {
    bool exact = false;
    w->k = parts[0].weight.cols;
    for (int i = 0; i < n_parts; i++) {
        assert(parts[i].weight.cols == w->k);
        assert(!parts[i].bias.data || parts[i].bias.cols == parts[i].weight.rows);
        w->n += parts[i].weight.rows;
        exact = exact || parts[i].exact;
    }
    w->kernel = exact ? cpu->isa->gemm : cpu->gemm;
    w->n_padded = (w->n + w->kernel->nr - 1) / w->kernel->nr * w->kernel->nr;
}
static bool allocate(struct linear_weight *w) {
    const int last = (gemm_blocks(w) - 1) * GEMM_KC;
    const size_t n = (size_t)w->n_padded, per_word = (size_t)w->kernel->per_word;
    const size_t words = (size_t)gemm_words(w->kernel, w->k - last);
    w->data = cpu_floats(n * ((size_t)last / per_word + words));
    w->bias = cpu_floats(n);
    if (w->kernel->dtype == DTYPE_I8) {
        const size_t groups = (size_t)(w->k + w->kernel->scaled - 1) / (size_t)w->kernel->scaled;
        w->scales = cpu_floats(n * groups);
        w->sums = cpu_floats(n * groups);
    }
    return w->data && w->bias && (w->kernel->dtype != DTYPE_I8 || (w->scales && w->sums));
}

enum status cpu_linear_create(struct backend *be, struct linear_weight **out,
                              const struct linear_part *parts, int n_parts, struct error *err) {
    struct linear_weight *w = xcalloc(1, sizeof(*w));
    set_shape(w, (const struct cpu_backend *)be, parts, n_parts);
    if (!allocate(w)) {
        cpu_linear_destroy(be, w);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a matrix of %d x %d", w->n, w->k);
    }
    float *rows = xcalloc((size_t)w->kernel->nr * (size_t)w->k, sizeof(*rows));
    pack_weight(w, rows, parts, n_parts);
    free(rows);
    for (int i = 0, n0 = 0; i < n_parts; n0 += parts[i].weight.rows, i++) {
        pack_bias(w->bias + n0, &parts[i]);
    }
    *out = w;
    return STATUS_OK;
}
void cpu_linear_destroy(struct backend *be, struct linear_weight *w) {
    if (w) {
        cpu_floats_free(w->data);
        cpu_floats_free(w->bias);
        cpu_floats_free(w->scales);
        cpu_floats_free(w->sums);
        free(w);
    }
}
