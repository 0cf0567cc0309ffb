/* head.c - logits to scores. A row has a few labels, so plain loops in double do. */
#include "model/head.h"

#include <math.h>

static void softmax(float *scores, const float *logits, int n) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) {
        max = fmax(max, logits[i]);
    }
    for (int i = 0; i < n; i++) {
        sum += exp(logits[i] - max);
    }
    for (int i = 0; i < n; i++) {
        scores[i] = (float)(exp(logits[i] - max) / sum);
    }
}

void head_scores(float *scores, const float *logits, int n_labels, enum score_function f) {
    if (f == SCORE_SOFTMAX) {
        softmax(scores, logits, n_labels);
        return;
    }
    for (int i = 0; i < n_labels; i++) {
        scores[i] = f == SCORE_SIGMOID ? (float)(1 / (1 + exp(-(double)logits[i]))) : logits[i];
    }
}

static bool goes_before(const float *scores, int a, int b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* Lets the entry at `root` sink until no child of it goes after it. */
static void sink(int *heap, int n, int root, const float *scores) {
    for (int child = 2 * root + 1; child < n; child = 2 * root + 1) {
        if (child + 1 < n && goes_before(scores, heap[child], heap[child + 1])) {
            child++;
        }
        if (!goes_before(scores, heap[root], heap[child])) {
            return;
        }
        const int moved = heap[root];
        heap[root] = heap[child];
        heap[child] = moved;
        root = child;
    }
}

/* A heap sort: in place, and quick for the few models with tens of thousands of labels too. */
void head_sort(int *order, const float *scores, int n_labels) {
    for (int i = 0; i < n_labels; i++) {
        order[i] = i;
    }
    for (int i = n_labels / 2 - 1; i >= 0; i--) {
        sink(order, n_labels, i, scores);
    }
    for (int n = n_labels - 1; n > 0; n--) {
        const int last = order[0];
        order[0] = order[n];
        order[n] = last;
        sink(order, n, 0, scores);
    }
}

bool head_is_finite(const float *logits, int n_labels) {
    for (int i = 0; i < n_labels; i++) {
        if (!isfinite(logits[i])) {
            return false;
        }
    }
    return true;
}
