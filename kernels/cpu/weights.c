/* weights.c - checkpoint vectors and tables as the kernels want them; matrices: weights_linear.c.
 * fp32 tables are borrowed where they are mapped. What one backend made any other of the same ISA
 * can use: nothing here points back to it. */
#include "kernels/convert.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <stdlib.h>

static enum status no_memory(struct error *err, const char *what, int rows, int cols) {
    return error_set(err, STATUS_NO_MEMORY, "no memory for a %s of %d x %d", what, rows, cols);
}

enum status cpu_norm_create(struct backend *be, struct norm_weight **out,
                            const struct host_tensor *gamma, const struct host_tensor *beta,
                            float eps, struct error *err) {
    assert(gamma->cols == beta->cols);
    const size_t n = (size_t)gamma->cols;
    float *data = cpu_floats(2 * n);
    if (!data) {
        return no_memory(err, "vector", 1, gamma->cols);
    }
    host_tensor_to_float(data, gamma, 0, n);
    host_tensor_to_float(data + n, beta, 0, n);
    struct norm_weight *w = xcalloc(1, sizeof(*w));
    *w = (struct norm_weight){.gamma = data, .beta = data + n, .n = gamma->cols, .eps = eps};
    *out = w;
    return STATUS_OK;
}
void cpu_norm_destroy(struct backend *be, struct norm_weight *w) {
    if (w) {
        cpu_floats_free(w->gamma);
        free(w);
    }
}

enum status cpu_table_create(struct backend *be, struct table_weight **out,
                             const struct host_tensor *rows, struct error *err) {
    struct table_weight *w = xcalloc(1, sizeof(*w));
    *w = (struct table_weight){.data = rows->data, .rows = rows->rows, .cols = rows->cols};
    if (rows->dtype != DTYPE_F32) {
        const size_t n = (size_t)rows->rows * (size_t)rows->cols;
        w->data = w->owned = cpu_floats(n);
        if (!w->owned) {
            free(w);
            return no_memory(err, "table", rows->rows, rows->cols);
        }
        host_tensor_to_float(w->owned, rows, 0, n);
    }
    *out = w;
    return STATUS_OK;
}
void cpu_table_destroy(struct backend *be, struct table_weight *w) {
    if (w) {
        cpu_floats_free(w->owned);
        free(w);
    }
}
