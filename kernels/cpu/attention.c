/* attention.c - one head of one sequence, exact, on the transpose: NR queries stand side by side in
 * a strip, so that softmax runs down columns and needs no sums across a vector.
 *   strip [key][NR] = K Q^T;  strip = 2^(strip - column's maximum);  out [dim][NR] = V^T strip
 * Both products use the GEMM's tile: K is packed like a GEMM's x (groups of keys), V in groups of
 * dims as [key][dims of the group]. In bf16 (words.h: two values a word) the operands of both are
 * rounded, Q and K along the dims, V and the strip along the keys; sums and softmax are fp32.
 * Scores come in units of log2 (cpu_query_scale()). A query's
 * sums do not depend on the column or the strip it stands in. */
#include "kernels/cpu/words.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/vec_transpose.h"

/* The lane's workspace, cut up. */
struct head_work {
    float *keys, *values, *queries, *out, *strip;
};

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}
static int words_of(int k) {
    return (k + CHUNK - 1) / CHUNK * LANES;
}
static size_t packed_floats(int rows, int k) {
    return round_up((size_t)rows * (size_t)words_of(k) + GEMM_SLACK, GEMM_SLACK);
}
static size_t columns_floats(int head_dim) { // rounded up: whole blocks of VEC dims are transposed
    return round_up((size_t)head_dim, VEC) * NR;
}
static size_t strip_floats(int len) { // scores, then words of what softmax makes of them
    return round_up((size_t)len, LANES) * NR;
}
static size_t attend_floats(int len, int head_dim) {
    return packed_floats(len, head_dim) + packed_floats(head_dim, len) +
           2 * columns_floats(head_dim) + strip_floats(len);
}
static struct head_work cut_work(float *work, int len, int head_dim) {
    struct head_work w = {.keys = work};
    w.values = w.keys + packed_floats(len, head_dim);
    w.queries = w.values + packed_floats(head_dim, len);
    w.out = w.queries + columns_floats(head_dim);
    w.strip = w.out + columns_floats(head_dim);
    return w;
}

/* VEC words of a query, from dim d on. In fp32 up to VEC - 1 floats behind the head are read: they
 * belong to the next head, or to K. */
ALWAYS_INLINE vec query_words(const float *q, int d, int head_dim) {
#if GEMM_BITS == 16
    return (vec)pack_chunk(q + d, head_dim - d, NULL);
#else
    return vec_load(q + d);
#endif
}
/* n queries to [words][NR]; columns without a query are zero. */
static void pack_queries(float *out, const float *q, int64_t ld, int n, int head_dim) {
    for (int half = 0; half < 2; half++) {
        for (int d = 0; d < head_dim; d += VEC * PER_WORD) {
            vec v[VEC];
            for (int i = 0; i < VEC; i++) {
                const int r = half * VEC + i;
                v[i] = r < n ? query_words(q + r * ld, d, head_dim) : vec_set(0.0f);
            }
            vec_transpose(v);
            for (int i = 0; i < VEC; i++) {
                vec_store(out + (ptrdiff_t)(d / PER_WORD + i) * NR + (ptrdiff_t)half * VEC, v[i]);
            }
        }
    }
}

/* A group of g dims to [words][g], a vector at a time: what a store writes too much, the next one
 * overwrites. Not beyond `room`, where other lanes may be writing. */
#if GEMM_BITS == 16
ALWAYS_INLINE vec value_dims(const float *v, int64_t ld, int s, int len, int room) {
    const float *p = v + s * ld;
    return s >= len ? vec_set(0.0f) : room >= VEC ? vec_load(p) : vec_load_n(p, room);
}
static void pack_value_group(float *out, const float *v, int64_t ld, int len, int g, int room) {
    for (int c = 0; c < len; c += CHUNK) {
        for (int s = c; s < c + LANES; s++, out += g) {
            for (int at = 0; at < g; at += VEC) {
                const vec a = value_dims(v + at, ld, s, len, room - at);
                const vec b = value_dims(v + at, ld, s + LANES, len, room - at);
                vec_store(out + at, (vec)pack_pairs(a, b));
            }
        }
    }
}
#else
static void pack_value_group(float *out, const float *v, int64_t ld, int len, int g, int room) {
    enum { PER_GROUP = (MR + VEC - 1) / VEC };
    for (int s = 0; s < len; s++, out += g, v += ld) {
        for (int p = 0; p < PER_GROUP && p * VEC < g; p++) {
            const int at = p * VEC;
            if (at + VEC <= room) {
                vec_store(out + at, vec_load(v + at));
            } else {
                memcpy(out + at, v + at, (size_t)(g - at) * sizeof(*out));
            }
        }
    }
}
#endif
static void pack_values(float *out, const struct attend *a) {
    const int n_groups = gemm_groups(a->head_dim, MR);
    for (int i = 0; i < n_groups; i++) {
        const int d = gemm_group_begin(a->head_dim, n_groups, i);
        const int g = gemm_group_begin(a->head_dim, n_groups, i + 1) - d;
        pack_value_group(out + (ptrdiff_t)d * words_of(a->len), a->v + d, a->ld, a->len, g,
                         a->v_room - d);
    }
}

/* out [m][NR] = x times w, x in groups of rows, k values long. */
static void tiles_run(float *out, const float *x, const float *w, int m, int k) {
    const int words = words_of(k);
    const int n_groups = gemm_groups(m, MR);
    for (int i = 0; i < n_groups; i++) {
        const int r = gemm_group_begin(m, n_groups, i);
        const int rows = gemm_group_begin(m, n_groups, i + 1) - r;
        GEMM_TILE(out + (ptrdiff_t)r * NR, x + (ptrdiff_t)r * words, w, rows, words);
    }
}

/* Key s of both columns' vectors; nothing where there is no such key. */
struct key_row {
    vec a, b;
};
ALWAYS_INLINE struct key_row exp_row(const float *strip, int s, int len, vec m0, vec m1) {
    const float *p = strip + (ptrdiff_t)s * NR;
    if (s >= len) {
        return (struct key_row){vec_set(0.0f), vec_set(0.0f)};
    }
    return (struct key_row){vec_exp2(vec_load(p) - m0), vec_exp2(vec_load(p + VEC) - m1)};
}
/* The division is left to the end: the sums come back inverted. */
static void softmax_columns(float *strip, float inverse[NR], int len) {
    vec m0 = vec_load(strip), m1 = vec_load(strip + VEC);
    for (int s = 1; s < len; s++) {
        m0 = vec_max(m0, vec_load(strip + (ptrdiff_t)s * NR));
        m1 = vec_max(m1, vec_load(strip + (ptrdiff_t)s * NR + VEC));
    }
    vec s0 = vec_set(0.0f), s1 = s0;
#if GEMM_BITS == 16
    float *out = strip; // words take the place of scores that were read
    for (int c = 0; c < len; c += CHUNK) {
        for (int s = c; s < c + LANES; s++, out += NR) {
            const struct key_row x = exp_row(strip, s, len, m0, m1);
            const struct key_row y = exp_row(strip, s + LANES, len, m0, m1);
            vec_store(out, (vec)pack_pairs(x.a, y.a)),
                vec_store(out + VEC, (vec)pack_pairs(x.b, y.b));
            s0 += x.a + y.a, s1 += x.b + y.b;
        }
    }
#else
    for (int s = 0; s < len; s++) {
        float *p = strip + (ptrdiff_t)s * NR;
        const struct key_row x = exp_row(strip, s, len, m0, m1);
        vec_store(p, x.a), vec_store(p + VEC, x.b);
        s0 += x.a, s1 += x.b;
    }
#endif
    vec_store(inverse, vec_set(1.0f) / s0), vec_store(inverse + VEC, vec_set(1.0f) / s1);
}

/* Columns of out [head_dim][NR] back to n rows of ctx, times the inverse sums. */
static void store_context(float *ctx, int64_t ld, const float *out, const float inverse[NR], int n,
                          int head_dim) {
    for (int half = 0; half < 2; half++) {
        const int rows = n - half * VEC < VEC ? n - half * VEC : VEC;
        for (int d = 0; rows > 0 && d < head_dim; d += VEC) {
            vec v[VEC];
            for (int i = 0; i < VEC; i++) {
                v[i] = vec_load(out + (ptrdiff_t)(d + i) * NR + (ptrdiff_t)half * VEC);
            }
            vec_transpose(v);
            for (int i = 0; i < rows; i++) {
                const int r = half * VEC + i;
                const vec c = v[i] * vec_set(inverse[r]);
                if (d + VEC <= head_dim) {
                    vec_store(ctx + r * ld + d, c);
                } else {
                    vec_store_n(ctx + r * ld + d, c, head_dim - d);
                }
            }
        }
    }
}

static void attend(const struct attend *a) {
    const struct head_work w = cut_work(a->work, a->len, a->head_dim);
    float inverse[NR];
    PACK_ROWS(w.keys, a->k, a->ld, a->len, a->head_dim);
    pack_values(w.values, a);
    for (int q = a->q0; q < a->q1; q += NR) {
        const int n = a->q1 - q < NR ? a->q1 - q : NR;
        pack_queries(w.queries, a->q + q * a->ld, a->ld, n, a->head_dim);
        tiles_run(w.strip, w.keys, w.queries, a->len, a->head_dim);
        softmax_columns(w.strip, inverse, a->len);
        tiles_run(w.out, w.values, w.strip, a->head_dim, a->len);
        store_context(a->ctx + (q - a->q0) * a->ld_ctx, a->ld_ctx, w.out, inverse, n, a->head_dim);
    }
}

extern const struct cpu_attention ATTENTION;
const struct cpu_attention ATTENTION = {.floats = attend_floats, .attend = attend};
