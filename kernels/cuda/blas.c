/* blas.c - products as cuBLASLt wants them.
 * The library thinks in columns: our row-major y [rows, n] is its column-major [n, rows], so that
 * w is its A, transposed, x its B, and the bias goes along the rows of its D. A plan's descriptors
 * are made once for a shape and a bucket of rows; a pass sets the number of rows and the bias's
 * address in them, which allocates nothing. The algorithm is asked for at the bucket's size; of
 * several that the library proposes the first pass of the size takes the fastest, by time, unless
 * nothing may be chosen by timing, or an earlier start has noted which it is (blas_notes.c). A
 * start warms up every size (sizes.c), so that this happens before the server is ready; for one
 * that it could not foresee, the library's first proposal is taken after that. */
#include "kernels/cuda/blas.h"

#include "kernels/cuda/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMED_RUNS = 3, KEY_BYTES = 241 };
#ifdef BERTH_SIMT
static const size_t WORKSPACE_BYTES = (size_t)64 << 10; // as much as its algorithms ask for
#else
static const size_t WORKSPACE_BYTES = (size_t)32 << 20;
#endif

struct blas_key {
    int n, k, rows; // rows: of the bucket
    enum dtype type;
    int64_t ldw, ldx, ldy, ldr;
    bool gelu, residual;
};
struct blas_plan {
    struct blas_key key;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t w, x, y, residual;
    cublasLtMatmulAlgo_t algorithm;
};

static enum status check(struct cuda_backend *cuda, cublasStatus_t e, const char *what,
                         struct error *err) {
    if (e == CUBLAS_STATUS_SUCCESS) {
        return STATUS_OK;
    }
    const cudaError_t device = cudaPeekAtLastError(); // a lost device shows here as a failed call
    return device ? cuda_check(cuda, device, what, err)
                  : error_set(err, STATUS_BACKEND, "%s: cuBLASLt says %d", what, (int)e);
}

enum status blas_open(struct cuda_backend *cuda, struct error *err) {
    struct blas *b = &cuda->blas;
    enum status s = blas_library_open(err);
    s = s ? s : check(cuda, blas_fn()->create(&b->handle), "cublasLtCreate", err);
    s = s ? s : arena_take(cuda, &b->workspace, WORKSPACE_BYTES, err);
    s = s ? s
          : cuda_check(cuda, cudaEventCreateWithFlags(&b->begin, cudaEventDefault), "an event",
                       err);
    s = s ? s
          : cuda_check(cuda, cudaEventCreateWithFlags(&b->end, cudaEventDefault), "an event", err);
    b->workspace_bytes = WORKSPACE_BYTES;
    b->plans = xcalloc(BLAS_MAX_PLANS, sizeof(*b->plans));
    return s;
}

static void free_plan(struct blas_plan *p) {
    const struct blas_functions *fn = blas_fn();
    if (p->product) {
        (void)fn->desc_destroy(p->product);
    }
    cublasLtMatrixLayout_t *const layouts[] = {&p->w, &p->x, &p->y, &p->residual};
    for (size_t i = 0; i < N_ITEMS(layouts); i++) {
        if (*layouts[i]) {
            (void)fn->layout_destroy(*layouts[i]);
        }
    }
    memset(p, 0, sizeof(*p));
}
void blas_close(struct cuda_backend *cuda) {
    struct blas *b = &cuda->blas;
    for (int i = 0; i < b->n_plans; i++) {
        free_plan(&b->plans[i]);
    }
    free(b->plans);
    cudaEvent_t const events[] = {b->begin, b->end};
    for (size_t i = 0; i < N_ITEMS(events); i++) {
        if (events[i]) {
            (void)cudaEventDestroy(events[i]);
        }
    }
    if (b->handle) {
        (void)blas_fn()->destroy(b->handle);
    }
    arena_give(&cuda->arena, b->workspace);
    memset(b, 0, sizeof(*b));
}

static struct blas_key key_of(const struct blas_product *p) {
    struct blas_key key;
    memset(&key, 0, sizeof(key)); // keys are compared as bytes
    key.n = p->w->rows, key.k = cuda_padded(p->w->cols), key.rows = cuda_product_bucket(p->rows);
    key.type = p->y->dtype;
    key.ldw = p->w->stride, key.ldx = p->x->stride, key.ldy = p->y->stride;
    key.ldr = p->residual ? p->residual->stride : 0;
    key.gelu = p->gelu, key.residual = p->residual != NULL;
    return key;
}

static cudaDataType_t type_of(enum dtype t) {
    return t == DTYPE_F32 ? CUDA_R_32F : t == DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}
static enum status set(struct cuda_backend *cuda, struct blas_plan *p,
                       cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes,
                       struct error *err) {
    return check(cuda, blas_fn()->desc_set(p->product, attribute, value, bytes),
                 "cublasLtMatmulDescSetAttribute", err);
}
static enum status make_product(struct cuda_backend *cuda, struct blas_plan *p, struct error *err) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue =
        p->key.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    const cublasComputeType_t compute = p->key.type == DTYPE_F32 && cuda->base.dtype != DTYPE_F32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    enum status s = check(cuda, blas_fn()->desc_create(&p->product, compute, CUDA_R_32F),
                          "cublasLtMatmulDescCreate", err);
    s = s ? s : set(cuda, p, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed), err);
    return s ? s : set(cuda, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue), err);
}
static enum status make_layouts(struct cuda_backend *cuda, struct blas_plan *p, struct error *err) {
    const struct blas_key *k = &p->key;
    const cudaDataType_t type = type_of(k->type);
    const uint64_t n = (uint64_t)k->n, inner = (uint64_t)k->k, rows = (uint64_t)k->rows;
    const struct {
        cublasLtMatrixLayout_t *layout;
        uint64_t rows, cols;
        int64_t ld;
    } wanted[] = {{&p->w, inner, n, k->ldw},
                  {&p->x, inner, rows, k->ldx},
                  {&p->y, n, rows, k->ldy},
                  {&p->residual, n, rows, k->residual ? k->ldr : k->ldy}};
    enum status s = STATUS_OK;
    for (size_t i = 0; i < N_ITEMS(wanted) && !s; i++) {
        s = check(cuda,
                  blas_fn()->layout_create(wanted[i].layout, type, wanted[i].rows, wanted[i].cols,
                                           wanted[i].ld),
                  "cublasLtMatrixLayoutCreate", err);
    }
    return s;
}
static enum status set_rows(struct cuda_backend *cuda, const struct blas_plan *p, int n,
                            struct error *err) {
    cublasLtMatrixLayout_t const layouts[] = {p->x, p->y, p->residual};
    const uint64_t rows = (uint64_t)n;
    enum status s = STATUS_OK;
    for (size_t i = 0; i < N_ITEMS(layouts) && !s; i++) {
        s = check(
            cuda,
            blas_fn()->layout_set(layouts[i], CUBLASLT_MATRIX_LAYOUT_COLS, &rows, sizeof(rows)),
            "cublasLtMatrixLayoutSetAttribute", err);
    }
    return s;
}

/* The library's proposals for the plan, its favourite first. */
static enum status propose(struct cuda_backend *cuda, const struct blas_plan *p,
                           cublasLtMatmulHeuristicResult_t *found, int *n_found,
                           struct error *err) {
    const struct blas_functions *fn = blas_fn();
    const size_t bytes = cuda->blas.workspace_bytes;
    cublasLtMatmulPreference_t preference = NULL;
    enum status s =
        check(cuda, fn->preference_create(&preference), "cublasLtMatmulPreferenceCreate", err);
    s = s ? s
          : check(cuda,
                  fn->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                     sizeof(bytes)),
                  "cublasLtMatmulPreferenceSetAttribute", err);
    s = s ? s
          : check(cuda,
                  fn->heuristic(cuda->blas.handle, p->product, p->w, p->x, p->residual, p->y,
                                preference, BLAS_MAX_CANDIDATES, found, n_found),
                  "cublasLtMatmulAlgoGetHeuristic", err);
    if (preference) {
        (void)fn->preference_destroy(preference);
    }
    if (!s && *n_found == 0) {
        s = error_set(err, STATUS_BACKEND, "cuBLASLt has no product for %d x %d x %d, %s",
                      p->key.rows, p->key.n, p->key.k, dtype_name(p->key.type));
    }
    return s;
}
static enum status multiply(struct cuda_backend *cuda, const struct blas_plan *plan,
                            const struct blas_product *p, const cublasLtMatmulAlgo_t *algorithm,
                            struct error *err) {
    const float one = 1, beta = p->residual ? 1 : 0;
    const void *c = p->residual ? p->residual->data : p->y->data; // beta 0: not read
    return check(cuda,
                 blas_fn()->matmul(cuda->blas.handle, plan->product, &one, p->w->data, plan->w,
                                   p->x->data, plan->x, &beta, c, plan->residual, p->y->data,
                                   plan->y, algorithm, cuda->blas.workspace,
                                   cuda->blas.workspace_bytes, cuda->compute),
                 "cublasLtMatmul", err);
}
/* Milliseconds of a few runs, after one that warms up; a proposal that fails takes for ever. */
static float time_algorithm(struct cuda_backend *cuda, const struct blas_plan *plan,
                            const struct blas_product *p, const cublasLtMatmulAlgo_t *algorithm) {
    const struct blas *b = &cuda->blas;
    struct error unused;
    float ms = INFINITY;
    enum status s = multiply(cuda, plan, p, algorithm, &unused);
    s = s ? s : cuda_check(cuda, cudaEventRecord(b->begin, cuda->compute), "timing", &unused);
    for (int i = 0; i < TIMED_RUNS && !s; i++) {
        s = multiply(cuda, plan, p, algorithm, &unused);
    }
    s = s ? s : cuda_check(cuda, cudaEventRecord(b->end, cuda->compute), "timing", &unused);
    s = s ? s : cuda_check(cuda, cudaEventSynchronize(b->end), "timing", &unused);
    s = s ? s : cuda_check(cuda, cudaEventElapsedTime(&ms, b->begin, b->end), "timing", &unused);
    return s ? INFINITY : ms;
}
/* Timed where it harms nothing: not into a graph, not while a client waits, and not where y is
 * added to what it was. */
static bool may_be_timed(const struct cuda_backend *cuda, const struct blas_product *p) {
    return !cuda->opt.deterministic && !cuda->is_capturing && !cuda->is_sealed &&
           !cuda->base.is_lost && (!p->residual || p->residual->data != p->y->data);
}
/* All that the fastest depends on. */
static void name_plan(char out[KEY_BYTES], const struct cuda_backend *cuda,
                      const struct blas_key *k) {
    snprintf(out, KEY_BYTES,
             "algorithm; %s; cublasLt %zu; %s of %s; %d x %d x %d; strides %lld %lld %lld %lld; "
             "bias%s%s",
             cuda->model, blas_fn()->version(), dtype_name(k->type), dtype_name(cuda->base.dtype),
             k->rows, k->n, k->k, (long long)k->ldw, (long long)k->ldx, (long long)k->ldy,
             (long long)k->ldr, k->gelu ? ", gelu" : "", k->residual ? ", residual" : "");
}
static int fastest(struct cuda_backend *cuda, const struct blas_plan *plan,
                   const struct blas_product *p, const cublasLtMatmulHeuristicResult_t *found,
                   int n_found) {
    float least = INFINITY;
    int best = -1; // none ran
    for (int i = 0; i < n_found; i++) {
        const float ms = time_algorithm(cuda, plan, p, &found[i].algo);
        if (ms < least) {
            least = ms, best = i;
        }
    }
    return best;
}
static enum status choose_algorithm(struct cuda_backend *cuda, struct blas_plan *plan,
                                    const struct blas_product *p, struct error *err) {
    cublasLtMatmulHeuristicResult_t found[BLAS_MAX_CANDIDATES];
    const struct choice_notes *notes = cuda->opt.deterministic ? NULL : cuda->opt.notes;
    char key[KEY_BYTES];
    int n_found = 0, best = 0;
    memset(found, 0, sizeof(found)); // they are compared as bytes
    enum status s = propose(cuda, plan, found, &n_found, err);
    s = s ? s : set_rows(cuda, plan, p->rows, err);
    if (!s && n_found > 1) {
        name_plan(key, cuda, &plan->key);
        best = blas_noted(notes, key, found, n_found);
        if (best < 0 && may_be_timed(cuda, p)) {
            best = fastest(cuda, plan, p, found, n_found);
            blas_note(best >= 0 ? notes : NULL, key, &found[best > 0 ? best : 0]);
        }
    }
    plan->algorithm = found[best > 0 ? best : 0].algo;
    return s;
}

static enum status make_plan(struct cuda_backend *cuda, struct blas_plan *p,
                             const struct blas_product *product, struct error *err) {
    p->key = key_of(product);
    enum status s = make_product(cuda, p, err);
    s = s ? s : make_layouts(cuda, p, err);
    s = s ? s
          : set(cuda, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product->bias, sizeof(product->bias),
                err);
    return s ? s : choose_algorithm(cuda, p, product, err);
}
static enum status find_plan(struct cuda_backend *cuda, struct blas_plan **out,
                             const struct blas_product *product, struct error *err) {
    struct blas *b = &cuda->blas;
    const struct blas_key key = key_of(product);
    for (int i = 0; i < b->n_plans; i++) {
        if (!memcmp(&b->plans[i].key, &key, sizeof(key))) {
            *out = &b->plans[i];
            return STATUS_OK;
        }
    }
    if (b->n_plans == BLAS_MAX_PLANS) { // models of many shapes on one backend: begin anew
        for (int i = 0; i < b->n_plans; i++) {
            free_plan(&b->plans[i]);
        }
        b->n_plans = 0;
    }
    struct blas_plan *p = &b->plans[b->n_plans];
    const enum status s = make_plan(cuda, p, product, err);
    if (s) {
        free_plan(p);
        return s;
    }
    b->n_plans++;
    *out = p;
    return STATUS_OK;
}

enum status blas_run(struct cuda_backend *cuda, const struct blas_product *p, struct error *err) {
    struct blas_plan *plan = NULL;
    enum status s = find_plan(cuda, &plan, p, err);
    s = s ? s : set(cuda, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof(p->bias), err);
    s = s ? s : set_rows(cuda, plan, p->rows, err);
    return s ? s : multiply(cuda, plan, p, &plan->algorithm, err);
}
