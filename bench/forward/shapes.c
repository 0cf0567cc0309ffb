/* shapes.c - a grid of batch x length. The shapes take turns, round by round, so that a slow phase
 * of the machine falls on all of them alike, and the multiply-add peak is measured before each
 * pass. Figures are medians over the rounds, also each kind of op's own time; shares are of the
 * sum of those. */
#include "base/timing.h"
#include "bench/common/machine.h"
#include "bench/common/timed.h"
#include "bench/forward/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 2000, MIN_ROUNDS = 3 };
struct shape { // sequences of a pass, and how long passes took
    char name[32];
    int *lens;
    int n_seqs;
    double *ms, *peak, *op_ms[N_OP_KINDS]; // [MAX_ROUNDS]
    struct flops flops;
};
struct figures {
    double ms, min_ms, op_ms[N_OP_KINDS], sum_ms, peak; // peak: GFLOP/s
};

static void init_shape(struct shape *s, int batch, int len) {
    snprintf(s->name, sizeof(s->name), "%dx%d", batch, len);
    s->n_seqs = batch;
    s->lens = xcalloc((size_t)batch, sizeof(*s->lens));
    for (int i = 0; i < batch; i++) {
        s->lens[i] = len;
    }
    s->ms = xcalloc(MAX_ROUNDS, sizeof(double));
    s->peak = xcalloc(MAX_ROUNDS, sizeof(double));
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        s->op_ms[kind] = xcalloc(MAX_ROUNDS, sizeof(double));
    }
}
static void finish_shape(struct shape *s) {
    free(s->lens);
    free(s->ms);
    free(s->peak);
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        free(s->op_ms[kind]);
    }
}

static void run_shape(const struct engine *g, struct shape *s, int round) {
    s->ms[round] = engine_pass(g, &g->workers[0], g->ids, s->lens, s->n_seqs);
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        s->op_ms[kind][round] = (double)g->workers[0].times.ns[kind] / NS_PER_MS;
    }
}

static int run_rounds(const struct engine *g, const struct options *o, struct shape *shapes) {
    const char *isa = peak_isa(o);
    const int64_t end = time_now_ns() + (int64_t)(o->seconds * o->n_shapes * NS_PER_S);
    int n = 0;
    for (int i = 0; i < o->n_shapes; i++) {
        run_shape(g, &shapes[i], 0); // first touch; overwritten
    }
    for (; n < MAX_ROUNDS && (n < MIN_ROUNDS || time_now_ns() < end); n++) {
        for (int i = 0; i < o->n_shapes; i++) {
            shapes[i].peak[n] = machine_peak_gflops(isa, o->threads);
            run_shape(g, &shapes[i], n);
        }
    }
    return n;
}

static struct figures figures_of(struct shape *s, int n_rounds) {
    struct figures f = {.ms = median_of(s->ms, n_rounds), .peak = median_of(s->peak, n_rounds)};
    f.min_ms = s->ms[0]; // sorted by now
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        f.op_ms[kind] = median_of(s->op_ms[kind], n_rounds);
        f.sum_ms += f.op_ms[kind];
    }
    return f;
}
static double gemm_gflops(const struct shape *s, const struct figures *f) {
    return s->flops.gemm / f->op_ms[OP_GEMM] / 1e6;
}
static double rest_percent(const struct figures *f) {
    return 100 * (1 - f->op_ms[OP_GEMM] / f->sum_ms);
}

static void print_csv(const struct engine *g, const struct options *o, const struct shape *s,
                      const struct figures *f, int n_rounds) {
    const double flops = s->flops.gemm + s->flops.attention;
    printf("%s,%s,%d,%d,%.4f,%.4f,%.2f,%.2f,%.2f,%.2f,%.2f,%.4f", s->name,
           g->all_rows ? "all" : "first", o->threads, n_rounds, f->ms, f->min_ms,
           flops / f->ms / 1e6, s->n_seqs / f->ms * 1e3, f->peak, gemm_gflops(s, f),
           rest_percent(f), (f->sum_ms - f->op_ms[OP_GEMM]) / g->cfg.n_layers);
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        printf(",%.4f", f->op_ms[kind]);
    }
    putchar('\n');
}
static void print_csv_header(void) {
    printf("shape,rows,threads,rounds,median_ms,min_ms,gflops,sequences_per_s,peak_gflops,"
           "gemm_gflops,rest_percent,rest_ms_per_layer");
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        printf(",%s_ms", op_kind_names[kind]);
    }
    putchar('\n');
}

static void print_header(void) {
    printf("   shape  median ms     min ms  GFLOP/s  sequences/s   GEMM: GFLOP/s  %% of peak   the "
           "rest: %%  us a layer   shares, %%:");
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        printf(" %s", op_kind_names[kind]);
    }
    putchar('\n');
}
static void print_line(const struct engine *g, const struct shape *s, const struct figures *f) {
    const double flops = s->flops.gemm + s->flops.attention;
    printf("%8s %10.3f %10.3f %8.1f %12.1f %15.1f %10.1f %13.1f %11.1f             ", s->name,
           f->ms, f->min_ms, flops / f->ms / 1e6, s->n_seqs / f->ms * 1e3, gemm_gflops(s, f),
           100 * gemm_gflops(s, f) / f->peak, rest_percent(f),
           1e3 * (f->sum_ms - f->op_ms[OP_GEMM]) / g->cfg.n_layers);
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        printf(" %.1f", 100 * f->op_ms[kind] / f->sum_ms);
    }
    putchar('\n');
}

/* The two sums that a whole grid is judged by. */
static void print_summary(const struct options *o, const struct shape *shapes,
                          const struct figures *f) {
    double percent[MAX_SHAPES], peaks[MAX_SHAPES], least = 1e9;
    const char *least_name = "";
    for (int i = 0; i < o->n_shapes; i++) {
        peaks[i] = f[i].peak;
        percent[i] = 100 * gemm_gflops(&shapes[i], &f[i]) / f[i].peak;
        if (percent[i] < least) {
            least = percent[i], least_name = shapes[i].name;
        }
    }
    printf("multiply-add peak of this run: %.1f GFLOP/s on %d threads; GEMM in situ: %.1f %% of it "
           "(median of %d shapes), %.1f %% at the least (%s)\n",
           median_of(peaks, o->n_shapes), o->threads, median_of(percent, o->n_shapes), o->n_shapes,
           least, least_name);
    printf("everything but GEMM, of a pass:");
    for (int i = 0; i < o->n_shapes; i++) {
        if (!o->grid || !strcmp(shapes[i].name, "32x128") || !strcmp(shapes[i].name, "8x512")) {
            printf(" %.1f %% at %s;", rest_percent(&f[i]), shapes[i].name);
        }
    }
    putchar('\n');
}

void bench_shapes(const struct options *o) {
    struct encoder_limits limits = {1, 1, 1, 0};
    struct engine g;
    struct shape shapes[MAX_SHAPES];
    struct figures f[MAX_SHAPES];
    for (int i = 0; i < o->n_shapes; i++) {
        const int batch = o->shapes[i].batch, len = o->shapes[i].len;
        init_shape(&shapes[i], batch, len);
        limits.max_seqs = batch > limits.max_seqs ? batch : limits.max_seqs;
        limits.max_seq_len = len > limits.max_seq_len ? len : limits.max_seq_len;
        limits.max_rows = batch * len > limits.max_rows ? batch * len : limits.max_rows;
    }
    engine_open(&g, o, &limits);
    const int n_rounds = run_rounds(&g, o, shapes);
    o->csv ? print_csv_header() : print_header();
    for (int i = 0; i < o->n_shapes; i++) {
        shapes[i].flops = flops_of(&g, shapes[i].lens, shapes[i].n_seqs);
        f[i] = figures_of(&shapes[i], n_rounds);
        o->csv ? print_csv(&g, o, &shapes[i], &f[i], n_rounds) : print_line(&g, &shapes[i], &f[i]);
    }
    if (!o->csv) {
        printf("%s, %d rounds; ", g.all_rows ? "every row of every layer" : "the classifier's rows",
               n_rounds);
        print_summary(o, shapes, f);
    }
    for (int i = 0; i < o->n_shapes; i++) {
        finish_shape(&shapes[i]);
    }
    engine_close(&g);
}
