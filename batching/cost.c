/* cost.c - t = a + b * rows + c * sum(len^2): prediction. */
#include "batching/cost.h"

#include <string.h>

void cost_set(struct cost_model *m, const double coef[COST_TERMS]) {
    memset(m, 0, sizeof(*m));
    memcpy(m->coef, coef, sizeof(m->coef));
}

int64_t cost_predict_ns(const struct cost_model *m, struct cost_shape s) {
    return (int64_t)(m->coef[0] + m->coef[1] * (double)s.rows + m->coef[2] * (double)s.sum_len2);
}

int64_t cost_job_ns(const struct cost_model *m, int len) {
    return (int64_t)(m->coef[1] * len + m->coef[2] * ((double)len * len));
}

void cost_update(struct cost_model *m, const struct cost_sample *s) {
    m->n_updates++;
    (void)s;
}

struct cost_shape cost_shape_of(const struct token_batch *b) {
    struct cost_shape s = {.rows = b->n_rows};
    for (int i = 0; i < b->n_seqs; i++) {
        const int64_t len = b->cu_seqlens[i + 1] - b->cu_seqlens[i];
        s.sum_len2 += len * len;
    }
    return s;
}
