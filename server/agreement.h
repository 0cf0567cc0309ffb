/* agreement.h - how alike the results of one model in two precisions are. Pure. */
#ifndef BERTH_SERVER_AGREEMENT_H
#define BERTH_SERVER_AGREEMENT_H
#include "model/config.h"

/* Of n texts: `exact` and `other` are [n, n_labels] logits; `labels` is [n], what is right, or
 * NULL. */
struct agreement_input {
    const struct model_config *model;
    const float *exact, *other;
    const int *labels;
    int n;
};
struct agreement {
    int n;
    bool has_labels;   // false: a regression, whose scores choose nothing
    double same_label; // share of texts; of several labels: all on the same side of 1/2
    double max_difference, mean_difference; // of scores, over all texts and labels
    double worst_cosine, mean_cosine;       // of a text's logits; 1 where both are zero
    bool has_accuracy;                      // labels are given, and a text has one
    double accuracy_exact, accuracy_other;  // the best label is the right one
    int worst_text;                         // the one with max_difference, from 0 on
};
struct agreement agreement_of(const struct agreement_input *in);
#endif
