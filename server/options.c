/* options.c - the command line in two passes: the first reads the file that --config names, the
 * second puts the options over it, so that their order does not matter. Every setting is an option
 * (config_set); only what is no setting is known here, and what a command brings of its own. */
#include "server/options.h"

#include <stdlib.h>
#include <string.h>

#include "server/nearest.h"

enum special { SPECIAL_CONFIG, SPECIAL_HELP, SPECIAL_CHECK, SPECIAL_PRINT, N_SPECIALS };
static const char *const specials[N_SPECIALS] = {"config", "help", "check-config", "print-config"};

/* "--name=value", or "--name" with the next word as its value. */
struct option {
    char name[EDIT_MAX_LENGTH];
    const char *value; // NULL: none
    bool used_next;
    int special; // N_SPECIALS: none of them
    int own;     // -1: a setting
};
static int find_own(const struct own_options *own, const char *name) {
    for (int i = 0; own && i < own->n; i++) {
        if (!strcmp(name, own->rows[i].name)) {
            return i;
        }
    }
    return -1;
}
static bool wants_value(const struct own_options *own, const struct option *o) {
    if (o->special < N_SPECIALS) {
        return o->special == SPECIAL_CONFIG;
    }
    return o->own >= 0 ? own->rows[o->own].value != NULL : !config_is_switch(o->name);
}
static struct option split(const struct own_options *own, const char *word, const char *next) {
    struct option o = {.value = NULL};
    const int n = (int)strcspn(word, "=");
    snprintf(o.name, sizeof(o.name), "%.*s", n, word);
    while (o.special < N_SPECIALS && strcmp(o.name, specials[o.special])) {
        o.special++;
    }
    o.own = find_own(own, o.name);
    if (word[n]) {
        o.value = word + n + 1;
    } else if (wants_value(own, &o)) {
        o.value = next;
        o.used_next = next != NULL;
    }
    return o;
}

static enum status apply_special(struct options *out, const struct option *o, struct error *err) {
    if (o->special != SPECIAL_CONFIG && o->value) {
        return error_set(err, STATUS_INVALID, "--%s takes no value", o->name);
    }
    if (o->special == SPECIAL_CONFIG && !o->value) {
        return error_set(err, STATUS_INVALID, "--config needs a file");
    }
    out->check_config = out->check_config || o->special == SPECIAL_CHECK;
    out->print_config = out->print_config || o->special == SPECIAL_PRINT;
    return STATUS_OK;
}
/* A slip in one of the words known here alone is nearer to them than to any setting. */
static const char *nearest_word(const struct own_options *own, const char *name) {
    const char *words[N_SPECIALS + MAX_OWN_OPTIONS];
    int n = 0;
    for (; n < N_SPECIALS; n++) {
        words[n] = specials[n];
    }
    for (int i = 0; own && i < own->n; i++) {
        words[n++] = own->rows[i].name;
    }
    return nearest_of(words, (size_t)n, name);
}
static enum status apply_setting(struct options *out, const struct own_options *own,
                                 const struct option *o, struct error *err) {
    const enum status s = config_set(&out->cfg, o->name, o->value, err);
    const char *word = s ? nearest_word(own, o->name) : NULL;
    if (s && edit_distance(o->name, word) <= 2) {
        return error_set(err, s, "unknown option --%s; the nearest known one is --%s", o->name,
                         word);
    }
    return s;
}
static enum status apply_own(struct options *out, const struct own_options *own,
                             const struct option *o, struct error *err) {
    const struct own_option *row = &own->rows[o->own];
    if (!row->value && o->value) {
        return error_set(err, STATUS_INVALID, "--%s takes no value", row->name);
    }
    if (row->value && !o->value) {
        return error_set(err, STATUS_INVALID, "--%s needs a value: %s", row->name, row->value);
    }
    out->own[o->own] = row->value ? o->value : "";
    return STATUS_OK;
}
typedef enum status apply_fn(struct options *out, const struct own_options *own,
                             const struct option *o, struct error *err);
static enum status read_config(struct options *out, const struct own_options *own,
                               const struct option *o, struct error *err) {
    if (o->special != SPECIAL_CONFIG || !o->value) {
        return STATUS_OK;
    }
    const enum status s = config_read_file(&out->cfg, o->value, err);
    out->config_is_wrong = s != STATUS_OK;
    return s;
}
static enum status apply(struct options *out, const struct own_options *own, const struct option *o,
                         struct error *err) {
    if (o->special < N_SPECIALS) {
        return apply_special(out, o, err);
    }
    return o->own >= 0 ? apply_own(out, own, o, err) : apply_setting(out, own, o, err);
}
/* Gives every option to `fn` and, when `words` is not NULL, moves the other words to its front. */
static enum status for_each(struct options *out, int argc, char **argv,
                            const struct own_options *own, apply_fn *fn, char **words, int *n_words,
                            struct error *err) {
    bool ended = false;
    for (int i = 0; i < argc; i++) {
        const bool is_option = !ended && argv[i][0] == '-' && argv[i][1];
        if (!is_option) {
            if (words) {
                words[(*n_words)++] = argv[i];
            }
            continue;
        }
        ended = !strcmp(argv[i], "--");
        if (ended) {
            continue;
        }
        const char *word = !strcmp(argv[i], "-h") ? "--help" : argv[i];
        if (word[1] != '-') {
            return error_set(err, STATUS_INVALID, "unknown option %.40s; options begin with --",
                             word);
        }
        const struct option o = split(own, word + 2, i + 1 < argc ? argv[i + 1] : NULL);
        const enum status s = fn(out, own, &o, err);
        if (s) {
            return s;
        }
        i += o.used_next;
    }
    return STATUS_OK;
}
enum status options_parse(struct options *out, int argc, char **argv, const struct own_options *own,
                          struct error *err) {
    int n_words = 0;
    *out = (struct options){.n_texts = 0};
    config_defaults(&out->cfg);
    enum status s = for_each(out, argc, argv, own, read_config, NULL, NULL, err);
    if (s) {
        return s;
    }
    s = for_each(out, argc, argv, own, apply, argv, &n_words, err);
    if (s) {
        return s;
    }
    if (n_words > 0) {
        s = config_set(&out->cfg, "model.dir", argv[0], err);
        out->texts = argv + 1, out->n_texts = n_words - 1;
    }
    return s ? s : config_check(&out->cfg, err);
}
enum status options_reread(struct config *out, const struct options *opt, struct error *err) {
    struct options again;
    char **words = xcalloc((size_t)opt->argc + 1, sizeof(*words)); // parsing changes their order
    memcpy(words, opt->argv, (size_t)opt->argc * sizeof(*words));
    const enum status s = options_parse(&again, opt->argc, words, opt->own_rows, err);
    free(words);
    if (!s) {
        *out = again.cfg;
    }
    return s;
}
