/* main.c - which command, which options; what every command has in common.
 * Exit codes: 0, EXIT_FAULT (the files, the model, a text), EXIT_USAGE (the command line). */
#include "server/commands.h"

#include <stdlib.h>
#include <string.h>

#include "server/nearest.h"

typedef int command_fn(const struct options *opt);
struct command {
    const char *name, *words, *summary, *details;
    command_fn *run;
    const struct own_options *own; // NULL: none
    bool needs_no_model;
    /* A command that takes no settings reads its words itself; both or none. */
    int (*run_words)(int argc, char **argv);
    void (*print_options)(FILE *out);
};
static const struct command commands[] = {
    {"serve", "MODEL_DIR", "serve the model over HTTP",
     "Listens, loads the model, and answers until SIGTERM or SIGINT; then it drains: what was\n"
     "accepted is answered. A second signal ends it at once. The log is JSON lines on stderr.\n",
     cmd_serve, NULL, false, NULL, NULL},
    {"classify", "MODEL_DIR [TEXT...]", "classify texts, or the lines of standard input",
     "Writes a JSON object a text, in order: text, label and score of the best label, scores of\n"
     "all, tokens, truncated. A text that cannot be classified gives {\"line\", \"error\"} in its\n"
     "place, and the exit code is 1 at the end.\n",
     cmd_classify, NULL, false, NULL, NULL},
    {"tokenize", "MODEL_DIR [TEXT...]", "show token ids of texts, or of standard input's lines",
     "Writes a JSON object a text, in order: text, ids, tokens, offsets (UTF-8 bytes, start and\n"
     "end; 0, 0 for special tokens). A text that is refused gives {\"line\", \"error\"}.\n",
     cmd_tokenize, NULL, false, NULL, NULL},
    {"models", "check MODEL_DIR", "compare a precision with float32 on texts of yours",
     "Classifies the texts twice, in float32 and in --precision (int8 when it is float32), and\n"
     "prints how many get the same label, how far scores and logits are apart and, with labels,\n"
     "both accuracies. Exit code 1 when that is less than the options below ask for.\n",
     cmd_models, &models_options, false, NULL, NULL},
    {"tune", "[MODEL_DIR]", "find buckets, budgets and waits for a load",
     "Reads lengths and arrivals (a trace that the server recorded, or lengths and a rate), tries\n"
     "configurations by simulation with the model's cost table, prints what the present one and\n"
     "the best ones would do, and writes the settings that were moved, for berth serve --config.\n",
     cmd_tune, &tune_options, true, NULL, NULL},
    {"profile", "MODEL_DIR", "tell what each op of a forward pass takes",
     "Runs passes of one batch and prints, op by op, its time, rows, GFLOP/s and GB/s beside what\n"
     "the machine could do at best, measured in the same run.\n",
     cmd_profile, &profile_options, false, NULL, NULL},
    {"bench", "URL", "load a server and tell where the time went",
     "Open loop unless --connections is given: requests are sent when they are due, and latency\n"
     "counts from then. Exit code 0; 1 when the server was not there or was lost (results are "
     "then\n"
     "partial, and say so); 2 for a wrong option; 3 when a --fail-if is true or --find-rate found\n"
     "none. docs/BENCH.md has an example.\n",
     NULL, NULL, true, cmd_bench, bench_print_options},
};
static const char *const words[] = {"serve",   "classify", "tokenize", "models", "tune",
                                    "profile", "bench",    "help",     "version"};

static void print_usage(FILE *out) {
    fputs("Berth serves BERT encoders with length-bucketed dynamic batching.\n\n"
          "usage: berth COMMAND MODEL_DIR [OPTION...]\n\n",
          out);
    for (size_t i = 0; i < N_ITEMS(commands); i++) {
        fprintf(out, "  berth %-9s%-20s  %s\n", commands[i].name, commands[i].words,
                commands[i].summary);
    }
    fputs(
        "  berth help config                  print a config file with every setting explained\n"
        "  berth COMMAND --help               a command and all its options\n"
        "  berth --check-config [OPTION...]   check the settings that options and --config FILE "
        "give\n"
        "  berth --print-config [OPTION...]   print them, as JSON\n"
        "  berth --version\n\n"
        "MODEL_DIR is a Hugging Face directory: config.json, model.safetensors, tokenizer.json.\n",
        out);
}
static void print_own_options(const struct own_options *own) {
    fputs("options of this command:\n", stdout);
    for (int i = 0; i < own->n; i++) {
        const struct own_option *o = &own->rows[i];
        printf("  --%s%s%s\n      %s\n", o->name, o->value ? " " : "", o->value ? o->value : "",
               o->effect);
    }
    fputc('\n', stdout);
}
static int print_command_help(const struct command *c) {
    printf("usage: berth %s %s [OPTION...]\n\n%s\n", c->name, c->words, c->details);
    if (c->print_options) {
        fputs("options (--name value or --name=value):\n", stdout);
        c->print_options(stdout);
        return 0;
    }
    if (c->own) {
        print_own_options(c->own);
    }
    fputs("options (--key value or --key=value; of a key that is unique the last part is enough):\n"
          "  --config FILE\n      Read settings from FILE, JSON with comments; options go before.\n"
          "  --check-config\n      Read and check the settings, say OK, and end.\n"
          "  --print-config\n      Print the settings in force, as JSON, and end.\n"
          "  --help\n\n",
          stdout);
    config_print_help(stdout);
    return 0;
}
static const struct command *find_command(const char *name) {
    for (size_t i = 0; i < N_ITEMS(commands); i++) {
        if (!strcmp(name, commands[i].name)) {
            return &commands[i];
        }
    }
    return NULL;
}
static int unknown_command(const char *name) {
    fprintf(stderr, "berth: unknown command \"%.60s\"; the nearest known one is \"%s\"\n", name,
            nearest_of(words, N_ITEMS(words), name));
    return EXIT_USAGE;
}
static int help(int argc, char **argv) {
    if (argc == 0) {
        print_usage(stdout);
        return 0;
    }
    if (!strcmp(argv[0], "config")) {
        config_print_sample(stdout);
        return 0;
    }
    const struct command *c = find_command(argv[0]);
    return c ? print_command_help(c) : unknown_command(argv[0]);
}

static int run(const struct command *c, const struct options *opt) {
    if (opt->print_config) {
        config_print(stdout, &opt->cfg);
        return 0;
    }
    if (opt->check_config) {
        puts("OK");
        return 0;
    }
    if (!*opt->cfg.model.dir && !c->needs_no_model) {
        fprintf(stderr, "berth: %s: no MODEL_DIR; usage: berth %s %s\n", c->name, c->name,
                c->words);
        return EXIT_USAGE;
    }
    if ((c->run == cmd_serve || c->run == cmd_profile || c->needs_no_model) && opt->n_texts > 0) {
        fprintf(stderr, "berth: %s: \"%.60s\" is one word too many\n", c->name, opt->texts[0]);
        return EXIT_USAGE;
    }
    /* The lines of a load are of use to an operator, not between a command's results. */
    const bool is_quiet = c->run != cmd_serve && opt->cfg.log.level == LOG_INFO;
    log_set_level(is_quiet ? LOG_WARN : opt->cfg.log.level);
    return c->run(opt);
}
static int run_command(const struct command *c, int argc, char **argv) {
    struct options opt;
    struct error err;
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            return print_command_help(c);
        }
    }
    if (c->run_words) {
        return c->run_words(argc, argv);
    }
    char **given = xcalloc((size_t)argc + 1, sizeof(*given)); // parsing changes their order
    memcpy(given, argv, (size_t)argc * sizeof(*given));
    const enum status s = options_parse(&opt, argc, argv, c->own, &err);
    int code = opt.config_is_wrong ? EXIT_FAULT : EXIT_USAGE;
    if (s) {
        fprintf(stderr, "berth: %s: %s\n", c->name, err.text);
    } else {
        opt.argc = argc, opt.argv = given, opt.own_rows = c->own;
        code = run(c, &opt);
    }
    free(given);
    return code;
}
/* The one command of two words. */
static int run_models(const struct command *c, int argc, char **argv) {
    const bool has_word = argc > 0 && argv[0][0] != '-';
    if (!has_word || !strcmp(argv[0], "check")) {
        return run_command(c, argc - has_word, argv + has_word);
    }
    fprintf(stderr, "berth: models: unknown word \"%.60s\"; the nearest known one is \"check\"\n",
            argv[0]);
    return EXIT_USAGE;
}
int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version")) {
        puts("berth " BERTH_VERSION);
        return 0;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        return help(argc - 2, argv + 2);
    }
    if (!strncmp(name, "--", 2)) { // options alone are the server's
        return run_command(find_command("serve"), argc - 1, argv + 1);
    }
    const struct command *c = find_command(name);
    if (c && c->run == cmd_models) {
        return run_models(c, argc - 2, argv + 2);
    }
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(name);
}
