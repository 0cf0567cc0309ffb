/* attention.c - ctx = softmax(q k^T / sqrt(head_dim)) v, by sequence, head and query. */
#include "kernels/reference/internal.h"

#include <math.h>
#include <string.h>

/* One query of one head over the n tokens from row `first` on. p: [n], overwritten. */
static void attend(float *ctx, double *p, const float *q, const struct tensor *qkv, int first,
                   int n, int head, int head_dim) {
    const int hidden = qkv->cols / 3, at = head * head_dim;
    double max = -INFINITY, sum = 0;
    for (int t = 0; t < n; t++) {
        const float *k = tensor_row(qkv, first + t) + hidden + at;
        p[t] = 0;
        for (int i = 0; i < head_dim; i++) {
            p[t] += (double)q[i] * k[i] / sqrt(head_dim);
        }
        max = fmax(max, p[t]);
    }
    for (int t = 0; t < n; t++) {
        p[t] = exp(p[t] - max);
        sum += p[t];
    }
    for (int i = 0; i < head_dim; i++) {
        double value = 0;
        for (int t = 0; t < n; t++) {
            value += p[t] / sum * tensor_row(qkv, first + t)[2 * hidden + at + i];
        }
        ctx[i] = (float)value;
    }
}

void reference_attention(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                         int n_heads) {
    const struct reference *ref = reference_of(ln);
    const struct token_batch *b = ref->now->batch;
    const int head_dim = ctx->cols / n_heads;
    assert(head_dim * n_heads == ctx->cols && qkv->cols == 3 * ctx->cols);
    assert(b->max_seq_len <= ref->max_seq_len);
    for (int s = 0; s < b->n_seqs; s++) {
        const int first = b->cu_seqlens[s], n = b->seq_lens[s];
        const int n_queries = ctx->axis == AXIS_SEQS ? 1 : n;
        for (int t = 0; t < n_queries; t++) {
            float *out = tensor_row(ctx, ctx->axis == AXIS_SEQS ? s : first + t);
            for (int h = 0; h < n_heads; h++) {
                const int at = h * head_dim;
                attend(out + at, ref->scores, tensor_row(qkv, first + t) + at, qkv, first, n, h,
                       head_dim);
            }
        }
        for (int r = first + n; ctx->axis == AXIS_TOKENS && r < b->cu_seqlens[s + 1]; r++) {
            memset(tensor_row(ctx, r), 0, (size_t)ctx->cols * sizeof(float));
        }
    }
    reference_timed(ln, STEP_ATTENTION);
}
