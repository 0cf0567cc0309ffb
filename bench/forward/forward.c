/* forward.c - times the forward pass: a grid of batch x length (shapes.c), a mix of lengths, packed
 * (mix.c), or passes on command (serve.c). Options only. */
#include "bench/forward/engine.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_shape(struct options *o, const char *text) {
    char batch[16];
    const char *x = strchr(text, 'x');
    if (!x || x - text >= (int)sizeof(batch) || o->n_shapes == MAX_SHAPES) {
        die("--shape", "BATCHxLENGTH is expected, such as 8x128, 64 times at most");
    }
    memcpy(batch, text, (size_t)(x - text));
    batch[x - text] = 0;
    o->shapes[o->n_shapes].batch = parse_number(batch, "--shape", 4096);
    o->shapes[o->n_shapes++].len = parse_number(x + 1, "--shape", 1 << 20);
}
static void add_grid(struct options *o) {
    static const char *const grid[] = {"1x16",  "1x32",  "1x64",  "1x128", "1x256", "1x512",
                                       "8x16",  "8x32",  "8x64",  "8x128", "8x256", "8x512",
                                       "32x16", "32x32", "32x64", "32x128"};
    for (size_t i = 0; i < N_ITEMS(grid); i++) {
        add_shape(o, grid[i]);
    }
}

static const char usage[] =
    "usage: bench_forward MODEL_DIR [options]\n"
    "  --backend NAME    cpu (default) or reference\n"
    "  --threads N       lanes of a pass (1)\n"
    "  --isa NAME        the kernels to use; default: the best of this CPU\n"
    "  --precision NAME  float32 (default), bfloat16, int8\n"
    "  --shape BxL       B sequences of L tokens; may be repeated (1x16 1x128 8x128 32x32)\n"
    "  --grid            16 shapes from 1x16 to 32x128 and 8x512\n"
    "  --all-rows        hidden states of every row, not what a classifier needs\n"
    "  --lengths FILE    a token length a line: packed in this order instead of shapes\n"
    "  --rows R          rows of a packed batch (256); with --commands, of any batch (4096)\n"
    "  --seconds S       time for each shape, or for the mix (1)\n"
    "  --csv             comma-separated values\n"
    "  --commands        passes as standard input asks for them: see bench/forward/serve.c\n"
    "  --workers N       backends with --threads lanes each, for the command `mix` (1)\n";

static enum precision precision_of(const char *text) {
    static const enum precision known[] = {PRECISION_FLOAT32, PRECISION_BFLOAT16, PRECISION_INT8};
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        if (!strcmp(text, precision_names[known[i]])) {
            return known[i];
        }
    }
    die("--precision", "float32, bfloat16 or int8 is expected");
}

static void parse_options(struct options *o, int argc, char **argv) {
    static const struct option known[] = {{"backend", required_argument, 0, 'b'},
                                          {"threads", required_argument, 0, 't'},
                                          {"isa", required_argument, 0, 'i'},
                                          {"shape", required_argument, 0, 's'},
                                          {"lengths", required_argument, 0, 'l'},
                                          {"rows", required_argument, 0, 'r'},
                                          {"seconds", required_argument, 0, 'S'},
                                          {"csv", no_argument, 0, 'c'},
                                          {"grid", no_argument, 0, 'g'},
                                          {"all-rows", no_argument, 0, 'a'},
                                          {"commands", no_argument, 0, 'C'},
                                          {"workers", required_argument, 0, 'w'},
                                          {"precision", required_argument, 0, 'p'},
                                          {"help", no_argument, 0, 'h'},
                                          {0}};
    *o = (struct options){.backend = "cpu", .threads = 1, .workers = 1, .seconds = 1};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        switch (c) {
        case 'b': o->backend = optarg; break;
        case 't': o->threads = parse_number(optarg, "--threads", 1024); break;
        case 'i': o->isa = optarg; break;
        case 's': add_shape(o, optarg); break;
        case 'p': o->precision = precision_of(optarg); break;
        case 'l': o->lengths_file = optarg; break;
        case 'r': o->rows = parse_number(optarg, "--rows", 1 << 20); break;
        case 'S': o->seconds = strtod(optarg, NULL); break;
        case 'c': o->csv = true; break;
        case 'g': o->grid = true; break;
        case 'a': o->all_rows = true; break;
        case 'C': o->commands = true; break;
        case 'w': o->workers = parse_number(optarg, "--workers", MAX_WORKERS); break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs("bench_forward: --help lists the options\n", stderr); exit(2);
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    o->model_dir = argv[optind];
}

static void set_defaults(struct options *o) {
    if (!o->rows) {
        o->rows = o->commands ? 4096 : 256;
    }
    if (o->grid) {
        add_grid(o);
    }
    if (!o->n_shapes) {
        add_shape(o, "1x16");
        add_shape(o, "1x128");
        add_shape(o, "8x128");
        add_shape(o, "32x32");
    }
}

int main(int argc, char **argv) {
    struct options o;
    parse_options(&o, argc, argv);
    set_defaults(&o);
    if (o.commands) {
        run_commands(&o);
    } else if (o.lengths_file) {
        bench_mix(&o);
    } else {
        bench_shapes(&o);
    }
    return 0;
}
