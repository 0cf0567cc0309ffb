/* layer_rest.c - everything between two attentions, so that activations stay in cache.
 * Rows cut: panels of rows walk output projection, LayerNorm, FFN, LayerNorm and the next QKV while
 * they are in L2. The FFN goes in chunks of kc columns, which are the k blocks of its second
 * product, so its hidden layer is never written out; it is written packed by the activation, or, in
 * other precisions than fp32, packed from L2: a row's values are scaled by the largest of a chunk.
 * Columns cut: every lane keeps its own copy of x for all (few) rows and computes its columns of
 * each product; three barriers publish them. LayerNorm is repeated by every lane: cheaper than a
 * barrier more. Rows sum in the same order either way. */
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <string.h>

static struct gemm whole_gemm(const struct linear_weight *w, const float *x, float *y, int64_t ldy,
                              int m) {
    return (struct gemm){
        .w = w, .x = x, .y = y, .ldy = ldy, .m = m, .n1 = w->n, .b1 = gemm_blocks(w)};
}

/* m rows of x for a product with w. */
static void pack_all(const struct cpu_lane *ln, const struct linear_weight *w, const float *x,
                     int64_t ldx, int m) {
    float *out = ln->packed;
    for (int k0 = 0; k0 < w->k; k0 += w->kernel->kc) {
        const int kb = gemm_block_len(w, k0);
        w->kernel->pack_rows(out, x + k0, ldx, m, kb);
        out += w->kernel->packed_words(m, kb);
    }
}
/* Can the first product write the second's operand itself? */
static bool packs_result(const struct linear_weight *first, const struct linear_weight *second) {
    return first->kernel->packs_result && first->kernel == second->kernel;
}

static void panel_ffn(struct cpu_lane *ln, const struct layer_weights *w, float *y, int64_t ldy,
                      const float *x, int64_t ldx, int m) {
    const bool direct = packs_result(w->intermediate, w->output);
    const int kc = w->output->kernel->kc;
    struct gemm up = whole_gemm(w->intermediate, ln->packed, direct ? ln->chunk : ln->rows, kc, m);
    struct gemm down = whole_gemm(w->output, ln->chunk, y, ldy, m);
    up.activation = w->activation, up.y_packed = direct;
    down.residual = x, down.ld_residual = ldx;
    for (int block = 0; block < gemm_blocks(w->output); block++) {
        up.n0 = up.y_n0 = block * kc, up.n1 = cpu_min(up.n0 + kc, w->intermediate->n);
        up.w->kernel->run(&up);
        cpu_mark(ln, STEP_INTERMEDIATE);
        if (!direct) {
            down.w->kernel->pack_rows(ln->chunk, ln->rows, kc, m, up.n1 - up.n0);
        }
        down.b0 = block, down.b1 = block + 1;
        down.w->kernel->run(&down);
        cpu_mark(ln, STEP_OUTPUT);
    }
}

/* Rows [r, r + m), all this lane's. */
static void walk_panel(struct cpu_lane *ln, const struct layer_buffers *b,
                       const struct layer_weights *w, const struct linear_weight *next_qkv, int r,
                       int m) {
    const struct cpu_isa *isa = ln->cpu->isa;
    float *x = cpu_row(&b->x, r), *y = cpu_row(&b->y, r);
    const int64_t ldx = b->x.stride, ldy = b->y.stride;
    pack_all(ln, w->attention_out, cpu_row(&b->ctx, r), b->ctx.stride, m);
    struct gemm out = whole_gemm(w->attention_out, ln->packed, y, ldy, m);
    out.residual = x, out.ld_residual = ldx;
    out.w->kernel->run(&out);
    cpu_mark(ln, STEP_ATTENTION_OUT);
    isa->layernorm(x, ldx, y, ldy, w->attention_norm, m);
    cpu_mark(ln, STEP_ATTENTION_NORM);
    pack_all(ln, w->intermediate, x, ldx, m);
    panel_ffn(ln, w, y, ldy, x, ldx, m);
    isa->layernorm(x, ldx, y, ldy, w->output_norm, m);
    cpu_mark(ln, STEP_OUTPUT_NORM);
    if (next_qkv) {
        pack_all(ln, next_qkv, x, ldx, m);
        const struct gemm qkv =
            whole_gemm(next_qkv, ln->packed, cpu_row(&b->qkv_next, r), b->qkv_next.stride, m);
        next_qkv->kernel->run(&qkv);
        cpu_mark_at(ln, ln->base.layer + 1, STEP_QKV);
    }
}

/* This lane's columns of a product over all rows. */
static void run_columns(const struct cpu_lane *ln, struct gemm g, const struct share *sh) {
    const int nr = g.w->kernel->nr, panels = g.w->n_padded / nr;
    g.n0 = plan_share(panels, sh->lane, sh->n_lanes) * nr;
    g.n1 = cpu_min(plan_share(panels, sh->lane + 1, sh->n_lanes) * nr, g.w->n);
    g.w->kernel->run(&g);
}

/* Both LayerNorms: all rows of y to the lane's own x, packed for what comes next (NULL: nothing).
 */
static void normalize_own(struct cpu_lane *ln, const struct tensor *y, const struct norm_weight *w,
                          int m, enum op_step step, const struct linear_weight *next) {
    ln->cpu->isa->layernorm(ln->residual, w->n, cpu_row(y, 0), y->stride, w, m);
    cpu_mark(ln, step);
    if (next) {
        pack_all(ln, next, ln->residual, w->n, m);
    }
}

static void columns_rest(struct cpu_lane *ln, const struct layer_buffers *b,
                         const struct layer_weights *w, const struct linear_weight *next_qkv,
                         const struct share *sh) {
    const int m = sh->r1, hidden = b->x.cols;
    float *y = cpu_row(&b->y, 0), *ffn = cpu_row(&b->ffn, 0);
    const bool direct = packs_result(w->intermediate, w->output);
    pack_all(ln, w->attention_out, cpu_row(&b->ctx, 0), b->ctx.stride, m);
    struct gemm out = whole_gemm(w->attention_out, ln->packed, y, b->y.stride, m);
    out.residual = cpu_row(&b->x, 0), out.ld_residual = b->x.stride;
    run_columns(ln, out, sh);
    cpu_mark(ln, STEP_ATTENTION_OUT);
    cpu_settle(ln);
    normalize_own(ln, &b->y, w->attention_norm, m, STEP_ATTENTION_NORM, w->intermediate);
    struct gemm up = whole_gemm(w->intermediate, ln->packed, ffn, b->ffn.stride, m);
    up.activation = w->activation, up.y_packed = direct;
    run_columns(ln, up, sh);
    cpu_mark(ln, STEP_INTERMEDIATE);
    cpu_settle(ln); // also: every lane has read y
    if (!direct) {  // by every lane for itself: cheaper than a barrier more
        pack_all(ln, w->output, ffn, b->ffn.stride, m);
    }
    struct gemm down = whole_gemm(w->output, direct ? ffn : ln->packed, y, b->y.stride, m);
    down.residual = ln->residual, down.ld_residual = hidden;
    run_columns(ln, down, sh);
    cpu_mark(ln, STEP_OUTPUT);
    cpu_settle(ln);
    normalize_own(ln, &b->y, w->output_norm, m, STEP_OUTPUT_NORM, next_qkv);
    for (int r = plan_share(m, sh->lane, sh->n_lanes); r < plan_share(m, sh->lane + 1, sh->n_lanes);
         r++) {
        memcpy(cpu_row(&b->x, r), ln->residual + (ptrdiff_t)r * hidden,
               (size_t)hidden * sizeof(float));
    }
    if (next_qkv) {
        run_columns(
            ln, whole_gemm(next_qkv, ln->packed, cpu_row(&b->qkv_next, 0), b->qkv_next.stride, m),
            sh);
        cpu_mark_at(ln, ln->base.layer + 1, STEP_QKV);
    }
}

void cpu_layer_rest(struct lane *lane, const struct layer_buffers *b, const struct layer_weights *w,
                    const struct linear_weight *next_qkv) {
    struct cpu_lane *ln = cpu_lane_of(lane);
    const enum row_axis axis = b->x.axis;
    const struct share sh = cpu_begin(ln, axis);
    assert(b->x.cols <= ln->cpu->limits.hidden && b->ctx.axis == axis && b->y.axis == axis);
    if (ln->cpu->plan.columns[axis]) {
        columns_rest(ln, b, w, next_qkv, &sh);
    } else {
        const int rows = sh.r1 - sh.r0, n_panels = (rows + PANEL_ROWS - 1) / PANEL_ROWS;
        for (int i = 0; i < n_panels; i++) {
            const int r = plan_share(rows, i, n_panels);
            walk_panel(ln, b, w, next_qkv, sh.r0 + r, plan_share(rows, i + 1, n_panels) - r);
        }
    }
    cpu_end(ln, axis, STEP_OUTPUT_NORM);
}
