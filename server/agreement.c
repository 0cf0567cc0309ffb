/* agreement.c - labels, scores and logits of two precisions compared, text by text.
 * Differences that are not numbers must not pass for small ones: they count as infinite. */
#include "server/agreement.h"

#include <math.h>
#include <stdlib.h>

#include "model/head.h"

static int best_of(const float *scores, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}
static bool same_labels(const float *a, const float *b, int n, enum score_function f) {
    if (f == SCORE_SOFTMAX) {
        return best_of(a, n) == best_of(b, n);
    }
    for (int i = 0; i < n; i++) {
        if ((a[i] > 0.5f) != (b[i] > 0.5f)) {
            return false;
        }
    }
    return true;
}
static double cosine_of(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    }
    if (aa == 0 && bb == 0) {
        return 1;
    }
    const double cosine = ab / sqrt(aa * bb);
    return isfinite(cosine) ? cosine : -1;
}

/* One text's part in the sums. */
static void add_text(struct agreement *a, const struct agreement_input *in, float *scores, int i) {
    const int n_labels = in->model->n_labels;
    const float *exact = in->exact + (size_t)i * (size_t)n_labels;
    const float *other = in->other + (size_t)i * (size_t)n_labels;
    float *exact_scores = scores, *other_scores = scores + n_labels;
    head_scores(exact_scores, exact, n_labels, in->model->score);
    head_scores(other_scores, other, n_labels, in->model->score);
    for (int k = 0; k < n_labels; k++) {
        const double d = fabs((double)exact_scores[k] - other_scores[k]);
        const double difference = isnan(d) ? INFINITY : d;
        if (difference > a->max_difference) {
            a->max_difference = difference, a->worst_text = i;
        }
        a->mean_difference += difference / n_labels / in->n;
    }
    const double cosine = cosine_of(exact, other, n_labels);
    a->worst_cosine = cosine < a->worst_cosine ? cosine : a->worst_cosine;
    a->mean_cosine += cosine / in->n;
    a->same_label += same_labels(exact_scores, other_scores, n_labels, in->model->score);
    if (a->has_accuracy) {
        a->accuracy_exact += best_of(exact_scores, n_labels) == in->labels[i];
        a->accuracy_other += best_of(other_scores, n_labels) == in->labels[i];
    }
}
struct agreement agreement_of(const struct agreement_input *in) {
    const enum score_function score = in->model->score;
    struct agreement a = {.n = in->n,
                          .has_labels = score != SCORE_NONE,
                          .has_accuracy = score == SCORE_SOFTMAX && in->labels,
                          .worst_cosine = 1};
    float *scores = xcalloc(2 * (size_t)in->model->n_labels, sizeof(*scores));
    for (int i = 0; i < in->n; i++) {
        add_text(&a, in, scores, i);
    }
    free(scores);
    a.same_label /= in->n, a.accuracy_exact /= in->n, a.accuracy_other /= in->n;
    return a;
}
