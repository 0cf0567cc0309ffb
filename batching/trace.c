/* trace.c - arrivals: from a file, to a file, made up.
 * The reader is strict, since a trace that is half understood gives a wrong answer without a word:
 * the header says which columns there are, every line has just these, times are read as decimal
 * digits into ns without a detour by floating point, and the first fault ends it with its line. */
#include "batching/trace.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/timing.h"
#include "batching/policy.h"
#include "batching/random.h"

enum { MAX_LINE = 128, MAX_COLUMNS = 4, N_NEEDED = 2 };
#define MAX_AT_NS (INT64_C(366) * 86400 * NS_PER_S) // a year
#define BURST_SHAPE 0.25

static const char *const columns[MAX_COLUMNS] = {"at_ms", "tokens", "priority", "key"};
const char *const arrival_kind_names[N_ARRIVAL_KINDS] = {
    [ARRIVE_CONSTANT] = "constant",
    [ARRIVE_POISSON] = "poisson",
    [ARRIVE_BURSTS] = "bursts",
};

void trace_finish(struct trace *t) {
    free(t->arrivals);
    *t = (struct trace){0};
}

void trace_add(struct trace *t, const struct arrival *a) {
    if (t->n == t->capacity) {
        const int capacity = t->capacity ? 2 * t->capacity : 1024;
        struct arrival *grown = xcalloc((size_t)capacity, sizeof(*grown));
        if (t->n > 0) {
            memcpy(grown, t->arrivals, (size_t)t->n * sizeof(*grown));
        }
        free(t->arrivals);
        t->arrivals = grown;
        t->capacity = capacity;
    }
    t->arrivals[t->n++] = *a;
}

/* Cuts `line` at its commas; -1: more than MAX_COLUMNS. */
static int split(char *line, char *fields[MAX_COLUMNS]) {
    int n = 0;
    memset(fields, 0, MAX_COLUMNS * sizeof(*fields));
    for (char *at = line; at;) {
        if (n == MAX_COLUMNS) {
            return -1;
        }
        fields[n++] = at;
        at = strchr(at, ',');
        if (at) {
            *at++ = 0;
        }
    }
    return n;
}

static bool parse_int(int *out, const char *text, int min, int max) {
    int64_t n = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && n <= max; at++) {
        n = 10 * n + (*at - '0');
    }
    *out = (int)n;
    return at > text && !*at && n >= min && n <= max;
}

/* "12.345" to 12345000; at most six decimals count, as ns have no more. */
static bool parse_ms(int64_t *out, const char *text) {
    int64_t ns = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && ns <= MAX_AT_NS; at++) {
        ns = 10 * ns + (*at - '0') * NS_PER_MS;
    }
    if (at == text || ns > MAX_AT_NS) {
        return false;
    }
    if (*at == '.') {
        const char *point = at++;
        for (int64_t unit = NS_PER_MS / 10; *at >= '0' && *at <= '9'; at++, unit /= 10) {
            ns += (*at - '0') * unit;
        }
        if (at == point + 1) {
            return false;
        }
    }
    *out = ns;
    return !*at;
}

static bool parse_priority(enum priority *out, const char *text) {
    for (int i = 0; i < N_PRIORITIES; i++) {
        if (!strcmp(text, priority_names[i])) {
            *out = (enum priority)i;
            return true;
        }
    }
    return false;
}

static enum status parse_arrival(struct arrival *a, char *const fields[], int n_columns,
                                 int64_t after_ns, struct error *err) {
    *a = (struct arrival){.priority = PRIORITY_NORMAL};
    if (!parse_ms(&a->at_ns, fields[0])) {
        return error_set(err, STATUS_INVALID,
                         "at_ms \"%.40s\" is no time: milliseconds, such as 12.345, are expected",
                         fields[0]);
    }
    if (a->at_ns < after_ns) {
        return error_set(err, STATUS_INVALID,
                         "at_ms %.40s is before the line above: sort the lines by time", fields[0]);
    }
    if (!parse_int(&a->n_tokens, fields[1], 1, TRACE_MAX_TOKENS)) {
        return error_set(err, STATUS_INVALID, "tokens \"%.40s\" must be a number from 1 to %d",
                         fields[1], TRACE_MAX_TOKENS);
    }
    if (n_columns > 2 && !parse_priority(&a->priority, fields[2])) {
        return error_set(err, STATUS_INVALID, "priority \"%.40s\" must be high, normal or low",
                         fields[2]);
    }
    if (n_columns > 3 && !parse_int(&a->key, fields[3], 0, POLICY_MAX_KEYS - 1)) {
        return error_set(err, STATUS_INVALID, "key \"%.40s\" must be a number from 0 to %d",
                         fields[3], POLICY_MAX_KEYS - 1);
    }
    return STATUS_OK;
}

/* The number of columns in *n_columns. */
static enum status parse_header(int *n_columns, char *line, struct error *err) {
    char *fields[MAX_COLUMNS];
    const int n = split(line, fields);
    bool known = n >= N_NEEDED;
    for (int i = 0; i < n && known; i++) {
        known = !strcmp(fields[i], columns[i]);
    }
    if (!known) {
        return error_set(err, STATUS_INVALID,
                         "the first line must be \"at_ms,tokens,priority,key\" or begin so");
    }
    *n_columns = n;
    return STATUS_OK;
}

/* Without its end; STATUS_UNAVAILABLE: there are no more. */
static enum status read_line(char line[MAX_LINE], FILE *in, struct error *err) {
    if (!fgets(line, MAX_LINE, in)) {
        if (ferror(in)) {
            return error_set(err, STATUS_IO, "%s", strerror(errno));
        }
        return STATUS_UNAVAILABLE;
    }
    const size_t len = strlen(line);
    if (len == 0 || (line[len - 1] != '\n' && !feof(in))) {
        return error_set(err, STATUS_INVALID, "the line is no text or longer than %d bytes",
                         MAX_LINE - 2);
    }
    line[strcspn(line, "\r\n")] = 0;
    return STATUS_OK;
}

static enum status read_arrivals(struct trace *out, FILE *in, int64_t *line_number,
                                 struct error *err) {
    char line[MAX_LINE], *fields[MAX_COLUMNS] = {NULL};
    int n_columns = 0;
    enum status s = read_line(line, in, err);
    if (s == STATUS_UNAVAILABLE) {
        return error_set(err, STATUS_INVALID, "it is empty");
    }
    if (!s) {
        s = parse_header(&n_columns, line, err);
    }
    for (int64_t after_ns = 0; !s; after_ns = out->arrivals[out->n - 1].at_ns) {
        struct arrival a;
        ++*line_number;
        s = read_line(line, in, err);
        if (s) {
            break;
        }
        if (out->n == TRACE_MAX_ARRIVALS) {
            return error_set(err, STATUS_INVALID, "more than %d arrivals are too many",
                             TRACE_MAX_ARRIVALS);
        }
        if (split(line, fields) != n_columns) {
            return error_set(err, STATUS_INVALID, "%d values are expected, as in the first line",
                             n_columns);
        }
        s = parse_arrival(&a, fields, n_columns, after_ns, err);
        if (s) {
            return s;
        }
        trace_add(out, &a);
    }
    return s == STATUS_UNAVAILABLE ? STATUS_OK : s;
}

enum status trace_read_stream(struct trace *out, FILE *in, const char *name, struct error *err) {
    struct trace t = {0};
    int64_t line_number = 1;
    const enum status s = read_arrivals(&t, in, &line_number, err);
    if (s) {
        trace_finish(&t);
        return error_prefix(err, s, "%s:%lld", name, (long long)line_number);
    }
    *out = t;
    return STATUS_OK;
}

enum status trace_read(struct trace *out, const char *path, struct error *err) {
    FILE *in = fopen(path, "re");
    if (!in) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    const enum status s = trace_read_stream(out, in, path, err);
    fclose(in);
    return s;
}

void trace_write_header(FILE *out) {
    fputs("at_ms,tokens,priority,key\n", out);
}

void trace_write(FILE *out, const struct arrival *a) {
    const int64_t us = a->at_ns / 1000;
    fprintf(out, "%lld.%03d,%d,%s,%d\n", (long long)(us / 1000), (int)(us % 1000), a->n_tokens,
            priority_names[a->priority], a->key);
}

static double draw_gap(enum arrival_kind kind, struct random *r) { // mean 1
    switch (kind) {
    case ARRIVE_POISSON: return random_exponential(r);
    case ARRIVE_BURSTS: return random_gamma(r, BURST_SHAPE) / BURST_SHAPE;
    default: return 1;
    }
}

/* The length whose share of the histogram the number `at` (0 <= at < total) falls into. */
static int length_at(const int64_t *upto, int64_t at) {
    int low = 0, high = TRACE_MAX_TOKENS;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (upto[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void trace_generate(struct trace *out, enum arrival_kind kind, double rate, int n,
                    const struct lengths *lengths, uint64_t seed) {
    int64_t *upto = xcalloc(TRACE_MAX_TOKENS + 1, sizeof(*upto)), total = 0;
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        total += lengths->count[i];
        upto[i] = total;
    }
    assert(total > 0 && rate > 0 && !lengths->count[0]);
    struct random gaps, draws; // apart, so that a seed gives all kinds the same lengths
    random_seed(&gaps, seed);
    random_seed(&draws, ~seed);
    double at_s = 0;
    for (int i = 0; i < n; i++) {
        at_s += draw_gap(kind, &gaps) / rate;
        const int64_t pick = (int64_t)(random_next(&draws) % (uint64_t)total);
        const struct arrival a = {.at_ns = (int64_t)(at_s * NS_PER_S),
                                  .n_tokens = length_at(upto, pick)};
        trace_add(out, &a);
    }
    free(upto);
}

void trace_merge(struct trace *t, const struct trace *other) {
    struct trace merged = {0};
    int i = 0, k = 0;
    while (i < t->n || k < other->n) {
        const bool ours =
            k == other->n || (i < t->n && t->arrivals[i].at_ns <= other->arrivals[k].at_ns);
        trace_add(&merged, ours ? &t->arrivals[i++] : &other->arrivals[k++]);
    }
    trace_finish(t);
    *t = merged;
}
