/* head.h - logits to scores. Pure. */
#ifndef BERTH_MODEL_HEAD_H
#define BERTH_MODEL_HEAD_H
#include "model/config.h"
#include <stdbool.h>

/* scores may be logits. The softmax subtracts the largest logit, so no finite logits overflow it.
 */
void head_scores(float *scores, const float *logits, int n_labels, enum score_function f);
/* order: [n_labels], indices by score falling; the lower index first on ties. */
void head_sort(int *order, const float *scores, int n_labels);
bool head_is_finite(const float *logits, int n_labels);
#endif
