/* backend.h - what every backend has in common, and how one is made. The ops are in kernels.h. */
#ifndef BERTH_KERNELS_BACKEND_H
#define BERTH_KERNELS_BACKEND_H
#include "base/status.h"
#include "kernels/profile.h"
#include "kernels/types.h"
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

struct backend_fn;
struct backend { // each backend's own struct begins with one
    const struct backend_fn *fn;
    const char *name;   // "cpu", "reference", "cuda"
    const char *detail; // for logs and /info: "avx2, 2 lanes"
    const char *isa;    // of its vectors: "avx2"; NULL: none
    enum dtype dtype;   // what it computes in
    int n_lanes, n_slots;
    bool is_lost;           // the device gives no results any more; set on the worker's thread
    bool is_hung;           // lost, and busy for ever: destroy() leaves all that is on it alone
    bool makes_in_parallel; // *_create() of weights may be called by several threads at once
};
struct lane { // the public head of each backend's own lane
    struct backend *be;
    int index;
    /* Set by the program, for profile(): the layer that ops belong to from now on, and what its
     * next linear() and layernorm() are. A program begins with 0, STEP_QKV, STEP_OUTPUT_NORM. */
    int layer;
    enum op_step linear_step, norm_step;
};

/* The composites, out of small ops: what a backend's table holds when it does nothing better. */
void layer_rest_default(struct lane *ln, const struct layer_buffers *b,
                        const struct layer_weights *w, const struct linear_weight *next_qkv);
void head_default(struct lane *ln, const struct tensor *logits, const struct tensor *pooled,
                  const struct tensor *scratch, const struct head_weights *w);

/* Of a backend that makes nothing of its own for a size of batch. */
bool warm_up_size_none(const struct backend *be, int i, int *rows, int *seqs);
void seal_nothing(struct backend *be);

MUST_CHECK enum status reference_backend_create(struct backend **out, struct error *err);
/* What products are computed in; everything else is fp32. AUTO: bf16 where AMX is there and
 * on GPUs, else fp32. A precision that the device has no instruction for becomes fp32:
 * backend.dtype tells. */
enum precision {
    PRECISION_FLOAT32,
    PRECISION_BFLOAT16,
    PRECISION_INT8,
    PRECISION_FLOAT16,
    PRECISION_AUTO
};
extern const char *const precision_names[PRECISION_AUTO + 1]; // as in the configuration
/* OFF: attention as separate products, scaling, mask and softmax, and residuals and activations as
 * passes of their own; results within the same tolerances. To be compared with. */
enum fusion { FUSION_ON, FUSION_OFF };
extern const char *const fusion_names[FUSION_OFF + 1]; // as in the configuration
struct cpu_options {
    int n_lanes;     // threads of a pass, the caller's among them; at least 1
    int first_core;  // of those allowed, the one that lane 0 is pinned to; -1: not pinned
    const char *isa; // "baseline", "avx2", ...; NULL: the best that this CPU has, or BERTH_CPU_ISA
    enum precision precision;
    enum fusion fusion;
};
MUST_CHECK enum status cpu_backend_create(struct backend **out, const struct cpu_options *opt,
                                          struct error *err);
void backend_destroy(struct backend *be); // takes NULL

/* tensor_write() and tensor_read() of backends whose tensors are floats in host memory. */
enum status host_tensor_write(struct backend *be, const struct tensor *t, const float *rows,
                              struct error *err);
enum status host_tensor_read(struct backend *be, float *rows, const struct tensor *t,
                             struct error *err);
#ifdef __cplusplus
}
#endif
#endif
