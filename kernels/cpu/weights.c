/* weights.c - checkpoint tensors as the kernels want them. Matrices are packed in panels, with
 * scale and bias (gemm.h); fp32 tables are borrowed where they are mapped. What one backend made
 * any other of the same ISA can use: nothing here points back to it. */
#include "kernels/convert.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

float *cpu_floats(size_t n) {
    const size_t huge_page = (size_t)1 << 21, bytes = n * sizeof(float);
    const size_t align = bytes >= huge_page ? huge_page : 64;
    float *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (p) {
        if (bytes >= huge_page) {
            madvise(p, bytes, MADV_HUGEPAGE); // long streams: fewer TLB misses; may be refused
        }
        memset(p, 0, bytes);
    }
    return p;
}
void cpu_floats_free(float *p) {
    free(p);
}

static enum status no_memory(struct error *err, const char *what, int rows, int cols) {
    return error_set(err, STATUS_NO_MEMORY, "no memory for a %s of %d x %d", what, rows, cols);
}

/* Column `j` of N: one row of the checkpoint's matrix, [k], goes to every k block's panel. */
static void pack_column(struct linear_weight *w, const float *row, int j, int nr) {
    const int panel = j / nr * nr;
    for (int k0 = 0; k0 < w->k; k0 += GEMM_KC) {
        const int kb = gemm_block_len(w->k, k0);
        float *out =
            w->data + (size_t)k0 * (size_t)w->n_padded + (size_t)panel * (size_t)kb + (j - panel);
        for (int i = 0; i < kb; i++) {
            out[(ptrdiff_t)i * nr] = row[k0 + i];
        }
    }
}

static void pack_part(struct linear_weight *w, float *row, const struct linear_part *part, int n0,
                      int nr) {
    const size_t k = (size_t)w->k;
    for (int j = 0; j < part->weight.rows; j++) {
        host_tensor_to_float(row, &part->weight, (size_t)j * k, k);
        for (size_t i = 0; i < k; i++) {
            row[i] *= part->scale;
        }
        pack_column(w, row, n0 + j, nr);
    }
    if (part->bias.data) {
        host_tensor_to_float(w->bias + n0, &part->bias, 0, (size_t)part->weight.rows);
    }
    for (int j = n0; j < n0 + part->weight.rows; j++) {
        w->bias[j] *= part->scale;
    }
}

enum status cpu_linear_create(struct backend *be, struct linear_weight **out,
                              const struct linear_part *parts, int n_parts, struct error *err) {
    const int nr = ((const struct cpu_backend *)be)->isa->nr;
    struct linear_weight *w = xcalloc(1, sizeof(*w));
    w->k = parts[0].weight.cols;
    for (int i = 0; i < n_parts; i++) {
        assert(parts[i].weight.cols == w->k);
        assert(!parts[i].bias.data || parts[i].bias.cols == parts[i].weight.rows);
        w->n += parts[i].weight.rows;
    }
    w->n_padded = (w->n + nr - 1) / nr * nr;
    w->data = cpu_floats((size_t)w->n_padded * (size_t)w->k);
    w->bias = cpu_floats((size_t)w->n_padded);
    if (!w->data || !w->bias) {
        cpu_linear_destroy(be, w);
        return no_memory(err, "matrix", parts[0].weight.rows, parts[0].weight.cols);
    }
    float *row = xcalloc((size_t)w->k, sizeof(*row));
    for (int i = 0, n0 = 0; i < n_parts; n0 += parts[i].weight.rows, i++) {
        pack_part(w, row, &parts[i], n0, nr);
    }
    free(row);
    *out = w;
    return STATUS_OK;
}
void cpu_linear_destroy(struct backend *be, struct linear_weight *w) {
    if (w) {
        cpu_floats_free(w->data);
        cpu_floats_free(w->bias);
        free(w);
    }
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
