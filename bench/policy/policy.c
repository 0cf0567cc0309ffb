/* policy.c - holds the scheduling to what it promises, by simulation over several seeds.
 * Every experiment gives figures and bounds. A line holds when the median over the seeds does; the
 * worst seed stands beside it, since a p99 near saturation is made of a few busy periods. */
#include "bench/policy/experiments.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/timing.h"

enum { MAX_SEEDS = 64, MAX_TABLES = 8, MAX_SEQ_LEN = 512 };

struct options {
    double tables[MAX_TABLES][COST_TERMS];
    int n_tables, n_seeds;
    double length, noise;
    struct policy_config policy;
    const char *only, *csv;
};

static const char usage[] =
    "usage: bench_policy [options]\n"
    "  --cost A,B,C          what a pass takes: us, us a row, us a squared token; may be repeated\n"
    "  --seeds N             runs of each experiment (8)\n"
    "  --length X            of each run; 1 is minutes to hours of simulated time (1)\n"
    "  --only NAME           beside, mixed, padded, overload or hang-ups\n"
    "  --rank-cost-factor K  batching.rank_cost_factor (4.5)\n"
    "  --max-batch-ms MS     batching.max_batch_ms (100)\n"
    "  --csv FILE            every figure of every seed\n";

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench_policy: %s: %s\n", what, why);
    exit(2);
}

static double number(const char *text, const char *what, double min, double max) {
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end || !(x >= min && x <= max)) {
        die(what, "is no number, or out of range");
    }
    return x;
}

static void add_table(struct options *o, const char *text) {
    double us[COST_TERMS];
    char extra;
    if (o->n_tables == MAX_TABLES ||
        sscanf(text, "%lf,%lf,%lf%c", &us[0], &us[1], &us[2], &extra) != COST_TERMS) {
        die("--cost", "three numbers are expected, such as 680,99,0.068, 8 times at most");
    }
    for (int i = 0; i < COST_TERMS; i++) {
        o->tables[o->n_tables][i] = us[i] * 1e3;
    }
    o->n_tables++;
}

static void default_policy(struct policy_config *p) {
    static const int up_to[] = {16, 32, 64, 128, 256, MAX_SEQ_LEN};
    *p = (struct policy_config){.mode = BATCH_PACKED,
                                .max_batch_ns = 100 * NS_PER_MS,
                                .rank_cost_factor = 4.5,
                                .n_keys = 1,
                                .key_weights = {1}};
    for (size_t i = 0; i < N_ITEMS(up_to); i++) {
        p->buckets[p->n_buckets++] = (struct bucket_limits){
            .up_to = up_to[i], .max_batch_tokens = 256, .max_batch_requests = 64};
    }
}

static void parse_options(struct options *o, int argc, char **argv) {
    static const struct option known[] = {{"cost", required_argument, 0, 'c'},
                                          {"seeds", required_argument, 0, 's'},
                                          {"length", required_argument, 0, 'l'},
                                          {"only", required_argument, 0, 'o'},
                                          {"max-batch-ms", required_argument, 0, 'm'},
                                          {"rank-cost-factor", required_argument, 0, 'k'},
                                          {"csv", required_argument, 0, 'f'},
                                          {"help", no_argument, 0, 'h'},
                                          {0}};
    *o = (struct options){.n_seeds = 8, .length = 1, .noise = 0.05};
    default_policy(&o->policy);
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        switch (c) {
        case 'c': add_table(o, optarg); break;
        case 's': o->n_seeds = (int)number(optarg, "--seeds", 1, MAX_SEEDS); break;
        case 'l': o->length = number(optarg, "--length", 0.01, 100); break;
        case 'o': o->only = optarg; break;
        case 'k': o->policy.rank_cost_factor = number(optarg, "--rank-cost-factor", 0, 1000); break;
        case 'm':
            o->policy.max_batch_ns = (int64_t)(number(optarg, "--max-batch-ms", 0, 60e3) * 1e6);
            break;
        case 'f': o->csv = optarg; break;
        default: fputs(usage, c == 'h' ? stdout : stderr); exit(c == 'h' ? 0 : 2);
        }
    }
    if (optind != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    if (o->n_tables == 0) {
        add_table(o, "680,99,0.068"); // the demo model on two AVX2 cores
        add_table(o, "680,99,0.204"); // a model, or a device, that attention weighs on
    }
}

static struct setup setup_of(const struct options *o, int table, int seed) {
    struct setup s = {.ours = {.policy = o->policy,
                               .max_seq_len = MAX_SEQ_LEN,
                               .max_queued_jobs = 2048,
                               .max_queued_tokens = 262144,
                               .n_workers = 1},
                      .noise = o->noise,
                      .n_layers = 6,
                      .overhead_ns = 50000,
                      .seed = (uint64_t)seed,
                      .length = o->length};
    memcpy(s.coef, o->tables[table], sizeof(s.coef));
    return s;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One line of all seeds: median, best and worst, and whether the median holds. */
static bool print_line(const struct findings *seeds, int n_seeds, int row) {
    struct finding f = seeds[0].rows[row];
    double values[MAX_SEEDS];
    int n_holding = 0;
    for (int i = 0; i < n_seeds; i++) {
        values[i] = seeds[i].rows[row].figure;
        n_holding += finding_holds(&seeds[i].rows[row]);
    }
    qsort(values, (size_t)n_seeds, sizeof(*values), by_value);
    f.figure = (values[(n_seeds - 1) / 2] + values[n_seeds / 2]) / 2;
    const bool holds = finding_holds(&f);
    printf("| %s | %.3f | %.3f - %.3f | %s %.3g | %s, %d of %d |\n", f.name, f.figure, values[0],
           values[n_seeds - 1], f.at_least ? ">=" : "<=", f.bound, holds ? "holds" : "FAILS",
           n_holding, n_seeds);
    return holds;
}

static void write_csv(FILE *out, const struct options *o, int table, const char *experiment,
                      const struct findings *seeds) {
    for (int i = 0; i < o->n_seeds; i++) {
        for (int row = 0; row < seeds[i].n; row++) {
            const struct finding *f = &seeds[i].rows[row];
            fprintf(out, "%g,%g,%g,%s,%d,\"%s\",%.6g,%.6g,%.6g\n", o->tables[table][0] / 1e3,
                    o->tables[table][1] / 1e3, o->tables[table][2] / 1e3, experiment, i + 1,
                    f->name, f->figure, f->bound, f->context);
        }
    }
}

static int run_experiment(const struct options *o, int table, const struct experiment *e,
                          FILE *csv) {
    struct findings *seeds = xcalloc((size_t)o->n_seeds, sizeof(*seeds));
    int n_failed = 0;
    for (int i = 0; i < o->n_seeds; i++) {
        const struct setup s = setup_of(o, table, i + 1);
        struct error err;
        if (e->run(&seeds[i], &s, &err)) {
            die(e->name, err.text);
        }
    }
    printf("\n%s\n\n| figure | median | over seeds | bound | |\n|---|---|---|---|---|\n", e->what);
    for (int row = 0; row < seeds[0].n; row++) {
        n_failed += !print_line(seeds, o->n_seeds, row);
    }
    fflush(stdout);
    if (csv) {
        write_csv(csv, o, table, e->name, seeds);
    }
    free(seeds);
    return n_failed;
}

int main(int argc, char **argv) {
    struct options o;
    parse_options(&o, argc, argv);
    FILE *csv = o.csv ? fopen(o.csv, "we") : NULL;
    if (o.csv && !csv) {
        die(o.csv, "cannot be written");
    }
    if (csv) {
        fputs("a_us,b_us,c_us,experiment,seed,figure,value,bound,context\n", csv);
    }
    int n_failed = 0;
    for (int table = 0; table < o.n_tables; table++) {
        const double *c = o.tables[table];
        printf("\n## A pass takes %g us + %g us a row + %g us a squared token\n", c[0] / 1e3,
               c[1] / 1e3, c[2] / 1e3);
        for (int i = 0; i < N_EXPERIMENTS; i++) {
            if (!o.only || !strcmp(o.only, experiments[i].name)) {
                n_failed += run_experiment(&o, table, &experiments[i], csv);
            }
        }
    }
    printf("\n%d lines fail\n", n_failed);
    if (csv) {
        fclose(csv);
    }
    return n_failed > 0;
}
