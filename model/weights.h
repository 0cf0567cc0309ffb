/* weights.h - a checkpoint's tensors by their place in the network, made into a backend's weights.
 * Names with or without a `bert.` prefix, and LayerNorm's gamma/beta for weight/bias, are all
 * found. Memory: owned; the mapped file stays open as long as tables borrow from it. */
#ifndef BERTH_MODEL_WEIGHTS_H
#define BERTH_MODEL_WEIGHTS_H
#include "kernels/backend.h"
#include "model/config.h"

struct model_weights {
    struct embedding_weights embedding;
    struct layer_weights *layers; // [n_layers]
    int n_layers;
    struct head_weights head;
    struct backend *be; // that made them; outlives this
    struct safetensors *file;
};
/* Milliseconds by step of a load, for the cold-start log; check and convert run on several threads,
 * and theirs are means. */
struct load_times {
    double map_ms, check_ms, convert_ms;
};
/* Errors: STATUS_IO; STATUS_INVALID naming the tensor (missing, another shape, not finite). */
MUST_CHECK enum status model_weights_load(struct model_weights *out, struct backend *be,
                                          const struct model_config *cfg, const char *dir,
                                          struct load_times *times, struct error *err);
void model_weights_finish(struct model_weights *w);
#endif
