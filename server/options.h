/* options.h - a command's words: options into a config, the rest kept in order. */
#ifndef BERTH_SERVER_OPTIONS_H
#define BERTH_SERVER_OPTIONS_H
#include "server/config.h"

struct options {
    struct config cfg; // defaults, then --config FILE, then the options; MODEL_DIR in model.dir
    bool check_config, print_config;
    bool config_is_wrong; // set on failure: the file that --config names is at fault, not a word
    char **texts;         // [n_texts], borrowed from argv: what follows MODEL_DIR
    int n_texts;
};
/* argv: the words after the command's name; they are put in another order. "--key value",
 * "--key=value", "--switch"; "--" ends the options. --help is the caller's. Errors:
 * STATUS_INVALID, STATUS_IO. */
MUST_CHECK enum status options_parse(struct options *out, int argc, char **argv, struct error *err);
#endif
