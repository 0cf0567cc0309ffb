/* commands.h - what `berth` can be asked to do. Each takes its options, already read and checked,
 * and gives the exit code of the process. */
#ifndef BERTH_SERVER_COMMANDS_H
#define BERTH_SERVER_COMMANDS_H
#include "server/options.h"
#include <stdio.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 }; // something is wrong; the command line is

int cmd_serve(const struct options *opt);
int cmd_classify(const struct options *opt);
int cmd_tokenize(const struct options *opt);
int cmd_models(const struct options *opt);
extern const struct own_options models_options;
int cmd_tune(const struct options *opt);
extern const struct own_options tune_options;
int cmd_profile(const struct options *opt);
extern const struct own_options profile_options;

/* With options of its own and no settings: it reads them itself. */
int cmd_bench(int argc, char **argv);
void bench_print_options(FILE *out);
#endif
