/* blas.h - products by cuBLASLt, with what can ride along: bias, GELU (its tanh form), a residual.
 * The library (half a gigabyte) is opened once a device was found, and stays open. Plans are made
 * at first use, one for each shape and size of batch, and kept.
 * Threads: those of the backend that owns it. */
#ifndef BERTH_KERNELS_CUDA_BLAS_H
#define BERTH_KERNELS_CUDA_BLAS_H
#include "kernels/cuda/launches.h"
#include "base/status.h"
#include "kernels/plugin.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { BLAS_MAX_PLANS = 512, BLAS_MAX_CANDIDATES = 8 };
struct cuda_backend;
struct blas_plan;
struct blas {
    cublasLtHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    cudaEvent_t begin, end;  // around an algorithm that is timed
    struct blas_plan *plans; // [BLAS_MAX_PLANS]
    int n_plans;
};
/* y = epilogue(x * w^T + bias) + residual. All of one dtype, the backend's or fp32, rows as
 * element.cuh has them. Fp32 of a backend of 16 bits is multiplied as TF32: 11 bits of each factor,
 * three more than bf16 has, at half its speed. */
struct blas_product {
    const struct tensor *y, *x, *w;
    const void *bias;
    const struct tensor *residual; // NULL: none; may be y
    bool gelu;                     // the tanh form; never together with a residual
    int rows;
};
/* What is used of the library; blas_library.c finds it. */
struct blas_functions {
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*destroy)(cublasLtHandle_t);
    size_t (*version)(void);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                               size_t);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *, cudaDataType_t, uint64_t, uint64_t,
                                    int64_t);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t);
    cublasStatus_t (*layout_set)(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t,
                                 const void *, size_t);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t, const void *, size_t);
    cublasStatus_t (*heuristic)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                                cublasLtMatmulHeuristicResult_t *, int *);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t);
};
/* What was chosen before, in blas_notes.c. The proposal that is noted under `key`; -1: none is, or
 * none that is still proposed. */
int blas_noted(const struct choice_notes *notes, const char *key,
               const cublasLtMatmulHeuristicResult_t *found, int n_found);
void blas_note(const struct choice_notes *notes, const char *key,
               const cublasLtMatmulHeuristicResult_t *chosen);

const struct blas_functions *blas_fn(void); // once the library is open
/* Errors: STATUS_UNAVAILABLE with what the loader said. Any thread. */
enum status blas_library_open(struct error *err);

enum status blas_open(struct cuda_backend *cuda, struct error *err);
void blas_close(struct cuda_backend *cuda); // takes a half-made one
/* Puts the product into the compute stream. */
enum status blas_run(struct cuda_backend *cuda, const struct blas_product *p, struct error *err);
#ifdef __cplusplus
}
#endif
#endif
