/* profile.c - the names of steps, and room for their figures. Made once and reset, so that whoever
 * profiles every pass allocates nothing. */
#include "kernels/profile.h"

#include "base/status.h"
#include <stdlib.h>
#include <string.h>

const char *const op_step_names[N_OP_STEPS] = {
    [STEP_EMBED] = "embed",
    [STEP_QKV] = "qkv",
    [STEP_ATTENTION] = "attention",
    [STEP_ATTENTION_OUT] = "attention_out",
    [STEP_ATTENTION_NORM] = "attention_norm",
    [STEP_INTERMEDIATE] = "intermediate",
    [STEP_OUTPUT] = "output",
    [STEP_OUTPUT_NORM] = "output_norm",
    [STEP_POOL] = "pool",
    [STEP_HEAD] = "head",
    [STEP_FETCH] = "fetch",
    [STEP_WAIT] = "wait",
};
const enum op_kind op_step_kinds[N_OP_STEPS] = {
    [STEP_EMBED] = OP_EMBED,
    [STEP_QKV] = OP_GEMM,
    [STEP_ATTENTION] = OP_ATTENTION,
    [STEP_ATTENTION_OUT] = OP_GEMM,
    [STEP_ATTENTION_NORM] = OP_LAYERNORM,
    [STEP_INTERMEDIATE] = OP_GEMM,
    [STEP_OUTPUT] = OP_GEMM,
    [STEP_OUTPUT_NORM] = OP_LAYERNORM,
    [STEP_POOL] = OP_HEAD,
    [STEP_HEAD] = OP_HEAD,
    [STEP_FETCH] = OP_HEAD,
    [STEP_WAIT] = OP_WAIT,
};

static size_t n_figures(const struct op_profile *p) {
    return ((size_t)p->n_layers + 1) * N_OP_STEPS;
}
void op_profile_init(struct op_profile *p, int n_layers) {
    *p = (struct op_profile){.n_layers = n_layers};
    p->of = xcalloc(n_figures(p), sizeof(*p->of));
}
void op_profile_finish(struct op_profile *p) {
    free(p->of);
    memset(p, 0, sizeof(*p));
}
void op_profile_reset(struct op_profile *p) {
    memset(p->of, 0, n_figures(p) * sizeof(*p->of));
    p->n_passes = 0;
}
struct op_figures *op_profile_at(const struct op_profile *p, int layer, enum op_step step) {
    const int row = layer < p->n_layers ? layer : p->n_layers;
    return &p->of[(size_t)row * N_OP_STEPS + (size_t)step];
}
