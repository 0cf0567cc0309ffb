/* forward.c - times encoder_forward: a grid of batch x length, or a mix of lengths, packed.
 * The shapes take turns, round by round, so that a slow phase of the machine falls on all of them
 * alike; median and minimum are over the rounds. Operations are counted as they are computed: of
 * the last layer, one row a sequence after QKV. */
#include "base/timing.h"
#include "kernels/kernels.h"
#include "model/encoder.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 64, MAX_ROUNDS = 10000, MAX_LENGTHS = 100000 };

struct options {
    const char *model_dir, *backend, *isa, *lengths_file;
    enum precision precision;
    int threads, rows;
    double seconds;
    bool csv;
    int n_shapes;
    struct {
        int batch, len;
    } shapes[MAX_SHAPES];
};
struct engine {
    struct backend *be;
    struct model_config cfg;
    struct model_weights w;
    struct encoder *e;
    int32_t *ids, *zeros, *cu_seqlens, *seq_lens; // the batch that is being timed
    float *logits;
    int64_t op_ns[N_OP_KINDS]; // of all passes
};
struct work { // sequences of a pass, and how long passes took
    const int *lens;
    int n_seqs;
    double *ms;
    int n_ms;
};

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench_forward: %s: %s\n", what, why);
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

static void add_shape(struct options *o, const char *text) {
    char batch[16];
    const char *x = strchr(text, 'x');
    if (!x || x - text >= (int)sizeof(batch) || o->n_shapes == MAX_SHAPES) {
        die("--shape", "BATCHxLENGTH is expected, such as 8x128, 64 times at most");
    }
    memcpy(batch, text, (size_t)(x - text));
    batch[x - text] = 0;
    o->shapes[o->n_shapes].batch = number(batch, "--shape", 4096);
    o->shapes[o->n_shapes++].len = number(x + 1, "--shape", 1 << 20);
}

static const char usage[] =
    "usage: bench_forward MODEL_DIR [options]\n"
    "  --backend NAME    cpu (default) or reference\n"
    "  --threads N       lanes of a pass (1)\n"
    "  --isa NAME        baseline, avx2, ...; default: the best of this CPU\n"
    "  --precision NAME  float32 (default), bfloat16, int8\n"
    "  --shape BxL       B sequences of L tokens; may be repeated (1x16 1x128 8x128 32x32)\n"
    "  --lengths FILE    a token length a line: packed in this order instead of shapes\n"
    "  --rows R          rows of a packed batch (256)\n"
    "  --seconds S       time for each shape, or for the mix (1)\n"
    "  --csv             comma-separated values\n";

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
                                          {"precision", required_argument, 0, 'p'},
                                          {"help", no_argument, 0, 'h'},
                                          {0}};
    *o = (struct options){.backend = "cpu", .threads = 1, .rows = 256, .seconds = 1};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) >= 0;) {
        switch (c) {
        case 'b': o->backend = optarg; break;
        case 't': o->threads = number(optarg, "--threads", 1024); break;
        case 'i': o->isa = optarg; break;
        case 's': add_shape(o, optarg); break;
        case 'p': o->precision = precision_of(optarg); break;
        case 'l': o->lengths_file = optarg; break;
        case 'r': o->rows = number(optarg, "--rows", 1 << 20); break;
        case 'S': o->seconds = strtod(optarg, NULL); break;
        case 'c': o->csv = true; break;
        default: fputs(usage, c == 'h' ? stdout : stderr); exit(c == 'h' ? 0 : 2);
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    o->model_dir = argv[optind];
    if (!o->n_shapes) {
        add_shape(o, "1x16");
        add_shape(o, "1x128");
        add_shape(o, "8x128");
        add_shape(o, "32x32");
    }
}

static void open_engine(struct engine *g, const struct options *o,
                        const struct encoder_limits *limits) {
    struct error err;
    struct load_times t;
    const struct cpu_options cpu = {
        .n_lanes = o->threads, .first_core = -1, .isa = o->isa, .precision = o->precision};
    const int64_t start = time_now_ns();
    if (strcmp(o->backend, "reference") ? cpu_backend_create(&g->be, &cpu, &err)
                                        : reference_backend_create(&g->be, &err)) {
        die(o->backend, err.text);
    }
    if (model_config_read(&g->cfg, o->model_dir, &err) ||
        model_weights_load(&g->w, g->be, &g->cfg, o->model_dir, &t, &err) ||
        encoder_create(&g->e, g->be, &g->cfg, &g->w, limits, &err)) {
        die("model", err.text);
    }
    fprintf(stderr, "%s (%s, %s), map %.1f ms, check %.1f ms, convert %.1f ms, ready in %.1f ms\n",
            g->be->name, g->be->detail, dtype_name(g->be->dtype), t.map_ms, t.check_ms,
            t.convert_ms, (double)(time_now_ns() - start) / NS_PER_MS);
    g->ids = xcalloc((size_t)limits->max_rows, sizeof(*g->ids));
    g->zeros = xcalloc((size_t)limits->max_rows, sizeof(*g->zeros));
    g->cu_seqlens = xcalloc((size_t)limits->max_seqs + 1, sizeof(*g->cu_seqlens));
    g->seq_lens = xcalloc((size_t)limits->max_seqs, sizeof(*g->seq_lens));
    g->logits = xcalloc((size_t)limits->max_seqs * (size_t)g->cfg.n_labels, sizeof(*g->logits));
    uint32_t x = 1;
    for (int i = 0; i < limits->max_rows; i++) {
        x = x * 1664525u + 1013904223u;
        g->ids[i] = (int32_t)((x >> 8) % (uint32_t)g->cfg.vocab_size);
    }
}

static void close_engine(struct engine *g) {
    encoder_destroy(g->e);
    model_weights_finish(&g->w);
    model_config_finish(&g->cfg);
    backend_destroy(g->be);
    free(g->ids);
    free(g->zeros);
    free(g->cu_seqlens);
    free(g->seq_lens);
    free(g->logits);
}

/* One pass over packed sequences of these lengths, in milliseconds. */
static double run_pass(struct engine *g, const int *lens, int n_seqs) {
    int longest = 0;
    for (int s = 0; s < n_seqs; s++) {
        g->seq_lens[s] = lens[s];
        g->cu_seqlens[s + 1] = g->cu_seqlens[s] + lens[s];
        longest = lens[s] > longest ? lens[s] : longest;
    }
    const struct token_batch b = {
        g->ids, g->zeros, g->cu_seqlens, g->seq_lens, n_seqs, g->cu_seqlens[n_seqs], longest};
    struct error err;
    struct op_times times;
    const int64_t start = time_now_ns();
    if (encoder_forward(g->e, g->logits, &b, &times, &err)) {
        die("encoder_forward", err.text);
    }
    const int64_t end = time_now_ns();
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        g->op_ns[kind] += times.ns[kind];
    }
    return (double)(end - start) / NS_PER_MS;
}

static double gflop_of(const struct model_config *c, const int *lens, int n_seqs) {
    const double h = c->hidden, i = c->intermediate, last = c->n_layers - 1;
    double total = 0;
    for (int s = 0; s < n_seqs; s++) {
        const double n = lens[s];
        total += last * (n * (8 * h * h + 4 * h * i) + 4 * n * n * h); // whole layers
        total += n * 6 * h * h + 4 * n * h + 2 * h * h + 4 * h * i;    // the last, one row
        total += 2 * h * h + 2 * h * c->n_labels;
    }
    return total / 1e9;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median_of(double *v, int n) {
    qsort(v, (size_t)n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void bench_shapes(const struct options *o) {
    struct encoder_limits limits = {1, 1, 1};
    struct engine g = {0};
    struct work work[MAX_SHAPES];
    for (int i = 0; i < o->n_shapes; i++) {
        const int batch = o->shapes[i].batch, len = o->shapes[i].len;
        int *lens = xcalloc((size_t)batch, sizeof(*lens));
        for (int s = 0; s < batch; s++) {
            lens[s] = len;
        }
        work[i] = (struct work){lens, batch, xcalloc(MAX_ROUNDS, sizeof(double)), 0};
        limits.max_seqs = batch > limits.max_seqs ? batch : limits.max_seqs;
        limits.max_seq_len = len > limits.max_seq_len ? len : limits.max_seq_len;
        limits.max_rows = batch * len > limits.max_rows ? batch * len : limits.max_rows;
    }
    open_engine(&g, o, &limits);
    for (int i = 0; i < o->n_shapes; i++) {
        run_pass(&g, work[i].lens, work[i].n_seqs); // first touch
    }
    const int64_t end = time_now_ns() + (int64_t)(o->seconds * o->n_shapes * NS_PER_S);
    for (int round = 0; round < MAX_ROUNDS && (!round || time_now_ns() < end); round++) {
        for (int i = 0; i < o->n_shapes; i++) {
            work[i].ms[work[i].n_ms++] = run_pass(&g, work[i].lens, work[i].n_seqs);
        }
    }
    puts(o->csv ? "shape,threads,median_ms,min_ms,gflops,sequences_per_s,rounds"
                : "   shape  median ms     min ms  GFLOP/s  sequences/s  rounds");
    for (int i = 0; i < o->n_shapes; i++) {
        struct work *w = &work[i];
        char shape[32];
        snprintf(shape, sizeof(shape), "%dx%d", o->shapes[i].batch, o->shapes[i].len);
        const double ms = median_of(w->ms, w->n_ms), gflop = gflop_of(&g.cfg, w->lens, w->n_seqs);
        if (o->csv) {
            printf("%s,%d,%.4f,%.4f,%.2f,%.2f,%d\n", shape, o->threads, ms, w->ms[0],
                   gflop / ms * 1e3, w->n_seqs / ms * 1e3, w->n_ms);
        } else {
            printf("%8s %10.3f %10.3f %8.1f %12.1f %7d\n", shape, ms, w->ms[0], gflop / ms * 1e3,
                   w->n_seqs / ms * 1e3, w->n_ms);
        }
        free((void *)w->lens);
        free(w->ms);
    }
    close_engine(&g);
}

static int read_lengths(int *lens, const char *path) {
    FILE *f = fopen(path, "r");
    char line[64];
    int n = 0;
    if (!f) {
        die(path, "cannot be opened");
    }
    while (n < MAX_LENGTHS && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\r\n")] = 0;
        lens[n++] = number(line, path, 1 << 20);
    }
    fclose(f);
    if (!n) {
        die(path, "holds no lengths");
    }
    return n;
}

/* How many of the sequences fit one batch; at least one, whatever its length. */
static int count_fitting(const int *lens, int n, int max_rows) {
    int taken = 1;
    for (int rows = lens[0]; taken < n && rows + lens[taken] <= max_rows; taken++) {
        rows += lens[taken];
    }
    return taken;
}

static void print_shares(const struct options *o, const struct engine *g) {
    int64_t total = 0;
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        total += g->op_ns[kind];
    }
    for (int kind = 0; kind < N_OP_KINDS && !o->csv; kind++) {
        printf("%s %.1f %%%s", op_kind_names[kind], 100.0 * (double)g->op_ns[kind] / (double)total,
               kind + 1 < N_OP_KINDS ? ", " : "\n");
    }
}

static void bench_mix(const struct options *o) {
    int *lens = xcalloc(MAX_LENGTHS, sizeof(*lens));
    const int n = read_lengths(lens, o->lengths_file);
    struct encoder_limits limits = {o->rows, o->rows, 1};
    struct engine g = {0};
    for (int i = 0; i < n; i++) {
        limits.max_seq_len = lens[i] > limits.max_seq_len ? lens[i] : limits.max_seq_len;
    }
    limits.max_rows = o->rows > limits.max_seq_len ? o->rows : limits.max_seq_len;
    open_engine(&g, o, &limits);
    double ms = 0, gflop = 0;
    int64_t tokens = 0;
    int batches = 0, seqs = 0, at = 0;
    run_pass(&g, lens, count_fitting(lens, n, o->rows));
    while (ms < o->seconds * 1e3) {
        const int count = count_fitting(lens + at, n - at, o->rows);
        ms += run_pass(&g, lens + at, count);
        gflop += gflop_of(&g.cfg, lens + at, count);
        tokens += g.cu_seqlens[count];
        batches++;
        seqs += count;
        at = at + count < n ? at + count : 0;
    }
    if (o->csv) {
        puts("rows,threads,batches,sequences,tokens,seconds,sequences_per_s,tokens_per_s,gflops");
    }
    printf(o->csv ? "%d,%d,%d,%d,%lld,%.3f,%.2f,%.1f,%.2f\n"
                  : "rows %d, threads %d: %d batches, %d sequences, %lld tokens in %.2f s: "
                    "%.1f sequences/s, %.0f tokens/s, %.1f GFLOP/s\n",
           o->rows, o->threads, batches, seqs, (long long)tokens, ms / 1e3, seqs / ms * 1e3,
           (double)tokens / ms * 1e3, gflop / ms * 1e3);
    print_shares(o, &g);
    close_engine(&g);
    free(lens);
}

int main(int argc, char **argv) {
    struct options o;
    parse_options(&o, argc, argv);
    if (o.lengths_file) {
        bench_mix(&o);
    } else {
        bench_shapes(&o);
    }
    return 0;
}
