/* cost.c - least squares with three unknowns, none of them below zero.
 * Terms are counted in units of a usual batch, so that the three are of one size, and a sample is
 * divided by its expected time, so that errors are relative. What was learnt is kept as an
 * information matrix R (the inverse of RLS' covariance): symmetric and positive by the way it is
 * made, old samples fade from it by a factor, and it fades to a floor rather than to nothing, so a
 * shape that comes a million times in a row does not let the other directions grow without bound.
 * Outliers count the less the further off they are. Many of them on one side are a change of the
 * machine's speed: all terms are then scaled by the median of the latest ratios, in one step.
 * Bounds are kept by active sets: of all ways to hold terms at zero the best feasible one counts.
 */
#include "batching/cost.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Terms of a usual batch: 256 rows in sequences of 64. */
static const double unit[COST_TERMS] = {1, 256, 256 * 64};

static const double MEMORY = 0.98;      // a sample's weight fades by this with every other
static const double FLOOR = 0.1;        // information that is never lost, in samples
static const double BEGIN = 0.02;       // and of the share that the first sample gives to each term
static const double FLOOR_SHARE = 0.02; // what a term that costs nothing counts as, of the whole
static const double OUTLIER_LEAST = 0.05; // no error below this is an outlier
static const double OUTLIER_TIMES = 2;    // nor below so many usual ones
static const double USUAL_FIRST = 0.25, USUAL_LEAST = 0.01, USUAL_MOST = 1, USUAL_STEP = 1.05;
static const double DRIFT_MEMORY = 0.9;  // 13 outliers in a row and of one sign
static const double DRIFT_LIMIT = 0.74;  // are a change; one in five is none
static const double CHANGE_MEMORY = 0.3; // of what was known when the machine's speed changed
static const double LEAST_NS = 1;        // a prediction below it is none
static const double SET_SAMPLES = 4;     // what each shape of typical[] counts in cost_set()

static const struct cost_shape typical[] = {
    {8, 8 * 8}, {64, 64 * 16}, {256, 256 * 32}, {256, 256 * 256}, {512, 512 * 512}};
enum { N_TYPICAL = sizeof(typical) / sizeof(typical[0]) };

static const double MAX_NS = INT64_C(1) << 61; // what is predicted at most: some 70 years

struct normal { // R * x = v
    double r[COST_TERMS][COST_TERMS], v[COST_TERMS];
};

static double dot(const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < COST_TERMS; i++) {
        sum += x[i] * y[i];
    }
    return sum;
}
/* A shape's terms in units, each divided by `scale`. */
static void terms_of(double out[COST_TERMS], struct cost_shape s, double scale) {
    const double terms[COST_TERMS] = {1, (double)s.rows, (double)s.sum_len2};
    assert(s.rows >= 1 && s.sum_len2 >= 1);
    for (int i = 0; i < COST_TERMS; i++) {
        out[i] = terms[i] / unit[i] / scale;
    }
}
static double predict(const struct cost_model *m, struct cost_shape s) {
    return m->coef[0] + m->coef[1] * (double)s.rows + m->coef[2] * (double)s.sum_len2;
}
static void add_outer(double r[COST_TERMS][COST_TERMS], const double z[COST_TERMS], double weight) {
    for (int i = 0; i < COST_TERMS; i++) {
        for (int j = 0; j < COST_TERMS; j++) {
            r[i][j] += weight * (z[i] * z[j]); // symmetric to the last bit
        }
    }
}

/* Gaussian elimination in the terms of `set`, the others being zero, after scaling to a diagonal of
 * ones. False when the samples do not tell these terms apart. */
static bool solve_set(double x[COST_TERMS], const struct normal *n, int set) {
    double a[COST_TERMS][COST_TERMS + 1], scale[COST_TERMS];
    int term[COST_TERMS], size = 0;
    memset(x, 0, COST_TERMS * sizeof(*x));
    for (int i = 0; i < COST_TERMS; i++) {
        if (set & 1 << i) {
            term[size] = i;
            scale[size++] = sqrt(n->r[i][i]);
        }
    }
    for (int i = 0; i < size; i++) {
        for (int j = 0; j < size; j++) {
            a[i][j] = n->r[term[i]][term[j]] / (scale[i] * scale[j]);
        }
        a[i][size] = n->v[term[i]] / scale[i];
    }
    for (int k = 0; k < size; k++) { // positive definite: no pivoting
        if (!(a[k][k] > 1e-9)) {
            return false;
        }
        for (int i = k + 1; i < size; i++) {
            const double f = a[i][k] / a[k][k];
            for (int j = k; j <= size; j++) {
                a[i][j] -= f * a[k][j];
            }
        }
    }
    for (int k = size - 1; k >= 0; k--) {
        for (int j = k + 1; j < size; j++) {
            a[k][size] -= a[k][j] * a[j][size];
        }
        a[k][size] /= a[k][k];
        x[term[k]] = a[k][size] / scale[k];
    }
    return true;
}
/* x' R x - 2 x' v: what least squares makes smallest. */
static double loss_of(const struct normal *n, const double x[COST_TERMS]) {
    double loss = -2 * dot(x, n->v);
    for (int i = 0; i < COST_TERMS; i++) {
        loss += x[i] * dot(n->r[i], x);
    }
    return loss;
}
/* The x >= 0 of least loss. Bit i of a set: term i may be above zero. All terms free is best where
 * it can be had; of others that are equally good it is the first in this order. */
static void solve_not_negative(double x[COST_TERMS], const struct normal *n) {
    static const int sets[] = {7, 2, 3, 6, 5, 4, 1}; // all; rows; a constant and rows; ...
    double best = 0, trial[COST_TERMS];
    memset(x, 0, COST_TERMS * sizeof(*x));
    for (size_t k = 0; k < sizeof(sets) / sizeof(sets[0]); k++) {
        if (!solve_set(trial, n, sets[k]) || trial[0] < 0 || trial[1] < 0 || trial[2] < 0) {
            continue;
        }
        const double loss = loss_of(n, trial);
        if (loss < best - 1e-9 * fabs(best)) {
            best = loss;
            memcpy(x, trial, sizeof(trial));
        }
        if (k == 0) {
            return;
        }
    }
}

static void set_coef(struct cost_model *m, const double x[COST_TERMS]) {
    for (int i = 0; i < COST_TERMS; i++) {
        m->coef[i] = x[i] / unit[i];
    }
}

static void get_coef(double x[COST_TERMS], const struct cost_model *m) {
    for (int i = 0; i < COST_TERMS; i++) {
        x[i] = m->coef[i] * unit[i];
    }
}
/* Keeps every direction of R above a floor of `weight` samples. */
static void add_floor(struct cost_model *m, double weight) {
    double x[COST_TERMS];
    get_coef(x, m);
    const double whole = x[0] + x[1] + x[2];
    for (int i = 0; i < COST_TERMS && whole >= LEAST_NS; i++) {
        m->information[i][i] += weight / (whole * (x[i] + FLOOR_SHARE * whole));
    }
}

void cost_fit(struct cost_model *m, const struct cost_sample *samples, int n) {
    struct normal sum = {0};
    double z[COST_TERMS], x[COST_TERMS];
    memset(m, 0, sizeof(*m));
    for (int i = 0; i < n; i++) {
        if (samples[i].ns < 1) {
            continue;
        }
        terms_of(z, samples[i].shape, (double)samples[i].ns);
        add_outer(sum.r, z, 1);
        for (int k = 0; k < COST_TERMS; k++) {
            sum.v[k] += z[k];
        }
    }
    solve_not_negative(x, &sum);
    set_coef(m, x);
    memcpy(m->information, sum.r, sizeof(sum.r));
    m->usual = n > 0 ? USUAL_FIRST : 0;
    add_floor(m, FLOOR);
}
void cost_set(struct cost_model *m, const double coef[COST_TERMS]) {
    double z[COST_TERMS];
    memset(m, 0, sizeof(*m));
    memcpy(m->coef, coef, sizeof(m->coef));
    m->usual = USUAL_FIRST;
    for (int i = 0; i < N_TYPICAL && predict(m, typical[i]) >= LEAST_NS; i++) {
        terms_of(z, typical[i], predict(m, typical[i]));
        add_outer(m->information, z, SET_SAMPLES);
    }
    add_floor(m, FLOOR);
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}
static double median_of(float *v, int n) {
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n == 0 ? 0 : ((double)v[(n - 1) / 2] + v[n / 2]) / 2;
}

static void scale_information(struct cost_model *m, double factor) {
    for (int i = 0; i < COST_TERMS; i++) {
        for (int j = 0; j < COST_TERMS; j++) {
            m->information[i][j] *= factor;
        }
    }
}
/* All terms by one factor: what is known of their shares stays. */
static double change_speed(struct cost_model *m) {
    float latest[COST_RATIOS];
    memcpy(latest, m->ratios, sizeof(latest));
    const double ratio = median_of(latest, COST_RATIOS);
    for (int i = 0; i < COST_TERMS; i++) {
        m->coef[i] *= ratio;
    }
    scale_information(m, CHANGE_MEMORY / (ratio * ratio));
    m->drift = 0;
    return ratio;
}
/* The relative error that the sample counts as: the further beyond what is usual, the less. */
static double believed_error(struct cost_model *m, double predicted, double ns) {
    double error = ns / predicted - 1;
    const double limit = fmax(OUTLIER_LEAST, OUTLIER_TIMES * m->usual);
    const double side = error > limit ? 1 : error < -limit ? -1 : 0;
    m->drift = DRIFT_MEMORY * m->drift + (1 - DRIFT_MEMORY) * side;
    m->ratios[m->n_updates % COST_RATIOS] = (float)(ns / predicted);
    if (fabs(m->drift) > DRIFT_LIMIT) { // has seen more updates than there are ratios
        error = ns / (predicted * change_speed(m)) - 1;
    }
    const double size = fabs(error), step = size > m->usual ? USUAL_STEP : 1 / USUAL_STEP;
    m->usual = fmin(fmax(m->usual * step, USUAL_LEAST), USUAL_MOST); // goes where half are larger
    return size > limit ? limit * limit / error : error;
}
/* Old samples fade; this one comes in. x' R x is the weight of all samples, each as its time would
 * be predicted now: it cannot be more than a long memory holds, unless times have become longer by
 * far, and then what was learnt before says little. */
static void take_in(struct cost_model *m, const double x[COST_TERMS], const double z[COST_TERMS]) {
    double weight = 0;
    for (int i = 0; i < COST_TERMS; i++) {
        weight += x[i] * dot(m->information[i], x);
    }
    scale_information(m, fmin(MEMORY, 1 / (1 - MEMORY) / weight));
    add_outer(m->information, z, 1);
    add_floor(m, (1 - MEMORY) * FLOOR);
}
/* The coefficients that the old ones, weighed with R, and the sample agree on: R x = R x_old + z e,
 * where R has the sample in it already and e is its relative error. */
static void move(struct cost_model *m, const double x[COST_TERMS], const double z[COST_TERMS],
                 double error) {
    struct normal n;
    double moved[COST_TERMS];
    memcpy(n.r, m->information, sizeof(n.r));
    for (int i = 0; i < COST_TERMS; i++) {
        n.v[i] = dot(n.r[i], x) + z[i] * error;
    }
    solve_not_negative(moved, &n);
    set_coef(m, moved);
}
/* The first that is known: a third of it to each term. */
static void begin(struct cost_model *m, const struct cost_sample *s) {
    double z[COST_TERMS], x[COST_TERMS];
    terms_of(z, s->shape, (double)s->ns);
    memset(m->information, 0, sizeof(m->information));
    add_outer(m->information, z, 1);
    for (int i = 0; i < COST_TERMS; i++) {
        m->information[i][i] += BEGIN * z[i] * z[i];
        x[i] = 1 / (COST_TERMS * z[i]);
    }
    set_coef(m, x);
    m->usual = USUAL_MOST;
    m->drift = 0;
}

void cost_update(struct cost_model *m, const struct cost_sample *s) {
    if (s->ns < 1) {
        return;
    }
    const double predicted = predict(m, s->shape), ns = (double)s->ns;
    if (predicted < LEAST_NS) {
        begin(m, s);
    } else {
        double x[COST_TERMS], z[COST_TERMS];
        const double error = believed_error(m, predicted, ns);
        get_coef(x, m);
        terms_of(z, s->shape, predict(m, s->shape));
        take_in(m, x, z);
        move(m, x, z, error);
    }
    m->errors[m->n_updates % COST_ERRORS] = (float)(fabs(ns - predicted) / ns);
    m->n_updates++;
}

int64_t cost_predict_ns(const struct cost_model *m, struct cost_shape s) {
    return (int64_t)fmin(predict(m, s), MAX_NS);
}
int64_t cost_job_ns(const struct cost_model *m, int len) {
    const double n = len;
    return (int64_t)fmin(m->coef[1] * n + m->coef[2] * n * n, MAX_NS);
}

double cost_error(const struct cost_model *m) {
    const int n = m->n_updates < COST_ERRORS ? (int)m->n_updates : COST_ERRORS;
    float latest[COST_ERRORS];
    memcpy(latest, m->errors, sizeof(latest));
    return median_of(latest, n);
}

struct cost_shape cost_shape_of(const struct token_batch *b) {
    struct cost_shape s = {.rows = b->n_rows};
    for (int i = 0; i < b->n_seqs; i++) {
        const int64_t len = b->cu_seqlens[i + 1] - b->cu_seqlens[i];
        s.sum_len2 += len * len;
    }
    return s;
}
