/* common.c - what is the same for every backend: names, and the composite ops made of small ones.
 * A composite needs no barrier of its own: each small op reads, of other ops' results, only the
 * rows that its own lane wrote. */
#include "kernels/kernels.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DTYPE_F32] = {"float32", 4}, [DTYPE_F16] = {"float16", 2}, [DTYPE_BF16] = {"bfloat16", 2},
    [DTYPE_I8] = {"int8", 1},     [DTYPE_I32] = {"int32", 4},
};

size_t dtype_size(enum dtype t) {
    assert((size_t)t < N_ITEMS(dtypes));
    return dtypes[t].size;
}

const char *dtype_name(enum dtype t) {
    return (size_t)t < N_ITEMS(dtypes) ? dtypes[t].name : "unknown";
}

const char *const op_kind_names[N_OP_KINDS] = {
    [OP_EMBED] = "embed",         [OP_GEMM] = "gemm", [OP_ATTENTION] = "attention",
    [OP_LAYERNORM] = "layernorm", [OP_HEAD] = "head", [OP_WAIT] = "wait",
};

const char *const precision_names[PRECISION_AUTO + 1] = {
    [PRECISION_FLOAT32] = "float32", [PRECISION_BFLOAT16] = "bfloat16", [PRECISION_INT8] = "int8",
    [PRECISION_FLOAT16] = "float16", [PRECISION_AUTO] = "auto",
};

const char *const fusion_names[FUSION_OFF + 1] = {[FUSION_ON] = "on", [FUSION_OFF] = "off"};

bool warm_up_size_none(const struct backend *be, int i, int *rows, int *seqs) {
    return false;
}
void seal_nothing(struct backend *be) {
    // there is nothing that a pass would make
}

void backend_destroy(struct backend *be) {
    if (be) {
        be->fn->destroy(be);
    }
}

static float *row_of(const struct tensor *t, int row) {
    assert(t->dtype == DTYPE_F32 && t->layout == LAYOUT_ROWS);
    return (float *)t->data + row * t->stride;
}
enum status host_tensor_write(struct backend *be, const struct tensor *t, const float *rows,
                              struct error *err) {
    for (int r = 0; r < t->rows; r++, rows += t->cols) {
        memcpy(row_of(t, r), rows, (size_t)t->cols * sizeof(*rows));
    }
    return STATUS_OK;
}
enum status host_tensor_read(struct backend *be, float *rows, const struct tensor *t,
                             struct error *err) {
    for (int r = 0; r < t->rows; r++, rows += t->cols) {
        memcpy(rows, row_of(t, r), (size_t)t->cols * sizeof(*rows));
    }
    return STATUS_OK;
}

void layer_rest_default(struct lane *ln, const struct layer_buffers *b,
                        const struct layer_weights *w, const struct linear_weight *next_qkv) {
    const struct backend_fn *fn = ln->be->fn;
    ln->linear_step = STEP_ATTENTION_OUT, ln->norm_step = STEP_ATTENTION_NORM;
    fn->linear(ln, &b->y, &b->ctx, w->attention_out, ACT_NONE, &b->x);
    fn->layernorm(ln, &b->x, &b->y, w->attention_norm);
    ln->linear_step = STEP_INTERMEDIATE, ln->norm_step = STEP_OUTPUT_NORM;
    fn->linear(ln, &b->ffn, &b->x, w->intermediate, w->activation, NULL);
    ln->linear_step = STEP_OUTPUT;
    fn->linear(ln, &b->y, &b->ffn, w->output, ACT_NONE, &b->x);
    fn->layernorm(ln, &b->x, &b->y, w->output_norm);
    ln->linear_step = STEP_QKV;
    if (next_qkv) {
        ln->layer++;
        fn->linear(ln, &b->qkv_next, &b->x, next_qkv, ACT_NONE, NULL);
        ln->layer--;
    }
}

void head_default(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                  const struct tensor *scratch, const struct head_weights *w) {
    const struct backend_fn *fn = ln->be->fn;
    const struct tensor *in = pooled;
    ln->linear_step = STEP_HEAD;
    if (w->dense) {
        fn->linear(ln, scratch, pooled, w->dense, ACT_TANH, NULL);
        in = scratch;
    }
    fn->linear(ln, logits, in, w->classifier, ACT_NONE, NULL);
    ln->linear_step = STEP_QKV;
}
