/* blas_library.c - finds cuBLASLt at run time, so that neither the program nor the plugin needs it
 * to load. On the simulated device the same functions are linked in. */
#include "kernels/cuda/blas.h"

#ifndef BERTH_SIMT
#include <dlfcn.h>
#include <pthread.h>

static struct blas_functions functions;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;

static void *open_library(struct error *err) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        "/usr/local/cuda/lib64/libcublasLt.so.13"};
    void *library = NULL;
    for (size_t i = 0; i < N_ITEMS(names) && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        (void)error_set(err, STATUS_UNAVAILABLE, "cuBLASLt does not load: %s", dlerror());
    }
    return library;
}

static enum status find_functions(void *library, struct error *err) {
    struct blas_functions *f = &functions;
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"cublasLtCreate", &f->create},
                  {"cublasLtDestroy", &f->destroy},
                  {"cublasLtGetVersion", &f->version},
                  {"cublasLtMatmulDescCreate", &f->desc_create},
                  {"cublasLtMatmulDescDestroy", &f->desc_destroy},
                  {"cublasLtMatmulDescSetAttribute", &f->desc_set},
                  {"cublasLtMatrixLayoutCreate", &f->layout_create},
                  {"cublasLtMatrixLayoutDestroy", &f->layout_destroy},
                  {"cublasLtMatrixLayoutSetAttribute", &f->layout_set},
                  {"cublasLtMatmulPreferenceCreate", &f->preference_create},
                  {"cublasLtMatmulPreferenceDestroy", &f->preference_destroy},
                  {"cublasLtMatmulPreferenceSetAttribute", &f->preference_set},
                  {"cublasLtMatmulAlgoGetHeuristic", &f->heuristic},
                  {"cublasLtMatmul", &f->matmul}};
    for (size_t i = 0; i < N_ITEMS(wanted); i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol) {
            return error_set(err, STATUS_UNAVAILABLE, "cuBLASLt has no %s", wanted[i].name);
        }
        *(void **)wanted[i].place = symbol;
    }
    return STATUS_OK;
}

enum status blas_library_open(struct error *err) {
    enum status s = STATUS_OK;
    pthread_mutex_lock(&gate);
    if (!is_open) {
        void *library = open_library(err);
        s = library ? find_functions(library, err) : STATUS_UNAVAILABLE;
        is_open = !s;
    }
    pthread_mutex_unlock(&gate);
    return s;
}
#else
static const struct blas_functions functions = {
    .create = cublasLtCreate,
    .destroy = cublasLtDestroy,
    .version = cublasLtGetVersion,
    .desc_create = cublasLtMatmulDescCreate,
    .desc_destroy = cublasLtMatmulDescDestroy,
    .desc_set = cublasLtMatmulDescSetAttribute,
    .layout_create = cublasLtMatrixLayoutCreate,
    .layout_destroy = cublasLtMatrixLayoutDestroy,
    .layout_set = cublasLtMatrixLayoutSetAttribute,
    .preference_create = cublasLtMatmulPreferenceCreate,
    .preference_destroy = cublasLtMatmulPreferenceDestroy,
    .preference_set = cublasLtMatmulPreferenceSetAttribute,
    .heuristic = cublasLtMatmulAlgoGetHeuristic,
    .matmul = cublasLtMatmul,
};

enum status blas_library_open(struct error *err) {
    return STATUS_OK;
}
#endif

const struct blas_functions *blas_fn(void) {
    return &functions;
}
