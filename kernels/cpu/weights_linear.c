/* weights_linear.c - matrices of a checkpoint packed for the products of the backend's precision
 * (gemm.h), with scale and bias. Panel by panel, so that no second copy of a matrix is ever made;
 * the packing itself is the product's own (pack_weight.c).
 */
#include "kernels/convert.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <stdlib.h>
#include <string.h>

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
/* rows: [nr, k], scratch. */
static void pack_weight(struct linear_weight *w, float *rows, const struct linear_part *parts,
                        int n_parts) {
    const int nr = w->kernel->nr;
    const size_t k = (size_t)w->k;
    for (int panel = 0; panel < w->n_padded / nr; panel++) {
        for (int c = 0; c < nr; c++) {
            fetch_row(rows + (size_t)c * k, parts, n_parts, panel * nr + c, k);
        }
        w->kernel->pack_panel(w, rows, panel * nr);
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
    const int last = (gemm_blocks(w) - 1) * w->kernel->kc;
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
