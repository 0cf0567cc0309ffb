/* encoder.h - the forward pass, as a list of ops that is the same for every backend.
 * Threads: an encoder belongs to one worker thread; several may share one model_weights.
 * Memory:  activations are made in encoder_create(); a pass allocates nothing. */
#ifndef BERTH_MODEL_ENCODER_H
#define BERTH_MODEL_ENCODER_H
#include "model/token_batch.h"
#include "model/weights.h"

struct encoder;
struct encoder_limits {
    int max_rows, max_seqs, max_seq_len; // of one batch
    int slot; // of the backend's: encoders that take turns within a pass have one each
};
MUST_CHECK enum status encoder_create(struct encoder **out, struct backend *be,
                                      const struct model_config *cfg, const struct model_weights *w,
                                      const struct encoder_limits *limits, struct error *err);
void encoder_destroy(struct encoder *e); // takes NULL
/* logits: [n_seqs, n_labels], host memory of the caller. Blocks until they are there. times may be
 * NULL. Errors: STATUS_BACKEND (the device failed; the batch's logits mean nothing). A logit that
 * is not finite is not an error here: it is its job's, not the batch's. */
MUST_CHECK enum status encoder_forward(struct encoder *e, float *logits,
                                       const struct token_batch *batch, struct op_times *times,
                                       struct error *err);
/* Called at each border between two layers, on the thread of encoder_forward(); may run a pass of
 * an encoder of another slot. layers_left >= 1. */
typedef void border_fn(void *arg, int layers_left, int n_layers);
/* encoder_forward() that stops at borders. The same bits come out. *times leaves out what the
 * borders took. */
MUST_CHECK enum status encoder_forward_in_steps(struct encoder *e, float *logits,
                                                const struct token_batch *batch, border_fn *border,
                                                void *border_arg, struct op_times *times,
                                                struct error *err);
/* The last layer's hidden state of every row, computed rows of padding too: [n_rows, hidden], host
 * memory of the caller; no logits are made. Otherwise as encoder_forward(). */
MUST_CHECK enum status encoder_hidden(struct encoder *e, float *hidden,
                                      const struct token_batch *batch, struct op_times *times,
                                      struct error *err);
/* Adds the latest pass to `sum`, made for the model's number of layers: figures and time of every
 * op. Costs what `sum` is long; a pass is timed whether it is asked or not. */
void encoder_profile(const struct encoder *e, struct op_profile *sum);
#endif
