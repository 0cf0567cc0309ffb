/* blas_notes.c - which algorithm was the fastest, remembered over starts.
 * Noted is a mark of the algorithm, never the algorithm itself: at the next start the library
 * proposes again, which takes microseconds, and the proposal with the mark is taken. So nothing
 * that stands in a file reaches the library, and a mark that no proposal has (another build, a
 * file that somebody has edited) is as good as none. */
#include "kernels/cuda/blas.h"

enum { N_WORDS = 2 }; // a mark, as numbers that a double holds exactly

static void mark_of(double out[N_WORDS], const cublasLtMatmulHeuristicResult_t *r) {
    const unsigned char *bytes = (const unsigned char *)&r->algo;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < sizeof(r->algo); i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    out[0] = (double)(hash >> 32);
    out[1] = (double)(hash & UINT32_MAX);
}

int blas_noted(const struct choice_notes *notes, const char *key,
               const cublasLtMatmulHeuristicResult_t *found, int n_found) {
    double noted[N_WORDS], mark[N_WORDS];
    if (!notes || !notes->get(notes->arg, key, noted, N_WORDS)) {
        return -1;
    }
    for (int i = 0; i < n_found; i++) {
        mark_of(mark, &found[i]);
        if (mark[0] == noted[0] && mark[1] == noted[1]) {
            return i;
        }
    }
    return -1;
}
void blas_note(const struct choice_notes *notes, const char *key,
               const cublasLtMatmulHeuristicResult_t *chosen) {
    double mark[N_WORDS];
    if (notes) {
        mark_of(mark, chosen);
        notes->set(notes->arg, key, mark, N_WORDS);
    }
}
