/* text_lengths.c - the shapes of lengths that a user can name: those that traces know, and beside
 * them two peaks with numbers of their own and a histogram from a file. Every shape is a table of
 * counts. */
#include "bench/client/texts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_TOKENS = 3, MASS = 1000000, LINE_BYTES = 64 };

static int clamp_tokens(double n, int max_tokens) {
    return n < MIN_TOKENS ? MIN_TOKENS : n > max_tokens ? max_tokens : (int)lround(n);
}
/* ":A:B:C" into numbers; how many, or -1. */
static int read_numbers(const char *text, double *out, int most) {
    int n = 0;
    while (*text == ':' && n < most) {
        char *end = NULL;
        if (text[1] < '0' || text[1] > '9') {
            return -1;
        }
        out[n] = strtod(text + 1, &end);
        if (!(out[n] >= 0 && out[n] <= 1e6)) {
            return -1;
        }
        n++;
        text = end;
    }
    return *text ? -1 : n;
}
static enum status read_histogram(struct lengths *out, const char *path, int max_tokens,
                                  struct error *err) {
    char line[LINE_BYTES];
    int number = 0, tokens, n_read = 0;
    long long count;
    int64_t sum = 0;
    FILE *f = fopen(path, "r");
    if (!f) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    enum status s = STATUS_OK;
    while (!s && fgets(line, sizeof(line), f)) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        const bool is_header = number == 1 && !strcmp(line, "tokens,count");
        if (is_header || !*line) {
            continue;
        }
        if (sscanf(line, "%5d,%12lld%n", &tokens, &count, &n_read) != 2 || line[n_read] ||
            tokens < 1 || tokens > TRACE_MAX_TOKENS || count < 0) {
            s = error_set(err, STATUS_INVALID,
                          "%s, line %d: expected TOKENS,COUNT with at most %d tokens", path, number,
                          TRACE_MAX_TOKENS);
        } else {
            out->count[clamp_tokens(tokens, max_tokens)] += count;
            sum += count;
        }
    }
    fclose(f);
    return s          ? s
           : sum == 0 ? error_set(err, STATUS_INVALID, "%s: no lengths in it", path)
                      : STATUS_OK;
}
enum status text_lengths_parse(struct lengths *out, const char *text, int max_tokens,
                               struct error *err) {
    double v[3] = {0, 0, 0};
    const size_t n_name = strcspn(text, ":");
    const int n = read_numbers(text + n_name, v, 3);
    memset(out, 0, sizeof(*out));
    if (!strncmp(text, "file:", 5)) {
        return read_histogram(out, text + 5, max_tokens, err);
    }
    if (!strncmp(text, "bimodal:", 8)) {
        if (n != 3 || v[2] > 1) {
            return error_set(
                err, STATUS_INVALID,
                "\"%.80s\": expected bimodal:SHORT:LONG:SHARE_OF_LONG, the share 0 to 1", text);
        }
        out->count[clamp_tokens(v[0], max_tokens)] += (int64_t)llround((1 - v[2]) * MASS);
        out->count[clamp_tokens(v[1], max_tokens)] += (int64_t)llround(v[2] * MASS);
        return STATUS_OK;
    }
    const enum status s = lengths_named(out, text, MIN_TOKENS, max_tokens, err);
    return s ? error_set(err, s,
                         "\"%.80s\" names no lengths: expected fixed:N, lognormal:MEDIAN:SIGMA, "
                         "bimodal:SHORT:LONG:SHARE_OF_LONG, file:PATH, or one of chat, reviews, "
                         "queries, documents, bimodal, mixed",
                         text)
             : STATUS_OK;
}
