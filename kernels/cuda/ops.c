/* ops.c - the op table's entries: each writes down what it would launch.
 * Nothing is launched here, and nothing can fail but a broken promise of the caller. A product
 * whose activation the library's epilogue lacks becomes two calls. */
#include "kernels/cuda/entries.h"
#include "kernels/cuda/internal.h"

#include <string.h>

static struct call *record(struct lane *ln, enum call_kind kind, enum op_step step) {
    struct cuda_backend *cuda = cuda_of(ln->be);
    struct slot *slot = cuda->now;
    assert(slot && slot->n_calls < cuda->max_calls); // else reserve() was told of fewer layers
    struct call *c = &slot->calls[slot->n_calls++];
    memset(c, 0, sizeof(*c)); // what lies between its fields is hashed too
    c->kind = kind, c->step = step;
    c->layer = ln->layer < cuda->max_layers ? ln->layer : cuda->max_layers;
    return c;
}

void cuda_op_barrier(struct lane *ln) {
    // one lane, and one stream: what was launched before is there
}

void cuda_op_embed(struct lane *ln, const struct tensor *y, const struct embedding_weights *w) {
    struct call *c = record(ln, CALL_EMBED, STEP_EMBED);
    assert(y->axis == AXIS_TOKENS && y->cols == w->norm->norm.cols && y->cols <= CUDA_MAX_COLS);
    c->y = *y;
    c->weight = w->words;
    c->more[0] = w->positions, c->more[1] = w->types, c->more[2] = w->norm;
}

static void record_exact(struct lane *ln, const struct tensor *y, const struct tensor *x,
                         const struct linear_weight *w, enum activation activation,
                         enum op_step step) {
    struct call *c = record(ln, CALL_EXACT, step);
    assert(y->dtype == DTYPE_F32 && (activation == ACT_NONE || activation == ACT_TANH));
    c->y = *y, c->x = *x, c->weight = w, c->option = (int)activation;
}
/* What the product's own epilogue does of it. */
static enum activation epilogue_of(const struct cuda_backend *cuda, enum activation activation) {
    const bool is_tanh = cuda->opt.gelu == GELU_TANH ||
                         (cuda->opt.gelu == GELU_AUTO && cuda->base.dtype != DTYPE_F32);
    if (activation == ACT_GELU_TANH || (activation == ACT_GELU && is_tanh)) {
        return ACT_GELU_TANH;
    }
    return ACT_NONE;
}
static void record_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                          const struct linear_weight *w, enum activation activation,
                          const struct tensor *residual) {
    const enum activation epilogue = epilogue_of(cuda_of(ln->be), activation);
    struct call *c = record(ln, CALL_GEMM, ln->linear_step);
    assert(y->dtype == x->dtype && linear_of(w, y->dtype));
    c->y = *y, c->x = *x, c->weight = w, c->option = (int)epilogue;
    if (residual) {
        c->residual = *residual;
    }
    if (activation != ACT_NONE && epilogue == ACT_NONE) {
        struct call *after = record(ln, CALL_ACTIVATE, ln->linear_step);
        after->y = *y, after->option = (int)activation;
    }
}
void cuda_op_linear(struct lane *ln, const struct tensor *y, const struct tensor *x,
                    const struct linear_weight *w, enum activation activation,
                    const struct tensor *residual) {
    assert(x->cols == w->k && y->cols == w->n && x->axis == y->axis && x->data != y->data);
    assert(!residual || (activation == ACT_NONE && residual->axis == x->axis));
    if (w->is_exact) {
        assert(!residual);
        record_exact(ln, y, x, w, activation, ln->linear_step);
    } else {
        record_linear(ln, y, x, w, activation, residual);
    }
}

void cuda_op_layernorm(struct lane *ln, const struct tensor *y, const struct tensor *x,
                       const struct norm_weight *w) {
    struct call *c = record(ln, CALL_LAYERNORM, ln->norm_step);
    assert(x->cols == w->norm.cols && y->cols == x->cols && x->axis == y->axis);
    assert(x->cols <= CUDA_MAX_COLS);
    c->y = *y, c->x = *x, c->weight = w;
}

void cuda_op_attention(struct lane *ln, const struct tensor *ctx, const struct tensor *qkv,
                       int n_heads) {
    struct call *c = record(ln, CALL_ATTENTION, STEP_ATTENTION);
    assert(ctx->cols % n_heads == 0 && qkv->cols == 3 * ctx->cols);
    assert(ctx->cols / n_heads <= CUDA_MAX_HEAD_DIM);
    c->y = *ctx, c->x = *qkv, c->option = n_heads;
}

void cuda_op_pool(struct lane *ln, const struct tensor *pooled, const struct tensor *x,
                  enum pool_mode mode) {
    struct call *c = record(ln, CALL_POOL, STEP_POOL);
    assert(pooled->axis == AXIS_SEQS && x->axis == AXIS_TOKENS && pooled->cols == x->cols);
    c->y = *pooled, c->x = *x, c->option = (int)mode;
}

/* Between its two products a row stays in fp32, in memory of the backend's own. */
void cuda_op_head(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                  const struct tensor *scratch, const struct head_weights *w) {
    const struct cuda_backend *cuda = cuda_of(ln->be);
    struct tensor between = *pooled;
    if (w->dense) {
        assert(w->dense->is_exact && pooled->cols <= cuda->limits.hidden);
        between.data = cuda->pooled, between.dtype = DTYPE_F32;
        record_exact(ln, &between, pooled, w->dense, ACT_TANH, STEP_HEAD);
    }
    assert(w->classifier->is_exact);
    record_exact(ln, logits, &between, w->classifier, ACT_NONE, STEP_HEAD);
}

static int64_t block_bytes(const struct tensor *t, int rows) {
    const int64_t bytes = rows * t->stride * (int64_t)dtype_size(t->dtype);
    return (bytes + CUDA_ALIGN - 1) / CUDA_ALIGN * CUDA_ALIGN;
}
void cuda_op_fetch(struct lane *ln, float *out, const struct tensor *t) {
    struct slot *slot = cuda_of(ln->be)->now;
    struct call *c = record(ln, CALL_FETCH, STEP_FETCH);
    const bool is_token = t->axis == AXIS_TOKENS;
    assert(slot->n_fetches < (int)N_ITEMS(slot->fetches));
    c->y = *t, c->fetch_offset = slot->out_used;
    slot->out_used += block_bytes(t, is_token ? slot->rows : slot->seqs);
    assert(slot->out_used <= (int64_t)cuda_of(ln->be)->out_bytes);
    slot->fetches[slot->n_fetches++] = (struct fetched){
        out, *t, is_token ? slot->batch->n_rows : slot->batch->n_seqs, c->fetch_offset};
}
