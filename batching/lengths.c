/* lengths.c - how many texts of each length: from a trace, or a law by its name.
 * Laws are sums of log-normal parts, since lengths of texts are about log-normal, integrated over
 * each integer's interval: no sampling, so a name means the same histogram everywhere. "mixed" has
 * the median and 99th percentile of bench/workload.py. */
#include "batching/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOTAL 1e9 // texts of a law, before rounding
#define Z_OF_P99 2.3263478740408408

struct part {
    double share, median, sigma; // sigma of ln(tokens); 0: all are of the median
};
struct law {
    const char *name;
    struct part parts[2];
};
/* Tokens, the two special ones included. */
static const struct law laws[] = {
    {"chat", {{1, 18, 0.8}}},
    {"reviews", {{1, 160, 0.7}}},
    {"queries", {{1, 8, 0.4}}},
    {"documents", {{1, 380, 0.5}}},
    {"bimodal", {{0.8, 12, 0.4}, {0.2, 400, 0.25}}},
    {"mixed", {{1, 24, 0}}}, // its sigma is worked out
};

void lengths_of_trace(struct lengths *out, const struct trace *t) {
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < t->n; i++) {
        out->count[t->arrivals[i].n_tokens]++;
    }
}

double lengths_mean(const struct lengths *l) {
    double sum = 0, n = 0;
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        sum += (double)l->count[i] * i;
        n += (double)l->count[i];
    }
    return n > 0 ? sum / n : 0;
}

static double below(const struct part *p, double tokens) { // the share that is shorter
    if (p->sigma <= 0) {
        return tokens > p->median;
    }
    return 0.5 * erfc(-(log(tokens) - log(p->median)) / (p->sigma * sqrt(2)));
}

static void add_part(struct lengths *out, const struct part *p, int min, int max) {
    double before = 0;
    for (int n = min; n <= max; n++) {
        const double upto = n == max ? 1 : below(p, n + 0.5);
        out->count[n] += llround(TOTAL * p->share * (upto - before));
        before = upto;
    }
}

static bool parse_number(double *out, const char **at, double max) {
    char *end;
    if (**at < '0' || **at > '9') {
        return false;
    }
    *out = strtod(*at, &end);
    *at = end;
    return *out <= max;
}

/* "fixed:N" or "lognormal:MEDIAN:SIGMA". */
static bool parse_law(struct part *out, const char *name) {
    static const char fixed[] = "fixed:", lognormal[] = "lognormal:";
    *out = (struct part){.share = 1};
    if (!strncmp(name, fixed, sizeof(fixed) - 1)) {
        name += sizeof(fixed) - 1;
        return parse_number(&out->median, &name, TRACE_MAX_TOKENS) && out->median >= 1 && !*name;
    }
    if (strncmp(name, lognormal, sizeof(lognormal) - 1)) {
        return false;
    }
    name += sizeof(lognormal) - 1;
    if (!parse_number(&out->median, &name, TRACE_MAX_TOKENS) || out->median < 1 || *name != ':') {
        return false;
    }
    name++;
    return parse_number(&out->sigma, &name, 10) && !*name;
}

static bool find_law(struct part parts[2], const char *name) {
    for (size_t i = 0; i < N_ITEMS(laws); i++) {
        if (!strcmp(name, laws[i].name)) {
            memcpy(parts, laws[i].parts, sizeof(laws[i].parts));
            if (!strcmp(name, "mixed")) {
                parts[0].sigma = log(350.0 / 24) / Z_OF_P99;
            }
            return true;
        }
    }
    parts[1] = (struct part){.share = 0};
    return parse_law(&parts[0], name);
}

enum status lengths_named(struct lengths *out, const char *name, int min, int max,
                          struct error *err) {
    if (min < 1 || max < min || max > TRACE_MAX_TOKENS) {
        return error_set(err, STATUS_INVALID, "lengths from %d to %d: they are 1 to %d, rising",
                         min, max, TRACE_MAX_TOKENS);
    }
    struct part parts[2];
    if (!find_law(parts, name)) {
        return error_set(err, STATUS_INVALID,
                         "lengths \"%.60s\" are not known; there are chat, reviews, queries, "
                         "documents, bimodal, mixed, fixed:TOKENS and lognormal:MEDIAN:SIGMA",
                         name);
    }
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < 2; i++) {
        if (parts[i].share > 0) {
            add_part(out, &parts[i], min, max);
        }
    }
    return STATUS_OK;
}
