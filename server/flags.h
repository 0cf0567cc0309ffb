/* flags.h - options of a command that takes no settings, typed and bounded, in a table: it reads
 * them, checks them, and prints --help. */
#ifndef BERTH_SERVER_FLAGS_H
#define BERTH_SERVER_FLAGS_H
#include "base/status.h"
#include <stdbool.h>
#include <stdio.h>

enum flag_kind {
    FLAG_SWITCH,  // bool
    FLAG_INT,     // int
    FLAG_INT64,   // int64_t
    FLAG_NUMBER,  // double
    FLAG_SECONDS, // double; "10", "10s", "500ms", "2m"
    FLAG_TEXT,    // const char *, borrowed from argv
    FLAG_TEXTS,   // const char *[max], filled in turn; its count, an int, at `count_offset`
};
struct flag {
    const char *name, *value; // "rate", "N"; NULL for a switch
    enum flag_kind kind;
    size_t offset; // in the command's struct
    double min, max;
    const char *help;
    size_t count_offset;
};
/* "--name value", "--name=value", "--switch", "--" ends them. The other words go to the front of
 * argv, *n_words of them. STATUS_INVALID names the option and what it takes, and the nearest known
 * one to a word that is none. */
MUST_CHECK enum status flags_parse(void *out, const struct flag *flags, int n_flags, int argc,
                                   char **argv, int *n_words, struct error *err);
void flags_print_help(FILE *out, const struct flag *flags, int n_flags);
#endif
