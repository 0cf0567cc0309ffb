/* profile.h - where passes spend their time, op by op and layer by layer.
 * A step is an op by its place in a layer. A backend times steps (kernels.h, profile()); how often
 * they ran, on how many rows, and what they computed and moved follows from the pass's shape
 * (kernels/work.h), the same for every backend.
 * Threads: a profile belongs to one thread. */
#ifndef BERTH_KERNELS_PROFILE_H
#define BERTH_KERNELS_PROFILE_H
#include "kernels/types.h"
#ifdef __cplusplus
extern "C" {
#endif

enum op_step {
    STEP_EMBED,
    STEP_QKV,
    STEP_ATTENTION,
    STEP_ATTENTION_OUT,
    STEP_ATTENTION_NORM,
    STEP_INTERMEDIATE,
    STEP_OUTPUT,
    STEP_OUTPUT_NORM,
    STEP_POOL,
    STEP_HEAD,
    STEP_FETCH,
    STEP_WAIT, // for other lanes
    N_OP_STEPS
};
extern const char *const op_step_names[N_OP_STEPS];  // "embed", "qkv", ...
extern const enum op_kind op_step_kinds[N_OP_STEPS]; // what each is summed up as

struct op_figures {
    int64_t calls, rows;
    int64_t ns;          // mean over the lanes
    double flops, bytes; // as kernels/work.h counts them
};
struct op_profile {
    int n_layers;
    int64_t n_passes;
    struct op_figures *of; // [n_layers + 1][N_OP_STEPS], owned; the last: what is of no layer
};
void op_profile_init(struct op_profile *p, int n_layers);
void op_profile_finish(struct op_profile *p); // takes a zeroed one
void op_profile_reset(struct op_profile *p);
/* Of a layer beyond the last: what is of no layer. */
struct op_figures *op_profile_at(const struct op_profile *p, int layer, enum op_step step);
#ifdef __cplusplus
}
#endif
#endif
