/* separate.c - the op table without fusion (compute.fusion off), as servers compute that take a
 * model op by op: scores are written out as matrices, scaled, masked, put through softmax and read
 * again, each in a pass of its own; so are residuals, activations and the sums of embeddings. The
 * products are the same kernels as ever, so that only what fusion gains is missing. Rows and keys
 * of padding are computed like others, and masked.
 * The scores of one sequence and all of a lane's heads are there at once; servers that keep those
 * of a whole batch have them further away from the cache. */
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <math.h>
#include <string.h>

#define MASKED (-1e30f) // what is added to the score of a key that is padding
static const double max_scores = 1 << 28;

/* One sequence's attention on one lane. */
struct attention {
    struct cpu_lane *ln;
    const struct tensor *ctx, *qkv;
    int first, len, rows; // of the sequence: its first row, its tokens, and those with padding
    int q0, q1;           // queries, counted from `first`
    int out;              // row of ctx that query q0's result goes to
    int h0, h1, head_dim;
    float *scores;      // [heads, q1 - q0, rows]
    float *operand;     // a product's second operand, packed
    const float *zeros; // no bias
    float *mask;        // [rows]
};

static size_t panels(const struct cpu_backend *cpu, int n) {
    const size_t nr = (size_t)cpu->isa->gemm->nr;
    return ((size_t)n + nr - 1) / nr * nr;
}
enum status cpu_separate_floats(size_t *out, const struct cpu_backend *cpu, struct error *err) {
    const struct pass_limits *l = &cpu->limits;
    const size_t len = (size_t)l->max_seq_len, head = panels(cpu, cpu->max_head_dim);
    if ((double)len * (double)len * l->n_heads > max_scores) {
        return error_set(err, STATUS_INVALID,
                         "without fusion the scores of %d tokens and %d heads are over %.0f MiB: "
                         "lower model.max_input_tokens, or set compute.fusion to on",
                         l->max_seq_len, l->n_heads, max_scores * sizeof(float) / (1 << 20));
    }
    *out = len * len * (size_t)l->n_heads + panels(cpu, l->max_seq_len) * (head + 2) + head +
           2 * TENSOR_SLACK;
    return STATUS_OK;
}
static void cut_work(struct attention *a) {
    const struct cpu_backend *cpu = a->ln->cpu;
    const size_t len = (size_t)cpu->limits.max_seq_len, wide = panels(cpu, (int)len);
    const size_t head = panels(cpu, cpu->max_head_dim);
    float *zeros;
    a->scores = a->ln->attend;
    a->operand = a->scores + len * len * (size_t)cpu->limits.n_heads + TENSOR_SLACK;
    zeros = a->operand + wide * head;
    memset(zeros, 0, (wide + head) * sizeof(*zeros));
    a->zeros = zeros;
    a->mask = zeros + wide + head;
}
static void fill_mask(const struct attention *a) {
    for (int i = 0; i < a->rows; i++) {
        a->mask[i] = i < a->len ? 0 : MASKED;
    }
}

/* Makes a weight of [n, k] (gemm.h) from elements that stand ld_n and ld_k apart. */
static struct linear_weight pack_operand(const struct attention *a, const float *x, int64_t ld_n,
                                         int64_t ld_k, int n, int k) {
    const struct gemm_kernel *kernel = a->ln->cpu->isa->gemm;
    struct linear_weight w = {.kernel = kernel,
                              .data = a->operand,
                              .bias = (float *)a->zeros,
                              .n = n,
                              .k = k,
                              .n_padded = (int)panels(a->ln->cpu, n)};
    float *out = a->operand;
    for (int k0 = 0; k0 < k; k0 += kernel->kc) {
        const int k1 = cpu_min(k0 + kernel->kc, k);
        for (int j0 = 0; j0 < w.n_padded; j0 += kernel->nr) {
            for (int i = k0; i < k1; i++) {
                for (int j = j0; j < j0 + kernel->nr; j++) {
                    *out++ = j < n ? x[j * ld_n + i * ld_k] : 0;
                }
            }
        }
    }
    return w;
}
/* y = x * w^T over m rows. */
static void multiply(const struct attention *a, const struct linear_weight *w, float *y,
                     int64_t ldy, const float *x, int64_t ldx, int m) {
    struct gemm g = {.w = w, .x = a->ln->packed, .ldy = ldy, .n1 = w->n};
    const int n_panels = (m + PANEL_ROWS - 1) / PANEL_ROWS;
    for (int i = 0; i < n_panels; i++) {
        const int r = plan_share(m, i, n_panels);
        g.m = plan_share(m, i + 1, n_panels) - r;
        g.y = y + r * ldy;
        for (int block = 0; block < gemm_blocks(w); block++) {
            const int k0 = block * w->kernel->kc;
            w->kernel->pack_rows(a->ln->packed, x + r * ldx + k0, ldx, g.m, gemm_block_len(w, k0));
            g.b0 = block, g.b1 = block + 1;
            w->kernel->run(&g);
        }
    }
}
static float *scores_of(const struct attention *a, int head) {
    return a->scores + (size_t)(head - a->h0) * (size_t)(a->q1 - a->q0) * (size_t)a->rows;
}
static void query_key_products(const struct attention *a) {
    for (int h = a->h0; h < a->h1; h++) {
        const float *q = cpu_row(a->qkv, a->first) + (ptrdiff_t)h * a->head_dim;
        const struct linear_weight keys =
            pack_operand(a, q + a->ctx->cols, a->qkv->stride, 1, a->rows, a->head_dim);
        multiply(a, &keys, scores_of(a, h), a->rows, q + a->q0 * a->qkv->stride, a->qkv->stride,
                 a->q1 - a->q0);
    }
}
static void value_products(const struct attention *a) {
    for (int h = a->h0; h < a->h1; h++) {
        const float *v = cpu_row(a->qkv, a->first) + 2 * a->ctx->cols + (ptrdiff_t)h * a->head_dim;
        const struct linear_weight values =
            pack_operand(a, v, 1, a->qkv->stride, a->head_dim, a->rows);
        multiply(a, &values, cpu_row(a->ctx, a->out) + (ptrdiff_t)h * a->head_dim, a->ctx->stride,
                 scores_of(a, h), a->rows, a->q1 - a->q0);
    }
}
static void attend(const struct attention *a) {
    const struct cpu_passes *passes = a->ln->cpu->isa->passes;
    const int n_rows = (a->h1 - a->h0) * (a->q1 - a->q0);
    query_key_products(a);
    passes->scale(a->scores, (size_t)n_rows * (size_t)a->rows, 1 / sqrtf((float)a->head_dim));
    for (int r = 0; r < n_rows; r++) {
        passes->add(a->scores + (size_t)r * (size_t)a->rows, a->mask, (size_t)a->rows);
    }
    passes->softmax(a->scores, n_rows, a->rows);
    value_products(a);
}

/* The contract wants zeros there; what was computed for these rows is thrown away. */
static void zero_padding(const struct attention *a, int r0, int r1) {
    const int column = a->h0 * a->head_dim, n = (a->h1 - a->h0) * a->head_dim;
    for (int r = r0; r < r1; r++) {
        memset(cpu_row(a->ctx, r) + column, 0, (size_t)n * sizeof(float));
    }
}
static void set_sequence(struct attention *a, int s) {
    const struct token_batch *b = a->ln->cpu->batch;
    a->first = b->cu_seqlens[s], a->len = b->seq_lens[s];
    a->rows = cpu_min(b->cu_seqlens[s + 1] - a->first, a->ln->cpu->limits.max_seq_len);
    fill_mask(a);
}
static void attend_tokens(struct attention *a, const struct share *sh) {
    const struct token_batch *b = a->ln->cpu->batch;
    for (int s = 0; s < b->n_seqs; s++) {
        const int begin = cpu_max(sh->r0, b->cu_seqlens[s]);
        const int end = cpu_min(sh->r1, b->cu_seqlens[s + 1]);
        if (begin >= end) {
            continue;
        }
        set_sequence(a, s);
        a->q0 = begin - a->first, a->q1 = cpu_min(end - a->first, a->rows);
        a->out = begin;
        if (a->q0 < a->q1) {
            attend(a);
        }
        zero_padding(a, cpu_max(begin, a->first + a->len), end);
    }
}
static void attend_firsts(struct attention *a, const struct share *sh) {
    a->q0 = 0, a->q1 = 1;
    for (int s = sh->r0; s < sh->r1; s++) {
        set_sequence(a, s);
        a->out = s;
        attend(a);
    }
}
static void attention(struct lane *lane, const struct tensor *ctx, const struct tensor *qkv,
                      int n_heads) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct share sh = cpu_begin(ln, ctx->axis);
    const int h1 = plan_share(n_heads, sh.lane + 1, sh.n_lanes);
    struct attention a = {.ln = ln, .ctx = ctx, .qkv = qkv, .head_dim = ctx->cols / n_heads};
    assert(a.head_dim * n_heads == ctx->cols && qkv->cols == 3 * ctx->cols);
    assert(a.head_dim <= ln->cpu->max_head_dim &&
           ln->cpu->batch->max_seq_len <= ln->cpu->limits.max_seq_len);
    cut_work(&a);
    for (int h = plan_share(n_heads, sh.lane, sh.n_lanes); h < h1; h = a.h1) {
        a.h0 = h, a.h1 = cpu_min(h + ln->cpu->limits.n_heads, h1);
        if (ctx->axis == AXIS_TOKENS) {
            attend_tokens(&a, &sh);
        } else {
            attend_firsts(&a, &sh);
        }
    }
    cpu_end(ln, ctx->axis, STEP_ATTENTION);
}

/* The product, then the residual or the activation over what it wrote. Where the residual is y, it
 * has to be there before the product. */
static void linear(struct lane *lane, const struct tensor *y, const struct tensor *x,
                   const struct linear_weight *w, enum activation activation,
                   const struct tensor *residual) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct cpu_passes *passes = ln->cpu->isa->passes;
    const bool in_place = residual && residual->data == y->data;
    cpu_linear(lane, y, x, w, ACT_NONE, in_place ? residual : NULL);
    if (in_place || (!residual && activation == ACT_NONE)) {
        return;
    }
    const struct share sh = cpu_begin_rows(ln, y->axis);
    for (int r = sh.r0; r < sh.r1; r++) {
        if (residual) {
            passes->add(cpu_row(y, r), cpu_row(residual, r), (size_t)y->cols);
        } else {
            passes->activate(cpu_row(y, r), (size_t)y->cols, activation);
        }
    }
    cpu_end(ln, y->axis, residual ? ln->base.norm_step : ln->base.linear_step);
}

static const float *table_row(const struct table_weight *t, int64_t i) {
    assert(i >= 0 && i < t->rows);
    return t->data + i * t->cols;
}
static void add_positions(const struct cpu_lane *ln, const struct tensor *y,
                          const struct table_weight *positions, const struct share *sh) {
    const struct token_batch *b = ln->cpu->batch;
    for (int s = 0; s < b->n_seqs; s++) {
        const int end = cpu_min(sh->r1, b->cu_seqlens[s + 1]);
        for (int r = cpu_max(sh->r0, b->cu_seqlens[s]); r < end; r++) {
            ln->cpu->isa->passes->add(cpu_row(y, r), table_row(positions, r - b->cu_seqlens[s]),
                                      (size_t)y->cols);
        }
    }
}
static void embed_layernorm(struct lane *lane, const struct tensor *y,
                            const struct embedding_weights *w) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct token_batch *b = ln->cpu->batch;
    const struct share sh = cpu_begin_rows(ln, AXIS_TOKENS);
    const size_t n = (size_t)y->cols;
    assert(y->cols == w->norm->n);
    for (int r = sh.r0; r < sh.r1; r++) {
        memcpy(cpu_row(y, r), table_row(w->words, b->token_ids[r]), n * sizeof(float));
    }
    for (int r = sh.r0; r < sh.r1; r++) {
        ln->cpu->isa->passes->add(cpu_row(y, r), table_row(w->types, b->token_type_ids[r]), n);
    }
    add_positions(ln, y, w->positions, &sh);
    ln->cpu->isa->layernorm(cpu_row(y, sh.r0), y->stride, cpu_row(y, sh.r0), y->stride, w->norm,
                            sh.r1 - sh.r0);
    cpu_end(ln, AXIS_TOKENS, STEP_EMBED);
}

static float query_scale(const struct backend *be, int head_dim) {
    return 1; // scores are scaled in a pass of their own
}
void cpu_separate_entries(struct backend_fn *fn) {
    fn->query_scale = query_scale;
    fn->embed_layernorm = embed_layernorm;
    fn->linear = linear;
    fn->attention = attention;
    fn->layer_rest = layer_rest_default;
    fn->head = head_default;
}
