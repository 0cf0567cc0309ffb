/* config.h - what a model directory's config.json says about the network and its labels.
 * Memory: owned by the struct; start-up only. */
#ifndef BERTH_MODEL_CONFIG_H
#define BERTH_MODEL_CONFIG_H
#include "base/status.h"
#include "kernels/types.h"
#include <stddef.h>

/* How logits become scores: the rule of the Hugging Face text-classification pipeline. */
enum score_function { SCORE_NONE, SCORE_SIGMOID, SCORE_SOFTMAX };

struct model_config {
    char *name_or_path; // for /info; "" where config.json does not say
    char *architecture; // "BertForSequenceClassification"
    int vocab_size, hidden, intermediate, n_layers, n_heads, max_position, type_vocab_size;
    int pad_token_id;
    float layer_norm_eps;
    enum activation activation;
    int n_labels;
    char **labels;             // [n_labels]: id2label, or LABEL_i
    enum score_function score; // regression: none; multi_label_classification or one label: sigmoid
    const char *problem_type;  // "regression", ..., or NULL; a literal
};
/* Errors: STATUS_IO; STATUS_TOO_LONG; STATUS_INVALID naming the file, the field, what stands there
 * and what was expected (a missing size, hidden not a multiple of n_heads, another architecture,
 * ...). */
MUST_CHECK enum status model_config_read(struct model_config *out, const char *dir,
                                         struct error *err);
/* The same of `len` bytes of text; `file` is a name for messages. */
MUST_CHECK enum status model_config_parse(struct model_config *out, const char *text, size_t len,
                                          const char *file, struct error *err);
void model_config_finish(struct model_config *c);
#endif
