/* cost.c - how right the cost model is, on a real device.
 * A sweep as at the server's start, then for each law of lengths a workload that the sweep has not
 * seen: 200 batches that the model learns from, and as many again whose predictions are judged.
 * After each comes the same fixed batch, which the model never learns from: how far its times are
 * from their own median is what no model could do better than, in the same minutes on the same
 * machine. */
#include "base/log.h"
#include "base/timing.h"
#include "batching/trace.h"
#include "kernels/backend.h"
#include "server/sweep.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BATCHES = 5000, MAX_SEQS = 64, MAX_ROWS = 256, MAX_TOKENS = 512, MAX_LAWS = 8 };

struct options {
    const char *model_dir, *laws[MAX_LAWS];
    int n_laws, threads, n_batches;
    uint64_t seed;
    bool cpu_time, csv;
};
struct bench {
    const struct options *opt;
    struct config cfg;
    struct model_config model;
    struct model_weights weights;
    struct backend *loader;
    struct device_plan plan;
    struct device device;
    struct probe *probe;
    struct cost_model start; // as the sweep left it
    uint64_t rng;
};
struct judged { // of one law; [2 * MAX_BATCHES], the first half while learning
    double error[2 * MAX_BATCHES], fixed_ms[2 * MAX_BATCHES], ms[2 * MAX_BATCHES];
    int n;
};

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench_cost: %s: %s\n", what, why);
    exit(1);
}
static int number(const char *text, const char *what, int max) {
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > max) {
        die(what, "a number is expected, from 1 on");
    }
    return (int)n;
}
static const char usage[] =
    "usage: bench_cost MODEL_DIR [options]\n"
    "  --threads N    lanes of a pass (1)\n"
    "  --law NAME     of lengths, as in `berth tune`; may be repeated (mixed chat documents "
    "bimodal)\n"
    "  --batches N    to learn from, and as many to be judged (200)\n"
    "  --seed N       (1)\n"
    "  --cpu-time     of the calling thread, for one lane on a machine with other work\n"
    "  --csv          comma-separated values\n";

static void parse_options(struct options *o, int argc, char **argv) {
    static const struct option known[] = {
        {"threads", required_argument, 0, 't'}, {"law", required_argument, 0, 'l'},
        {"batches", required_argument, 0, 'b'}, {"seed", required_argument, 0, 's'},
        {"cpu-time", no_argument, 0, 'c'},      {"csv", no_argument, 0, 'C'},
        {"help", no_argument, 0, 'h'},          {0}};
    *o = (struct options){.threads = 1,
                          .n_batches = 200,
                          .seed = 1,
                          .laws = {"mixed", "chat", "documents", "bimodal"},
                          .n_laws = 0};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        switch (c) {
        case 't': o->threads = number(optarg, "--threads", 1024); break;
        case 'b': o->n_batches = number(optarg, "--batches", MAX_BATCHES); break;
        case 's': o->seed = (uint64_t)number(optarg, "--seed", 1 << 30); break;
        case 'c': o->cpu_time = true; break;
        case 'C': o->csv = true; break;
        case 'l':
            if (o->n_laws == MAX_LAWS) {
                die("--law", "too many");
            }
            o->laws[o->n_laws++] = optarg;
            break;
        default: fputs(usage, c == 'h' ? stdout : stderr); exit(c == 'h' ? 0 : 2);
        }
    }
    o->n_laws = o->n_laws ? o->n_laws : 4;
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    o->model_dir = argv[optind];
}

static void open_bench(struct bench *b) {
    struct error err = {.text = ""};
    enum cost_source from;
    const struct split split = {1, b->opt->threads};
    struct tuning *tuning = tuning_open("off");
    config_defaults(&b->cfg);
    if (device_create_backend(&b->loader, &b->cfg, 1, -1, &err) ||
        model_config_read(&b->model, b->opt->model_dir, &err) ||
        model_weights_load(&b->weights, b->loader, &b->model, b->opt->model_dir, NULL, &err)) {
        die(b->opt->model_dir, err.text);
    }
    const int longest = b->model.max_position < MAX_TOKENS ? b->model.max_position : MAX_TOKENS;
    b->plan = (struct device_plan){.cfg = &b->cfg,
                                   .model = &b->model,
                                   .weights = &b->weights,
                                   .loader = b->loader,
                                   .batch = {.max_jobs = MAX_SEQS, .max_rows = MAX_TOKENS},
                                   .max_seq_len = longest,
                                   .measure = true};
    const int64_t start_ns = time_now_ns();
    if (device_open(&b->device, &b->plan, 0, split, &err) ||
        sweep_cost(&b->start, &from, &b->device, &b->plan, split, tuning, &err)) {
        die("device", err.text);
    }
    b->probe = probe_create(&b->plan);
    tuning_close(tuning);
    fprintf(stderr,
            "%s (%s), device and sweep in %.0f ms: %.0f us + %.1f us * rows + %.4f us * pairs\n",
            b->device.be->name, b->device.be->detail,
            (double)(time_now_ns() - start_ns) / NS_PER_MS, b->start.coef[0] / 1e3,
            b->start.coef[1] / 1e3, b->start.coef[2] / 1e3);
}
static void close_bench(struct bench *b) {
    probe_destroy(b->probe);
    device_close(&b->device);
    model_weights_finish(&b->weights);
    model_config_finish(&b->model);
    backend_destroy(b->loader);
}

static int random_below(struct bench *b, int64_t n) {
    b->rng ^= b->rng << 13;
    b->rng ^= b->rng >> 7;
    b->rng ^= b->rng << 17;
    return (int)((b->rng >> 11) % (uint64_t)n);
}
static int draw(struct bench *b, const struct lengths *law) {
    int64_t total = 0;
    for (int len = 0; len <= TRACE_MAX_TOKENS; len++) {
        total += law->count[len];
    }
    int64_t at = random_below(b, total);
    int len = 0;
    while (at >= law->count[len]) {
        at -= law->count[len++];
    }
    return len;
}
/* From one text up to a full batch, as load makes them. */
static int draw_batch(struct bench *b, int *lens, const struct lengths *law) {
    const int wanted = 1 + random_below(b, MAX_ROWS);
    int n = 0, rows = 0;
    while (n < MAX_SEQS) {
        const int len = draw(b, law);
        if (n > 0 && rows + len > wanted) {
            break;
        }
        lens[n++] = len;
        rows += len;
    }
    return n;
}
static struct cost_sample run(struct bench *b, const int *lens, int n) {
    struct probe_pass pass;
    struct error err = {.text = ""};
    if (probe_run(b->probe, &b->device, lens, n, &pass, &err)) {
        die("pass", err.text);
    }
    return (struct cost_sample){pass.shape, b->opt->cpu_time ? pass.cpu_ns : pass.ns};
}

static void judge(struct bench *b, struct judged *j, const char *name) {
    static const int fixed[] = {16, 8, 24, 32, 12, 20, 48};
    struct cost_model m = b->start;
    struct lengths law;
    struct error err = {.text = ""};
    if (lengths_named(&law, name, 3, b->plan.max_seq_len, &err)) {
        die("--law", err.text);
    }
    b->rng = b->opt->seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (j->n = 0; j->n < 2 * b->opt->n_batches; j->n++) {
        int lens[MAX_SEQS];
        const int n = draw_batch(b, lens, &law);
        const struct cost_sample s = run(b, lens, n);
        const double predicted = (double)cost_predict_ns(&m, s.shape);
        j->ms[j->n] = (double)s.ns / NS_PER_MS;
        j->error[j->n] = fabs(predicted / (double)s.ns - 1);
        j->fixed_ms[j->n] = (double)run(b, fixed, (int)N_ITEMS(fixed)).ns / NS_PER_MS;
        cost_update(&m, &s);
    }
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double quantile(const double *values, int n, double q) {
    static double sorted[2 * MAX_BATCHES];
    memcpy(sorted, values, (size_t)n * sizeof(*values));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
    return sorted[(int)(q * (n - 1))];
}
static double spread(const double *values, int n) {
    static double off[2 * MAX_BATCHES];
    const double median = quantile(values, n, 0.5);
    for (int i = 0; i < n; i++) {
        off[i] = fabs(median / values[i] - 1);
    }
    return quantile(off, n, 0.5);
}
static void report(const struct bench *b, const struct judged *j, const char *law) {
    const int n = b->opt->n_batches;
    const double *error = j->error + n, *fixed = j->fixed_ms + n;
    const double median = quantile(error, n, 0.5), same = spread(fixed, n);
    printf(b->opt->csv ? "%s,%d,%.3f,%.4f,%.4f,%.4f,%.4f,%.4f\n"
                       : "%10s  %7d  %9.3f  %10.4f  %10.4f  %9.4f  %9.4f  %9.4f\n",
           law, n, quantile(j->ms + n, n, 0.5), quantile(j->error, n, 0.5), median,
           quantile(error, n, 0.9), same, median - same);
}

int main(int argc, char **argv) {
    static struct options opt;
    static struct bench b;
    static struct judged judged;
    parse_options(&opt, argc, argv);
    log_set_level(LOG_OFF);
    b.opt = &opt;
    open_bench(&b);
    puts(opt.csv ? "law,batches,median_ms,error_learning,error,error_p90,fixed_spread,beyond_spread"
                 : "       law  batches  median ms  e learning     e after      e p90     spread  "
                   "   beyond");
    for (int i = 0; i < opt.n_laws; i++) {
        judge(&b, &judged, opt.laws[i]);
        report(&b, &judged, opt.laws[i]);
        fflush(stdout);
    }
    close_bench(&b);
    return 0;
}
