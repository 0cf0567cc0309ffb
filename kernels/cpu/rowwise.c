/* rowwise.c - what works on one row at a time: embedding, LayerNorm, mean.
 * A row is summed in two vectors side by side, then its last cols % VEC floats one by one: an order
 * that depends on the number of columns alone. LayerNorm goes over a row three times while it is in
 * L1 (mean, centred squares, result), so nothing cancels. */
#include "kernels/cpu/isa.h"
#include "kernels/cpu/vec_fold.h"
#include <assert.h>
#include <math.h>

static float row_mean(const float *x, int n) {
    vec s0 = vec_set(0.0f), s1 = s0;
    float rest = 0;
    int i = 0;
    for (; i + NR <= n; i += NR) {
        s0 += vec_load(x + i), s1 += vec_load(x + i + VEC);
    }
    for (; i < n; i++) {
        rest += x[i];
    }
    return (vec_sum(s0 + s1) + rest) / (float)n;
}

static float row_variance(const float *x, float mean, int n) {
    const vec m = vec_set(mean);
    vec s0 = vec_set(0.0f), s1 = s0;
    float rest = 0;
    int i = 0;
    for (; i + NR <= n; i += NR) {
        const vec a = vec_load(x + i) - m, b = vec_load(x + i + VEC) - m;
        s0 = vec_fma(a, a, s0), s1 = vec_fma(b, b, s1);
    }
    for (; i < n; i++) {
        rest += (x[i] - mean) * (x[i] - mean);
    }
    return (vec_sum(s0 + s1) + rest) / (float)n;
}

static void layernorm_row(float *y, const float *x, const struct norm_weight *w) {
    const float mean = row_mean(x, w->n);
    const float scale = 1.0f / sqrtf(row_variance(x, mean, w->n) + w->eps);
    const vec m = vec_set(mean), s = vec_set(scale);
    int i = 0;
    for (; i + VEC <= w->n; i += VEC) {
        const vec v = (vec_load(x + i) - m) * s;
        vec_store(y + i, vec_fma(v, vec_load(w->gamma + i), vec_load(w->beta + i)));
    }
    for (; i < w->n; i++) {
        y[i] = (x[i] - mean) * scale * w->gamma[i] + w->beta[i];
    }
}

void ISA(layernorm)(float *y, int64_t ldy, const float *x, int64_t ldx, const struct norm_weight *w,
                    int rows) {
    for (int r = 0; r < rows; r++) {
        layernorm_row(y + r * ldy, x + r * ldx, w);
    }
}

static const float *table_row(const struct table_weight *t, int64_t i) {
    assert(i >= 0 && i < t->rows); // the tokenizer and the batch's limits see to it
    return t->data + i * t->cols;
}

static void add_rows(float *y, const float *a, const float *b, const float *c, int n) {
    int i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec_store(y + i, vec_load(a + i) + vec_load(b + i) + vec_load(c + i));
    }
    for (; i < n; i++) {
        y[i] = a[i] + b[i] + c[i];
    }
}

void ISA(embed)(const struct embed *e) {
    enum { AHEAD = 4, LINE_FLOATS = 16 };
    const int n = e->norm->n;
    for (int r = 0; r < e->rows; r++) {
        if (r + AHEAD < e->rows) { // a random row of a large table: ask for it early
            const float *next = table_row(e->words, e->token_ids[r + AHEAD]);
            for (int i = 0; i < n; i += LINE_FLOATS) {
                __builtin_prefetch(next + i);
            }
        }
        float *y = e->y + r * e->ldy;
        add_rows(y, table_row(e->words, e->token_ids[r]), table_row(e->types, e->token_type_ids[r]),
                 table_row(e->positions, e->position + r), n);
        layernorm_row(y, y, e->norm);
    }
}

void ISA(mean)(float *out, const float *x, int64_t ldx, int rows, int cols) {
    const float scale = 1.0f / (float)rows;
    int i = 0;
    for (; i + VEC <= cols; i += VEC) {
        vec s = vec_set(0.0f);
        for (int r = 0; r < rows; r++) {
            s += vec_load(x + r * ldx + i);
        }
        vec_store(out + i, s * vec_set(scale));
    }
    for (; i < cols; i++) {
        float s = 0;
        for (int r = 0; r < rows; r++) {
            s += x[r * ldx + i];
        }
        out[i] = s * scale;
    }
}
