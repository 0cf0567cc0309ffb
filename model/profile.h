/* profile.h - what the steps of a forward pass compute and move, from the pass's shape. Pure. */
#ifndef BERTH_MODEL_PROFILE_H
#define BERTH_MODEL_PROFILE_H
#include "kernels/profile.h"
#include "model/config.h"
#include "model/token_batch.h"
#include <stdbool.h>

struct pass_shape {
    int64_t n_seqs, n_rows, n_tokens;
    int64_t n_pairs; // of tokens of one sequence: the squares of the lengths, summed up
    bool firsts;     // of the last layer, the first token of each sequence alone, and the head
};
struct pass_shape pass_shape_of(const struct token_batch *batch, bool firsts);
/* Adds one pass to `sum`, made for the model's layers: calls, rows, flops, bytes; no time.
 * weights: what the backend keeps products' weights in. */
void pass_count(struct op_profile *sum, const struct pass_shape *shape,
                const struct model_config *cfg, enum dtype weights);
#endif
