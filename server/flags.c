/* flags.c - the command line of a command that takes no settings. A value is refused with the
 * option's name, what was given and what is allowed. */
#include "server/flags.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/nearest.h"

enum { MAX_FLAGS = 64 };

static enum status refuse(const struct flag *f, const char *given, struct error *err) {
    const char *what = f->kind == FLAG_SECONDS                        ? "a time in seconds"
                       : f->kind == FLAG_INT || f->kind == FLAG_INT64 ? "an integer"
                                                                      : "a number";
    return error_set(err, STATUS_INVALID, "--%s: \"%.60s\", where %s, %.15g to %.15g, is expected",
                     f->name, given, what, f->min, f->max);
}
static double unit_of(const char *text) {
    return !*text || !strcmp(text, "s") ? 1
           : !strcmp(text, "ms")        ? 1e-3
           : !strcmp(text, "m")         ? 60
                                        : NAN;
}
static enum status set_number(void *field, const struct flag *f, const char *text,
                              struct error *err) {
    char *end = NULL;
    if (!strchr("0123456789.-", *text) || !*text) {
        return refuse(f, text, err); // strtod would take more
    }
    double v = strtod(text, &end);
    if ((size_t)(end - text) != strspn(text, "0123456789.-+eE")) {
        return refuse(f, text, err);
    }
    v *= f->kind == FLAG_SECONDS ? unit_of(end) : *end ? NAN : 1;
    const bool is_whole = f->kind == FLAG_INT || f->kind == FLAG_INT64;
    if (!(v >= f->min && v <= f->max) || (is_whole && v != floor(v))) {
        return refuse(f, text, err);
    }
    if (f->kind == FLAG_INT) {
        *(int *)field = (int)v;
    } else if (f->kind == FLAG_INT64) {
        *(int64_t *)field = (int64_t)v;
    } else {
        *(double *)field = v;
    }
    return STATUS_OK;
}
static enum status add_text(char *out, const struct flag *f, const char *text, struct error *err) {
    int *count = (int *)(void *)(out + f->count_offset);
    const char **texts = (const char **)(void *)(out + f->offset);
    if (*count >= (int)f->max) {
        return error_set(err, STATUS_INVALID, "--%s: at most %.0f of them", f->name, f->max);
    }
    texts[(*count)++] = text;
    return STATUS_OK;
}
static enum status set(void *out, const struct flag *f, const char *value, struct error *err) {
    void *field = (char *)out + f->offset;
    if (f->kind == FLAG_SWITCH) {
        *(bool *)field = true;
        return value ? error_set(err, STATUS_INVALID, "--%s takes no value", f->name) : STATUS_OK;
    }
    if (!value) {
        return error_set(err, STATUS_INVALID, "--%s needs a value: %s", f->name, f->value);
    }
    if (f->kind == FLAG_TEXT) {
        *(const char **)field = value;
        return STATUS_OK;
    }
    return f->kind == FLAG_TEXTS ? add_text(out, f, value, err) : set_number(field, f, value, err);
}
static enum status unknown(const struct flag *flags, int n_flags, const char *word,
                           struct error *err) {
    const char *names[MAX_FLAGS];
    const int n = n_flags < MAX_FLAGS ? n_flags : MAX_FLAGS;
    for (int i = 0; i < n; i++) {
        names[i] = flags[i].name;
    }
    if (strncmp(word, "--", 2) != 0) {
        return error_set(err, STATUS_INVALID, "unknown option %.40s; options begin with --", word);
    }
    return error_set(err, STATUS_INVALID, "unknown option %.60s; the nearest known one is --%s",
                     word, nearest_of(names, n, word + 2));
}
/* The flag that `word` is, with its value behind "=" if there is one. */
static const struct flag *find(const struct flag *flags, int n_flags, const char *word,
                               const char **value) {
    const size_t n = strcspn(word, "=");
    *value = word[n] ? word + n + 1 : NULL;
    for (int i = 0; i < n_flags; i++) {
        if (n > 2 && !strncmp(word, "--", 2) && strlen(flags[i].name) == n - 2 &&
            !strncmp(word + 2, flags[i].name, n - 2)) {
            return &flags[i];
        }
    }
    return NULL;
}
enum status flags_parse(void *out, const struct flag *flags, int n_flags, int argc, char **argv,
                        int *n_words, struct error *err) {
    bool ended = false;
    *n_words = 0;
    for (int i = 0; i < argc; i++) {
        if (ended || argv[i][0] != '-' || !argv[i][1]) {
            argv[(*n_words)++] = argv[i];
            continue;
        }
        ended = !strcmp(argv[i], "--");
        if (ended) {
            continue;
        }
        const char *value = NULL;
        const struct flag *f = find(flags, n_flags, argv[i], &value);
        if (!f) {
            return unknown(flags, n_flags, argv[i], err);
        }
        if (!value && f->kind != FLAG_SWITCH && i + 1 < argc) {
            value = argv[++i];
        }
        const enum status s = set(out, f, value, err);
        if (s) {
            return s;
        }
    }
    return STATUS_OK;
}
void flags_print_help(FILE *out, const struct flag *flags, int n_flags) {
    for (int i = 0; i < n_flags; i++) {
        const struct flag *f = &flags[i];
        fprintf(out, "  --%s%s%s\n      %s\n", f->name, f->value ? " " : "",
                f->value ? f->value : "", f->help);
    }
    fputs("  --help\n", out);
}
