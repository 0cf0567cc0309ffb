/* pool.c - one row a sequence: its first token's, or the mean of its real tokens'. */
#include "kernels/reference/internal.h"

void reference_pool(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                    enum pool_mode mode) {
    const struct token_batch *b = reference_of(ln)->now->batch;
    assert(pooled->axis == AXIS_SEQS && x->axis == AXIS_TOKENS && pooled->cols == x->cols);
    for (int s = 0; s < b->n_seqs; s++) {
        const int n = mode == POOL_MEAN ? b->seq_lens[s] : 1;
        for (int i = 0; i < x->cols; i++) {
            double sum = 0;
            for (int t = 0; t < n; t++) {
                sum += tensor_row(x, b->cu_seqlens[s] + t)[i];
            }
            tensor_row(pooled, s)[i] = (float)(sum / n);
        }
    }
    reference_timed(ln, STEP_POOL);
}
