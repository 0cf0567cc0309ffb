/* options.h - a command's words: options into a config, the rest kept in order. */
#ifndef BERTH_SERVER_OPTIONS_H
#define BERTH_SERVER_OPTIONS_H
#include "server/config.h"

/* What a command takes beside the settings; a setting of the same name steps back. */
struct own_option {
    const char *name, *value; // as --help has them: "trace", "FILE"; NULL: a switch
    const char *effect;
};
enum { MAX_OWN_OPTIONS = 32 };
struct own_options {
    const struct own_option *rows;
    int n; // at most MAX_OWN_OPTIONS
};

struct options {
    struct config cfg; // defaults, then --config FILE, then the options; MODEL_DIR in model.dir
    bool check_config, print_config;
    bool config_is_wrong; // set on failure: the file that --config names is at fault, not a word
    char **texts;         // [n_texts], borrowed from argv: what follows MODEL_DIR
    int n_texts;
    /* As own_options.rows: the value, borrowed from argv; "" for a switch; NULL: not given. */
    const char *own[MAX_OWN_OPTIONS];
    /* For options_reread(), set by who calls options_parse(): the words in the order they came. */
    int argc;
    char **argv;
    const struct own_options *own_rows;
};
/* argv: the words after the command's name; they are put in another order. "--key value",
 * "--key=value", "--switch"; "--" ends the options. --help is the caller's. Errors:
 * STATUS_INVALID, STATUS_IO. own: NULL where there are none. */
MUST_CHECK enum status options_parse(struct options *out, int argc, char **argv,
                                     const struct own_options *own, struct error *err);
/* The same words again, with the --config file as it is now. */
MUST_CHECK enum status options_reread(struct config *out, const struct options *opt,
                                      struct error *err);
#endif
