/* ops.c - the op table's entries as one lane's share of work, and when lanes must wait.
 * Where rows are cut, an op needs nothing of other lanes and barrier() is real only if a sequence
 * is shared. Where columns are cut, an op reads what all lanes wrote before and writes what all
 * will read, so each begins with a barrier, unless nothing was written since the last. An axis may
 * be cut one way and the other the other way (many tokens, few sequences): cpu_begin() keeps both
 * apart. */
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <string.h>

void cpu_settle(struct cpu_lane *ln) {
    lanes_barrier(ln->cpu->lanes);
    ln->unsettled = SETTLED;
    cpu_mark(ln, STEP_WAIT);
}

struct share cpu_begin(struct cpu_lane *ln, enum row_axis axis) {
    const struct plan *p = &ln->cpu->plan;
    if (ln->unsettled >= (p->columns[axis] ? UNSETTLED_ROWS : UNSETTLED_COLUMNS)) {
        cpu_settle(ln);
    }
    const int i = ln->base.index;
    if (p->columns[axis]) {
        return (struct share){0, cpu_rows(ln, axis), i, ln->cpu->base.n_lanes};
    }
    return (struct share){p->cut[axis][i], p->cut[axis][i + 1], 0, 1};
}

struct share cpu_begin_rows(struct cpu_lane *ln, enum row_axis axis) {
    const struct share s = cpu_begin(ln, axis);
    return (struct share){plan_share(s.r1 - s.r0, s.lane, s.n_lanes) + s.r0,
                          plan_share(s.r1 - s.r0, s.lane + 1, s.n_lanes) + s.r0, 0, 1};
}

void cpu_end(struct cpu_lane *ln, enum row_axis axis, enum op_step step) {
    const enum unsettled now = ln->cpu->plan.columns[axis] ? UNSETTLED_COLUMNS : UNSETTLED_ROWS;
    ln->unsettled = ln->unsettled > now ? ln->unsettled : now;
    cpu_mark(ln, step);
}

void cpu_barrier(struct lane *lane) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct plan *p = &ln->cpu->plan;
    const bool needed = p->shared || p->columns[AXIS_TOKENS];
    if (ln->unsettled == UNSETTLED_COLUMNS || (needed && ln->unsettled == UNSETTLED_ROWS)) {
        cpu_settle(ln);
    }
}

static void embed_seq(const struct cpu_lane *ln, const struct tensor *y,
                      const struct embedding_weights *w, int s, int r0, int r1) {
    const struct token_batch *b = ln->cpu->batch;
    const struct embed e = {
        .y = cpu_row(y, r0),
        .ldy = y->stride,
        .token_ids = b->token_ids + r0,
        .token_type_ids = b->token_type_ids + r0,
        .position = r0 - b->cu_seqlens[s],
        .rows = r1 - r0,
        .words = w->words,
        .positions = w->positions,
        .types = w->types,
        .norm = w->norm,
    };
    ln->cpu->isa->embed(&e);
}

void cpu_embed_layernorm(struct lane *lane, const struct tensor *y,
                         const struct embedding_weights *w) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct token_batch *b = ln->cpu->batch;
    const struct share sh = cpu_begin_rows(ln, AXIS_TOKENS);
    assert(y->cols == w->norm->n);
    for (int s = 0; s < b->n_seqs; s++) {
        const int r0 = cpu_max(sh.r0, b->cu_seqlens[s]), r1 = cpu_min(sh.r1, b->cu_seqlens[s + 1]);
        if (r0 < r1) {
            embed_seq(ln, y, w, s, r0, r1);
        }
    }
    cpu_end(ln, AXIS_TOKENS, STEP_EMBED);
}

void cpu_layernorm(struct lane *lane, const struct tensor *y, const struct tensor *x,
                   const struct norm_weight *w) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct share sh = cpu_begin_rows(ln, x->axis);
    assert(x->cols == w->n && y->cols == w->n && x->axis == y->axis);
    ln->cpu->isa->layernorm(cpu_row(y, sh.r0), y->stride, cpu_row(x, sh.r0), x->stride, w,
                            sh.r1 - sh.r0);
    cpu_end(ln, x->axis, ln->base.norm_step);
}

/* Any shape: k block by k block, so that the packed x needs little room. */
static void linear_panel(const struct cpu_lane *ln, struct gemm *g, const struct tensor *x,
                         int row) {
    const struct gemm_kernel *kernel = g->w->kernel;
    for (int block = 0; block < gemm_blocks(g->w); block++) {
        const int k0 = block * kernel->kc;
        kernel->pack_rows(ln->packed, cpu_row(x, row) + k0, x->stride, g->m,
                          gemm_block_len(g->w, k0));
        g->b0 = block, g->b1 = block + 1;
        kernel->run(g);
    }
}

static void linear_share(struct cpu_lane *ln, const struct tensor *y, const struct tensor *x,
                         const struct linear_weight *w, enum activation activation,
                         const struct tensor *residual) {
    const struct share sh = cpu_begin(ln, x->axis);
    const int rows = sh.r1 - sh.r0, n_panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    const int nr = w->kernel->nr, w_panels = w->n_padded / nr;
    assert(x->cols == w->k && y->cols == w->n && x->axis == y->axis && x->data != y->data);
    assert(!residual || (activation == ACT_NONE && residual->axis == x->axis));
    for (int i = 0; i < n_panels; i++) {
        const int r = sh.r0 + plan_share(rows, i, n_panels);
        struct gemm g = {
            .w = w,
            .x = ln->packed,
            .y = cpu_row(y, r),
            .ldy = y->stride,
            .m = sh.r0 + plan_share(rows, i + 1, n_panels) - r,
            .n0 = plan_share(w_panels, sh.lane, sh.n_lanes) * nr,
            .n1 = cpu_min(plan_share(w_panels, sh.lane + 1, sh.n_lanes) * nr, w->n),
            .activation = activation,
        };
        if (residual) {
            g.residual = cpu_row(residual, r), g.ld_residual = residual->stride;
        }
        linear_panel(ln, &g, x, r);
    }
}

void cpu_linear(struct lane *lane, const struct tensor *y, const struct tensor *x,
                const struct linear_weight *w, enum activation activation,
                const struct tensor *residual) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    linear_share(ln, y, x, w, activation, residual);
    cpu_end(ln, x->axis, ln->base.linear_step);
}

/* Heads [h0, h1) of one sequence, queries [q0, q1) of it, into ctx from row `out` on. */
static void attend_heads(const struct cpu_lane *ln, const struct tensor *ctx,
                         const struct tensor *qkv, const struct attend *seq, int first, int out,
                         int h0, int h1) {
    const int hidden = ctx->cols;
    struct attend a = *seq;
    for (int h = h0; h < h1; h++) {
        const int column = h * a.head_dim;
        a.q = cpu_row(qkv, first) + column;
        a.k = a.q + hidden;
        a.v = a.k + hidden;
        a.ctx = cpu_row(ctx, out) + column;
        a.v_room = hidden - column;
        ln->cpu->attention->attend(&a);
    }
}

static void zero_padding(const struct tensor *ctx, int r0, int r1, int column0, int column1) {
    for (int r = r0; r < r1; r++) {
        memset(cpu_row(ctx, r) + column0, 0, (size_t)(column1 - column0) * sizeof(float));
    }
}

static void attend_tokens(const struct cpu_lane *ln, const struct tensor *ctx,
                          const struct tensor *qkv, struct attend *a, const struct share *sh,
                          int h0, int h1) {
    const struct token_batch *b = ln->cpu->batch;
    for (int s = 0; s < b->n_seqs; s++) {
        const int first = b->cu_seqlens[s], end = first + b->seq_lens[s];
        const int r0 = cpu_max(sh->r0, first), r1 = cpu_min(sh->r1, end);
        if (r0 < r1) {
            a->len = b->seq_lens[s], a->q0 = r0 - first, a->q1 = r1 - first;
            attend_heads(ln, ctx, qkv, a, first, r0, h0, h1);
        }
        zero_padding(ctx, cpu_max(sh->r0, end), cpu_min(sh->r1, b->cu_seqlens[s + 1]),
                     h0 * a->head_dim, h1 * a->head_dim);
    }
}

static void attend_firsts(const struct cpu_lane *ln, const struct tensor *ctx,
                          const struct tensor *qkv, struct attend *a, const struct share *sh,
                          int h0, int h1) {
    const struct token_batch *b = ln->cpu->batch;
    a->q0 = 0, a->q1 = 1;
    for (int s = sh->r0; s < sh->r1; s++) {
        a->len = b->seq_lens[s];
        attend_heads(ln, ctx, qkv, a, b->cu_seqlens[s], s, h0, h1);
    }
}

void cpu_attention(struct lane *lane, const struct tensor *ctx, const struct tensor *qkv,
                   int n_heads) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct share sh = cpu_begin(ln, ctx->axis);
    const int h0 = plan_share(n_heads, sh.lane, sh.n_lanes);
    const int h1 = plan_share(n_heads, sh.lane + 1, sh.n_lanes);
    struct attend a = {
        .ld = qkv->stride,
        .ld_ctx = ctx->stride,
        .head_dim = ctx->cols / n_heads,
        .work = ln->attend,
    };
    assert(a.head_dim * n_heads == ctx->cols && qkv->cols == 3 * ctx->cols);
    assert(ln->cpu->batch->max_seq_len <= ln->cpu->limits.max_seq_len &&
           a.head_dim <= ln->cpu->max_head_dim);
    if (ctx->axis == AXIS_TOKENS) {
        attend_tokens(ln, ctx, qkv, &a, &sh, h0, h1);
    } else {
        attend_firsts(ln, ctx, qkv, &a, &sh, h0, h1);
    }
    cpu_end(ln, ctx->axis, STEP_ATTENTION);
}

void cpu_pool(struct lane *lane, const struct tensor *pooled, const struct tensor *x,
              enum pool_mode mode) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct token_batch *b = ln->cpu->batch;
    const bool of_others = mode == POOL_MEAN && ln->cpu->plan.shared;
    if (of_others && ln->unsettled != SETTLED) {
        cpu_settle(ln);
    }
    const struct share sh = cpu_begin_rows(ln, AXIS_SEQS);
    for (int s = sh.r0; s < sh.r1; s++) {
        const float *first = cpu_row(x, b->cu_seqlens[s]);
        if (mode == POOL_FIRST) {
            memcpy(cpu_row(pooled, s), first, (size_t)x->cols * sizeof(*first));
        } else {
            ln->cpu->isa->mean(cpu_row(pooled, s), first, x->stride, b->seq_lens[s], x->cols);
        }
    }
    cpu_end(ln, AXIS_SEQS, STEP_POOL);
    if (of_others) {
        ln->unsettled = UNSETTLED_COLUMNS;
    }
}

void cpu_head(struct lane *lane, const struct tensor *logits, const struct tensor *pooled,
              const struct tensor *scratch, const struct head_weights *w) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct tensor *in = pooled;
    if (w->dense) {
        linear_share(ln, scratch, pooled, w->dense, ACT_TANH, NULL);
        cpu_end(ln, AXIS_SEQS, STEP_HEAD);
        in = scratch;
    }
    linear_share(ln, logits, in, w->classifier, ACT_NONE, NULL);
    cpu_end(ln, AXIS_SEQS, STEP_HEAD);
}

void cpu_fetch(struct lane *lane, float *out, const struct tensor *t) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const struct share sh = cpu_begin_rows(ln, t->axis);
    for (int r = sh.r0; r < sh.r1; r++) {
        memcpy(out + (int64_t)r * t->cols, cpu_row(t, r), (size_t)t->cols * sizeof(*out));
    }
    cpu_end(ln, t->axis, STEP_FETCH);
}
