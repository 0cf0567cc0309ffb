/* blas.c - products by columns, as cuBLASLt does them: checked when they are put into a stream,
 * computed when the stream comes to them. Sums are fp32, in eight parts; algorithms differ in how
 * many pieces k is cut into, as split-k does on a device. */
#include "kernels/simt/cublaslt.h"

#include "kernels/simt/device_state.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/words.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"

enum { N_ALGORITHMS = 3, PARTS = 8, ALIGN = 16 };
static const uint64_t ALGORITHM = UINT64_C(0x626c617373696d74); // marks what a heuristic gave

static atomic_ulong n_products;

unsigned long simt_products(void) {
    return atomic_load(&n_products);
}

struct simt_blas {
    int unused;
};
struct simt_product {
    int32_t transa, transb, epilogue;
    bool is_tf32;
    const void *bias;
};
struct simt_layout {
    int32_t type, order;
    uint64_t rows, cols;
    int64_t ld;
};
struct simt_preference {
    uint64_t workspace_bytes;
};
struct matrix {
    const void *data;
    struct simt_layout l;
};
struct call {
    struct simt_product product;
    struct matrix a, b, c, d;
    void *out;
    float alpha, beta;
    int n_pieces;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    *out = xcalloc(1, sizeof(**out));
    device_made();
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) {
    return 0;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    const bool is_tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((compute != CUBLAS_COMPUTE_32F && !is_tf32) || scale != CUDA_R_32F) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *out = xcalloc(1, sizeof(**out));
    device_made();
    (*out)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*out)->is_tf32 = is_tf32;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}
/* Attributes have one size each: any other is refused, as by the library. */
static cublasStatus_t take(void *place, size_t size, const void *value, size_t bytes) {
    if (!place || bytes != size) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(place, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(&d->transa, sizeof(d->transa), value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(&d->transb, sizeof(d->transb), value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&d->epilogue, sizeof(d->epilogue), value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take((void *)&d->bias, sizeof(d->bias), value, bytes);
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    *out = xcalloc(1, sizeof(**out));
    device_made();
    **out = (struct simt_layout){(int32_t)type, 0, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return take(&l->type, sizeof(l->type), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return take(&l->order, sizeof(l->order), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return take(&l->rows, sizeof(l->rows), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return take(&l->cols, sizeof(l->cols), value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return take(&l->ld, sizeof(l->ld), value, bytes);
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    *out = xcalloc(1, sizeof(**out));
    device_made();
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
               ? take(&p->workspace_bytes, sizeof(p->workspace_bytes), value, bytes)
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

static size_t size_of(int32_t type) {
    return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}
static bool is_layout(const struct simt_layout *l, int32_t type, uint64_t rows, uint64_t cols) {
    return l->order == 0 && l->type == type && l->rows == rows && l->cols == cols && l->ld > 0 &&
           (uint64_t)l->ld >= rows && (uint64_t)l->ld * size_of(type) % ALIGN == 0;
}
static cublasStatus_t check_shapes(const struct simt_product *p, const struct simt_layout *a,
                                   const struct simt_layout *b, const struct simt_layout *c,
                                   const struct simt_layout *d) {
    const uint64_t m = d->rows, n = d->cols, k = b->rows;
    const bool is_type = d->type == CUDA_R_32F || d->type == CUDA_R_16F || d->type == CUDA_R_16BF;
    const bool is_known =
        p->epilogue == CUBLASLT_EPILOGUE_DEFAULT || p->epilogue == CUBLASLT_EPILOGUE_BIAS ||
        p->epilogue == CUBLASLT_EPILOGUE_GELU || p->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
    if (!is_type || !is_known || p->transb != CUBLAS_OP_N) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const bool fits = is_layout(a, d->type, p->transa ? k : m, p->transa ? m : k) &&
                      is_layout(b, d->type, k, n) && is_layout(c, d->type, m, n) &&
                      is_layout(d, d->type, m, n) && m > 0 && n > 0 && k > 0;
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t *results,
                                              int *n_found) {
    const cublasStatus_t s = check_shapes(desc, a, b, c, d);
    *n_found = 0;
    for (int i = 0; !s && i < n_wanted && i < N_ALGORITHMS; i++) {
        const uint64_t workspace = (uint64_t)i * 4096; // only the first needs none
        if (workspace <= preference->workspace_bytes) {
            results[(*n_found)++] = (cublasLtMatmulHeuristicResult_t){
                .algo = {{ALGORITHM, (uint64_t)i + 1, workspace}}, .workspaceSize = workspace};
        }
    }
    return s;
}

static float value_at(const struct matrix *m, uint64_t i) {
    switch (m->l.type) {
    case CUDA_R_32F: return ((const float *)m->data)[i];
    case CUDA_R_16F: return simt_from_f16(((const uint16_t *)m->data)[i]);
    default: return simt_from_bf16(((const uint16_t *)m->data)[i]);
    }
}
static void put(void *out, int32_t type, uint64_t i, float value) {
    switch (type) {
    case CUDA_R_32F: ((float *)out)[i] = value; break;
    case CUDA_R_16F: ((uint16_t *)out)[i] = simt_to_f16(value); break;
    default: ((uint16_t *)out)[i] = simt_to_bf16(value); break;
    }
}
/* The vectors along k, dense: out[columns][k]; as TF32, without their last 13 bits. */
static float *unpack(const struct matrix *m, bool along_rows, bool is_tf32, uint64_t n,
                     uint64_t k) {
    float *out = xcalloc(n * k, sizeof(*out));
    const uint64_t ld = (uint64_t)m->l.ld;
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < k; j++) {
            const float v = value_at(m, along_rows ? i + j * ld : i * ld + j);
            out[i * k + j] = is_tf32 ? simt_float(simt_bits(v) & 0xffffe000u) : v;
        }
    }
    return out;
}
static float dot(const float *a, const float *b, uint64_t from, uint64_t to) {
    float sums[PARTS] = {0}, sum = 0;
    uint64_t i = from;
    for (; i + PARTS <= to; i += PARTS) {
        for (int p = 0; p < PARTS; p++) {
            sums[p] += a[i + p] * b[i + p];
        }
    }
    for (; i < to; i++) {
        sum += a[i] * b[i];
    }
    for (int p = 0; p < PARTS; p++) {
        sum += sums[p];
    }
    return sum;
}
static float product_of(const struct call *call, const float *a, const float *b, uint64_t k) {
    const uint64_t n = (uint64_t)call->n_pieces;
    float sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        sum += dot(a, b, k * i / n, k * (i + 1) / n);
    }
    return sum;
}
static float finish(const struct call *call, float sum, uint64_t row, uint64_t column) {
    const struct matrix bias = {call->product.bias, call->d.l};
    float v = call->alpha * sum;
    if (call->beta != 0) {
        v += call->beta * value_at(&call->c, column * (uint64_t)call->c.l.ld + row);
    }
    if (call->product.epilogue & CUBLASLT_EPILOGUE_BIAS) {
        v += value_at(&bias, row);
    }
    if (call->product.epilogue & CUBLASLT_EPILOGUE_GELU) { // sqrt(2 / pi)
        v = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    }
    return v;
}
static cudaError_t multiply(const void *arguments) {
    const struct call *call = arguments;
    const uint64_t m = call->d.l.rows, n = call->d.l.cols, k = call->b.l.rows;
    const bool is_tf32 = call->product.is_tf32;
    float *a = unpack(&call->a, !call->product.transa, is_tf32, m, k);
    float *b = unpack(&call->b, false, is_tf32, n, k);
    for (uint64_t column = 0; column < n; column++) {
        for (uint64_t row = 0; row < m; row++) {
            const float sum = product_of(call, a + row * k, b + column * k, k);
            put(call->out, call->d.l.type, column * (uint64_t)call->d.l.ld + row,
                finish(call, sum, row, column));
        }
    }
    free(a), free(b);
    return cudaSuccess;
}

static bool is_there(const struct matrix *m) {
    const uint64_t values = (m->l.cols - 1) * (uint64_t)m->l.ld + m->l.rows;
    return (uintptr_t)m->data % ALIGN == 0 && memory_has(m->data, values * size_of(m->l.type));
}
static bool call_is_valid(const struct call *call) {
    const bool has_bias = call->product.epilogue & CUBLASLT_EPILOGUE_BIAS;
    const size_t bias_bytes = call->d.l.rows * size_of(call->d.l.type);
    const bool in_place = call->c.data == call->d.data && call->c.l.ld == call->d.l.ld;
    return is_there(&call->a) && is_there(&call->b) && is_there(&call->d) &&
           (call->beta == 0 || in_place || is_there(&call->c)) &&
           (call->beta == 0 || call->c.data != call->d.data || in_place) &&
           (!has_bias || memory_has(call->product.bias, bias_bytes));
}
static cublasStatus_t put_call(const struct call *call, cudaStream_t stream) {
    atomic_fetch_add(&n_products, 1);
    const cudaError_t stuck = device_enter();
    cudaError_t e = stuck;
    const bool is_valid = call_is_valid(call);
    if (!e && is_valid && fault_at_launch()) {
        e = cudaErrorLaunchOutOfResources;
    }
    e = device_leave(e || !is_valid ? e : stream_put(stream, multiply, call, sizeof(*call), true));
    return e          ? CUBLAS_STATUS_EXECUTION_FAILED
           : is_valid ? CUBLAS_STATUS_SUCCESS
                      : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                              cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                              cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
    if (!handle || !algorithm || algorithm->data[0] != ALGORITHM ||
        algorithm->data[2] > workspace_bytes) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const cublasStatus_t s = check_shapes(desc, layout_a, layout_b, layout_c, layout_d);
    const struct call call = {.product = *desc,
                              .a = {a, *layout_a},
                              .b = {b, *layout_b},
                              .c = {c, *layout_c},
                              .d = {d, *layout_d},
                              .out = d,
                              .alpha = *(const float *)alpha,
                              .beta = *(const float *)beta,
                              .n_pieces = (int)algorithm->data[1]};
    return s ? s : put_call(&call, stream);
}
