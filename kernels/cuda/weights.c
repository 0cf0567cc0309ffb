/* weights.c - tensors and weights in device memory, rows and columns filled up with zeros.
 * Columns go up to a multiple of 8, rows of a product's weight too, so that every row begins at 16
 * bytes and a product's shape is always one that tensor cores take; what is computed for the rest
 * is 0, and stays 0. Q, K and V become one weight, rows one after the other.
 * In 16 bits three things stay fp32, for they are few bytes of a pass and a good part of its
 * rounding: rows of AXIS_SEQS, with a second copy of the weights that compute them; embeddings. */
#include "kernels/convert.h"
#include "kernels/cuda/internal.h"

#include <stdlib.h>
#include <string.h>

static enum status make_tensor(struct cuda_backend *cuda, struct tensor *out, enum row_axis axis,
                               int rows, int cols, enum dtype dtype, struct error *err) {
    const int64_t stride = cuda_padded(cols);
    void *data = NULL;
    const size_t bytes = (size_t)rows * (size_t)stride * dtype_size(dtype);
    const enum status s = arena_take(cuda, &data, bytes, err);
    if (!s) {
        *out = (struct tensor){data, dtype, LAYOUT_ROWS, axis, rows, cols, stride};
    }
    return s;
}
enum status cuda_tensor_create(struct backend *be, struct tensor *out, enum row_axis axis, int rows,
                               int cols, bool exact, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    const enum dtype dtype = exact || axis == AXIS_SEQS ? DTYPE_F32 : be->dtype;
    const size_t bytes = (size_t)rows * (size_t)cuda_padded(cols) * dtype_size(dtype);
    enum status s = make_tensor(cuda, out, axis, rows, cols, dtype, err);
    if (s) {
        return s;
    }
    if (axis == AXIS_SEQS && bytes > cuda->seqs_bytes) {
        cuda->seqs_bytes = bytes;
    }
    s = cuda_upload_finish(cuda, err); // its zeros are there
    if (s) {
        cuda_tensor_destroy(be, out);
    }
    return s;
}
void cuda_tensor_destroy(struct backend *be, struct tensor *t) {
    arena_give(&cuda_of(be)->arena, t->data);
    memset(t, 0, sizeof(*t));
}

enum status cuda_tensor_write(struct backend *be, const struct tensor *t, const float *rows,
                              struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    const struct host_tensor from = {rows, DTYPE_F32, t->rows, t->cols};
    enum status s = STATUS_OK;
    for (int r = 0; r < t->rows && !s; r++) {
        char *to = (char *)t->data + (size_t)r * (size_t)t->stride * dtype_size(t->dtype);
        s = cuda_upload(cuda, to, t->dtype, &from, (size_t)r * (size_t)t->cols, (size_t)t->cols, 1,
                        err);
    }
    return s ? s : cuda_upload_finish(cuda, err);
}
enum status cuda_tensor_read(struct backend *be, float *rows, const struct tensor *t,
                             struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    const size_t stride = (size_t)t->stride,
                 bytes = (size_t)t->rows * stride * dtype_size(t->dtype);
    char *all = xcalloc(bytes, 1);
    const enum status s = cuda_check(cuda, cudaMemcpy(all, t->data, bytes, cudaMemcpyDeviceToHost),
                                     "a copy of a tensor", err);
    const struct host_tensor from = {all, t->dtype, t->rows, (int)stride};
    for (int r = 0; r < t->rows && !s; r++) {
        host_tensor_to_float(rows + (size_t)r * (size_t)t->cols, &from, (size_t)r * stride,
                             (size_t)t->cols);
    }
    free(all);
    return s;
}

/* Rows of `from` into rows of `to`, from row `first` on. */
static enum status upload_rows(struct cuda_backend *cuda, const struct tensor *to, int first,
                               const struct host_tensor *from, float scale, struct error *err) {
    const size_t cols = (size_t)from->cols, size = dtype_size(to->dtype);
    char *at = (char *)to->data + (size_t)first * (size_t)to->stride * size;
    enum status s = STATUS_OK;
    if (to->stride == from->cols) {
        return cuda_upload(cuda, at, to->dtype, from, 0, (size_t)from->rows * cols, scale, err);
    }
    for (int r = 0; r < from->rows && !s; r++, at += (size_t)to->stride * size) {
        s = cuda_upload(cuda, at, to->dtype, from, (size_t)r * cols, cols, scale, err);
    }
    return s;
}

static enum status fill_linear(struct cuda_backend *cuda, struct linear_matrix *w,
                               const struct linear_part *parts, int n_parts, struct error *err) {
    enum status s = STATUS_OK;
    for (int i = 0, n = 0; i < n_parts && !s; n += parts[i++].weight.rows) {
        const struct linear_part *part = &parts[i];
        s = upload_rows(cuda, &w->w, n, &part->weight, part->scale, err);
        if (!s && part->bias.data) {
            s = cuda_upload(cuda, (char *)w->bias + (size_t)n * dtype_size(w->w.dtype), w->w.dtype,
                            &part->bias, 0, (size_t)part->bias.cols, part->scale, err);
        }
    }
    return s ? s : cuda_upload_finish(cuda, err);
}
static enum status make_matrix(struct cuda_backend *cuda, struct linear_matrix *m, int n, int k,
                               enum dtype dtype, const struct linear_part *parts, int n_parts,
                               struct error *err) {
    const int n_rows = cuda_padded(n);
    enum status s = make_tensor(cuda, &m->w, AXIS_TOKENS, n_rows, k, dtype, err);
    s = s ? s : arena_take(cuda, &m->bias, (size_t)n_rows * dtype_size(dtype), err);
    return s ? s : fill_linear(cuda, m, parts, n_parts, err);
}
enum status cuda_linear_create(struct backend *be, struct linear_weight **out,
                               const struct linear_part *parts, int n_parts, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    struct linear_weight *w = xcalloc(1, sizeof(*w));
    const enum dtype dtype = parts[0].exact ? DTYPE_F32 : be->dtype;
    w->k = parts[0].weight.cols, w->is_exact = parts[0].exact;
    for (int i = 0; i < n_parts; i++) {
        assert(parts[i].weight.cols == w->k && parts[i].exact == parts[0].exact);
        w->n += parts[i].weight.rows;
    }
    enum status s = make_matrix(cuda, &w->own, w->n, w->k, dtype, parts, n_parts, err);
    if (!s && parts[0].by_seq && dtype != DTYPE_F32) {
        s = make_matrix(cuda, &w->wide, w->n, w->k, DTYPE_F32, parts, n_parts, err);
    }
    if (s) {
        cuda_linear_destroy(be, w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}
void cuda_linear_destroy(struct backend *be, struct linear_weight *w) {
    if (w) {
        arena_give(&cuda_of(be)->arena, w->own.w.data);
        arena_give(&cuda_of(be)->arena, w->own.bias);
        arena_give(&cuda_of(be)->arena, w->wide.w.data);
        arena_give(&cuda_of(be)->arena, w->wide.bias);
        free(w);
    }
}

enum status cuda_norm_create(struct backend *be, struct norm_weight **out,
                             const struct host_tensor *gamma, const struct host_tensor *beta,
                             float eps, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    struct norm_weight *w = xcalloc(1, sizeof(*w));
    const size_t n = (size_t)gamma->cols, bytes = (size_t)cuda_padded(gamma->cols) * sizeof(float);
    void *both[2] = {NULL, NULL};
    assert(gamma->cols == beta->cols);
    enum status s = arena_take(cuda, &both[0], bytes, err);
    s = s ? s : arena_take(cuda, &both[1], bytes, err);
    s = s ? s : cuda_upload(cuda, both[0], DTYPE_F32, gamma, 0, n, 1, err);
    s = s ? s : cuda_upload(cuda, both[1], DTYPE_F32, beta, 0, n, 1, err);
    s = s ? s : cuda_upload_finish(cuda, err);
    w->norm = (struct cuda_norm){both[0], both[1], eps, gamma->cols};
    if (s) {
        cuda_norm_destroy(be, w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}
void cuda_norm_destroy(struct backend *be, struct norm_weight *w) {
    if (w) {
        arena_give(&cuda_of(be)->arena, w->norm.gamma);
        arena_give(&cuda_of(be)->arena, w->norm.beta);
        free(w);
    }
}

enum status cuda_table_create(struct backend *be, struct table_weight **out,
                              const struct host_tensor *rows, struct error *err) {
    struct cuda_backend *cuda = cuda_of(be);
    struct table_weight *w = xcalloc(1, sizeof(*w));
    enum status s =
        make_tensor(cuda, &w->rows, AXIS_TOKENS, rows->rows, rows->cols, DTYPE_F32, err);
    s = s ? s : upload_rows(cuda, &w->rows, 0, rows, 1, err);
    s = s ? s : cuda_upload_finish(cuda, err);
    if (s) {
        cuda_table_destroy(be, w);
        return s;
    }
    *out = w;
    return STATUS_OK;
}
void cuda_table_destroy(struct backend *be, struct table_weight *w) {
    if (w) {
        arena_give(&cuda_of(be)->arena, w->rows.data);
        free(w);
    }
}
