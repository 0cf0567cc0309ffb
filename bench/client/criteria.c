/* criteria.c - one small grammar for two options. Units are asked for where a number alone could be
 * taken for another: a latency of "20" is refused. */
#include "bench/client/criteria.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_word(const char **at, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) {
        return false;
    }
    *at += n;
    return true;
}
static void skip_spaces(const char **at) {
    *at += strspn(*at, " ");
}
static bool take_number(const char **at, double *out) {
    char *end = NULL;
    if (**at < '0' || **at > '9') {
        return false;
    }
    *out = strtod(*at, &end);
    const bool is_plain = (size_t)(end - *at) == strspn(*at, "0123456789.");
    *at = end;
    return is_plain;
}
static bool take_metric(const char **at, struct criterion *c) {
    static const struct {
        const char *name;
        enum metric metric;
    } names[] = {{"mean", METRIC_MEAN},
                 {"min", METRIC_MIN},
                 {"max", METRIC_MAX},
                 {"throughput", METRIC_THROUGHPUT},
                 {"error_rate", METRIC_ERROR_RATE},
                 {"errors", METRIC_ERRORS},
                 {"padding", METRIC_PADDING}};
    double percent = 0;
    for (size_t i = 0; i < N_ITEMS(names); i++) {
        if (take_word(at, names[i].name)) {
            c->metric = names[i].metric;
            return true;
        }
    }
    if (!take_word(at, "p") || !take_number(at, &percent) || percent > 100) {
        return false;
    }
    c->metric = METRIC_QUANTILE;
    c->quantile = percent / 100;
    return true;
}
static bool take_comparison(const char **at, enum comparison *out) {
    if (take_word(at, ">=")) {
        *out = ABOVE_OR_EQUAL;
    } else if (take_word(at, ">")) {
        *out = ABOVE;
    } else if (take_word(at, "<=")) {
        *out = BELOW_OR_EQUAL;
    } else if (take_word(at, "<")) {
        *out = BELOW;
    } else {
        return false;
    }
    return true;
}
static bool is_latency(const struct criterion *c) {
    return c->metric <= METRIC_MAX;
}
/* The unit makes of the number what criterion.value is in. */
static bool take_unit(const char **at, struct criterion *c) {
    if (is_latency(c)) {
        const double factor = take_word(at, "us")   ? 1e-3
                              : take_word(at, "ms") ? 1
                              : take_word(at, "s")  ? 1e3
                                                    : 0;
        c->value *= factor;
        return factor > 0;
    }
    if (c->metric == METRIC_THROUGHPUT) {
        (void)take_word(at, "/s");
        return true;
    }
    if (take_word(at, "%")) {
        c->value /= 100;
        c->metric = c->metric == METRIC_ERRORS ? METRIC_ERROR_RATE : c->metric;
        return c->value <= 1;
    }
    return c->metric == METRIC_ERRORS || c->value <= 1;
}
static bool take_value(const char **at, struct criterion *c) {
    skip_spaces(at);
    if (!take_number(at, &c->value)) {
        return false;
    }
    skip_spaces(at);
    if (!take_unit(at, c)) {
        return false;
    }
    skip_spaces(at);
    return !**at;
}
enum status criterion_parse(struct criterion *out, const char *text, struct error *err) {
    struct criterion c = {.value = 0};
    const char *at = text;
    skip_spaces(&at);
    bool is_good = strlen(text) < sizeof(c.text) && take_metric(&at, &c);
    skip_spaces(&at);
    is_good = is_good && take_comparison(&at, &c.comparison) && take_value(&at, &c);
    if (!is_good) {
        return error_set(err, STATUS_INVALID,
                         "\"%.60s\": expected METRIC>VALUE or METRIC<VALUE, such as p99>20ms, "
                         "mean>1s, throughput<100, errors>0, error_rate>1%%, padding>0.3",
                         text);
    }
    snprintf(c.text, sizeof(c.text), "%s", text);
    *out = c;
    return STATUS_OK;
}
enum status goal_parse(struct criterion *out, const char *text, struct error *err) {
    struct criterion c = {.comparison = ABOVE};
    const char *at = text;
    skip_spaces(&at);
    bool is_good = strlen(text) < sizeof(c.text) && take_metric(&at, &c) && is_latency(&c);
    skip_spaces(&at);
    is_good = is_good && (take_word(&at, "=") || take_word(&at, "<=") || take_word(&at, "<")) &&
              take_value(&at, &c) && c.value > 0;
    if (!is_good) {
        return error_set(err, STATUS_INVALID,
                         "\"%.60s\": expected a latency to hold, such as p99=50ms or mean=1s",
                         text);
    }
    snprintf(c.text, sizeof(c.text), "%s", text);
    *out = c;
    return STATUS_OK;
}

double criterion_value(const struct criterion *c, const struct round *r) {
    const struct record *sum = r->sum;
    const struct hist *h = &sum->latency;
    const double n_failed = (double)record_failures(sum);
    if (is_latency(c) && h->count == 0) {
        return NAN;
    }
    switch (c->metric) {
    case METRIC_QUANTILE: return (double)hist_quantile(h, c->quantile) / 1e6;
    case METRIC_MEAN: return hist_mean(h) / 1e6;
    case METRIC_MIN: return (double)h->min / 1e6;
    case METRIC_MAX: return (double)h->max / 1e6;
    case METRIC_THROUGHPUT: return r->throughput;
    case METRIC_ERRORS: return n_failed;
    case METRIC_ERROR_RATE: return sum->n_due ? n_failed / (double)sum->n_due : NAN;
    case METRIC_PADDING: return sum->batch_rows > 0 ? 1 - sum->batch_tokens / sum->batch_rows : NAN;
    }
    return NAN;
}
bool criterion_holds(const struct criterion *c, const struct round *r) {
    const double v = criterion_value(c, r);
    if (isnan(v)) {
        return true;
    }
    switch (c->comparison) {
    case ABOVE: return v > c->value;
    case ABOVE_OR_EQUAL: return v >= c->value;
    case BELOW: return v < c->value;
    case BELOW_OR_EQUAL: return v <= c->value;
    }
    return true;
}
