/* embed_layernorm.c - the three embeddings of each token, added and normalised in place. */
#include "kernels/reference/internal.h"

static const float *table_row(const struct table_weight *t, int row) {
    assert(row >= 0 && row < t->rows);
    return t->data + (int64_t)row * t->cols;
}

void reference_embed_layernorm(struct lane *ln, const struct tensor *y,
                               const struct embedding_weights *w) {
    const struct token_batch *b = reference_of(ln)->now->batch;
    for (int s = 0; s < b->n_seqs; s++) {
        for (int r = b->cu_seqlens[s]; r < b->cu_seqlens[s + 1]; r++) {
            const float *word = table_row(w->words, b->token_ids[r]);
            const float *position = table_row(w->positions, r - b->cu_seqlens[s]);
            const float *type = table_row(w->types, b->token_type_ids[r]);
            float *out = tensor_row(y, r);
            for (int i = 0; i < y->cols; i++) {
                out[i] = (float)((double)word[i] + position[i] + type[i]);
            }
        }
    }
    reference_timed(ln, STEP_EMBED);
    reference_layernorm(ln, y, y, w->norm);
}
