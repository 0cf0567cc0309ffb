/* weights_linear.c - matrices of a checkpoint packed for the products of the backend's precision
 * (gemm.h), with scale and bias. Panel by panel, so that no second copy of a matrix is ever made.
 * int8: a column has a scale for each k block, its largest value being 127. Where pairs saturate
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

/* Where value k of a block of column `j` stands, in values: k in words and their places, as gemm.h
 * says. */
static size_t place_of(const struct linear_weight *w, int k, int words, int j) {
    const struct gemm_kernel *kn = w->kernel;
    const int panel = j / kn->nr, column = j % kn->nr;
    const int chunk = k / (kn->per_word * kn->lanes), rest = k % (kn->per_word * kn->lanes);
    const size_t word = (size_t)panel * (size_t)words + (size_t)chunk * (size_t)kn->lanes +
                        (size_t)(rest % kn->lanes);
    return (word * (size_t)kn->nr + (size_t)column) * (size_t)kn->per_word +
           (size_t)(rest / kn->lanes);
}
static size_t block_start(const struct linear_weight *w, int k0) { // in values
    return (size_t)k0 * (size_t)w->n_padded;
}

/* To the nearest, ties to even; the value is finite. */
static uint16_t to_bfloat(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Another value whose products are added to k's in 16 bits; -1: none of them. */
static int neighbour_of(const struct gemm_kernel *kn, int k, int len) {
    const int chunk = kn->per_word * kn->lanes;
    const int other = k % chunk / kn->lanes % 2 ? k - kn->lanes : k + kn->lanes;
    return other < len ? other : -1;
}
static bool same_sign(float a, float b) {
    return (a > 0 && b > 0) || (a < 0 && b < 0);
}
static float block_scale(const struct gemm_kernel *kn, const float *row, int len) {
    float largest = 0, largest_pair = 0;
    for (int k = 0; k < len; k++) {
        largest = fmaxf(largest, fabsf(row[k]));
        const int other = kn->pairs_saturate ? neighbour_of(kn, k, len) : -1;
        if (other > k && same_sign(row[k], row[other])) {
            largest_pair = fmaxf(largest_pair, fabsf(row[k] + row[other]));
        }
    }
    return fmaxf(largest / Q_MAX, largest_pair / PAIR_MAX);
}
/* Rounding may lift two neighbours of one sign to 129: the larger one gives way. */
static void bound_pairs(const struct gemm_kernel *kn, int8_t *q, int len) {
    for (int k = 0; k < len; k++) {
        const int other = neighbour_of(kn, k, len);
        if (other > k && abs(q[k] + q[other]) > PAIR_MAX) {
            int8_t *larger = abs(q[k]) > abs(q[other]) ? &q[k] : &q[other];
            *larger = (int8_t)(*larger > 0 ? *larger - 1 : *larger + 1);
        }
    }
}
static void quantise_block(struct linear_weight *w, const float *row, int block, int len, int j) {
    const float scale = block_scale(w->kernel, row, len);
    const size_t at = (size_t)block * (size_t)w->n_padded + (size_t)j;
    const int words = gemm_words(w->kernel, len);
    int8_t *out = (int8_t *)w->data + block_start(w, block * GEMM_KC);
    int8_t q[GEMM_KC] = {0};
    int sum = 0;
    for (int k = 0; k < len && scale > 0; k++) {
        q[k] = (int8_t)fmaxf(-Q_MAX, fminf(Q_MAX, rintf(row[k] / scale)));
    }
    if (w->kernel->pairs_saturate) {
        bound_pairs(w->kernel, q, len);
    }
    for (int k = 0; k < len; k++) {
        out[place_of(w, k, words, j)] = q[k];
        sum += q[k];
    }
    w->scales[at] = scale;
    w->sums[at] = (float)sum;
}

/* bf16 and int8: column `j` of N, one row of the checkpoint's matrix, [k], goes to every k block's
 * panel. */
static void pack_column(struct linear_weight *w, const float *row, int j) {
    for (int block = 0; block < gemm_blocks(w); block++) {
        const int k0 = block * GEMM_KC, len = gemm_block_len(w->k, k0);
        const int words = gemm_words(w->kernel, len);
        const size_t start = block_start(w, k0);
        if (w->kernel->dtype == DTYPE_I8) {
            quantise_block(w, row + k0, block, len, j);
            continue;
        }
        for (int k = 0; k < len; k++) {
            ((uint16_t *)w->data)[start + place_of(w, k, words, j)] = to_bfloat(row[k0 + k]);
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
        float *out = (float *)w->data + block_start(w, k0) + (size_t)panel * len * nr;
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
        w->scales = cpu_floats(n * (size_t)gemm_blocks(w));
        w->sums = cpu_floats(n * (size_t)gemm_blocks(w));
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
