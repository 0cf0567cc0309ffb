/* bench.c - the kernels' speed: GFLOP/s and GB/s of each ISA beside the reference, and what part
 * they are of the core's multiply-add peak and of its copy speed, both measured next to each
 * figure, since a shared machine drifts; then whole passes.
 * A figure is the median of the runs that fit in BUDGET_NS (at least 5). The reference is run once
 * for each op: it is there to say what plain C costs. One lane, but for the passes. */
#include "tests/kernels/check.h"
#include "tests/kernels/net.h"
#include "base/timing.h"
#include "bench/common/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 2000, N_WEIGHTS = 6 };
static const int64_t budget_ns = 150 * NS_PER_MS;
static const int min_runs = 5;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
struct timing {
    double median_ns, min_ns;
};
typedef void timed_fn(void *arg);
static struct timing time_runs(timed_fn *fn, void *arg, bool once) {
    static double ns[MAX_RUNS];
    int n = 0;
    const int64_t begin = time_now_ns();
    do {
        const int64_t t = time_now_ns();
        fn(arg);
        ns[n++] = (double)(time_now_ns() - t);
    } while (!once && n < MAX_RUNS && (n < min_runs || time_now_ns() - begin < budget_ns));
    qsort(ns, (size_t)n, sizeof(*ns), by_value);
    return (struct timing){ns[n / 2], ns[0]};
}

/* What bounds an op, measured now; the reference stands beside no bound. */
struct bound {
    const char *unit, *name;
    double rate;
};
static struct bound bound_by_peak(const char *isa) {
    return (struct bound){"GFLOP/s", "multiply-add peak", isa ? machine_peak_gflops(isa, 1) : 0};
}
static struct bound bound_by_copy(const char *isa) {
    return (struct bound){"GB/s", "memory copy", isa ? machine_copy_gbs() : 0};
}
static bool is_emulated(const char *isa) {
    return !strcmp(isa, "wide") || !strcmp(isa, "tiles");
}
static void bench_machine(void) {
    for (const char *const *isa = check_isas(); *isa && !is_emulated(*isa); isa++) {
        printf("peak %-8s multiply-add %6.1f GFLOP/s a core, %6.1f on two at once\n", *isa,
               machine_peak_gflops(*isa, 1), machine_peak_gflops(*isa, 2));
    }
    printf("copy %.1f GB/s read and written\n", machine_copy_gbs());
}

/* One op on one backend: the weights are walked round, so that they are as cold as in a pass. */
struct op_run {
    struct backend *be;
    const struct token_batch *b;
    program_fn *program;
    struct tensor y, x;
    struct linear_weight *w[N_WEIGHTS];
    struct embedding_weights embedding;
    int n_heads, turn;
};
static void linear_program(struct lane *ln, const void *arg) {
    const struct op_run *r = arg;
    ln->be->fn->linear(ln, &r->y, &r->x, r->w[r->turn], ACT_NONE, NULL);
}
static void attention_program(struct lane *ln, const void *arg) {
    const struct op_run *r = arg;
    ln->be->fn->attention(ln, &r->y, &r->x, r->n_heads);
}
static void norm_program(struct lane *ln, const void *arg) {
    const struct op_run *r = arg;
    ln->be->fn->layernorm(ln, &r->y, &r->x, r->embedding.norm);
}
static void embed_program(struct lane *ln, const void *arg) {
    const struct op_run *r = arg;
    ln->be->fn->embed_layernorm(ln, &r->y, &r->embedding);
}
static void run_op(void *arg) {
    struct op_run *r = arg;
    check_run(r->be, r->b, r->program, r);
    r->turn = (r->turn + 1) % N_WEIGHTS;
}
static void print_op(const char *name, struct op_run *r, double amount, struct bound bound) {
    const bool once = !strcmp(r->be->name, "reference");
    const struct timing t = time_runs(run_op, r, once);
    printf("%-28s %-18.18s %9.2f %-7s (best %.2f)", name, r->be->detail, amount / t.median_ns,
           bound.unit, amount / t.min_ns);
    if (bound.rate > 0) {
        printf("  %5.1f %% of the %s, %.1f", 100 * amount / t.median_ns / bound.rate, bound.name,
               bound.rate);
    }
    putchar('\n');
}
static void fill(struct tensor *t) {
    for (int64_t i = 0; i < (int64_t)t->rows * t->cols; i++) {
        ((float *)t->data)[i] = check_normal();
    }
}
static void make_tensors(struct op_run *r, int rows, int x_cols, int y_cols) {
    struct error err;
    assert_int_equal(r->be->fn->tensor_create(r->be, &r->x, AXIS_TOKENS, rows, x_cols, false, &err),
                     0);
    assert_int_equal(r->be->fn->tensor_create(r->be, &r->y, AXIS_TOKENS, rows, y_cols, false, &err),
                     0);
    fill(&r->x);
}
static void free_tensors(struct op_run *r) {
    r->be->fn->tensor_destroy(r->be, &r->x);
    r->be->fn->tensor_destroy(r->be, &r->y);
}

static void bench_linear(struct backend *be, const char *isa, int m, int n, int k) {
    char name[64];
    struct batch b = check_batch_of(&m, 1, 0);
    struct op_run r = {.be = be, .b = &b.b, .program = linear_program};
    struct linear_part part = {check_host(n, k, 1, DTYPE_F32), {0}, 1, false, false};
    struct error err;
    for (int i = 0; i < N_WEIGHTS; i++) {
        assert_int_equal(be->fn->linear_create(be, &r.w[i], &part, 1, &err), STATUS_OK);
    }
    make_tensors(&r, m, k, n);
    snprintf(name, sizeof(name), "linear %dx%dx%d", m, n, k);
    print_op(name, &r, 2.0 * m * n * k, bound_by_peak(isa));
    for (int i = 0; i < N_WEIGHTS; i++) {
        be->fn->linear_destroy(be, r.w[i]);
    }
    free_tensors(&r), check_host_free(&part.weight), check_batch_free(&b);
}
static void bench_attention(struct backend *be, const char *isa, int n_seqs, int len, int n_heads,
                            int head_dim) {
    char name[64];
    int lens[32];
    for (int i = 0; i < n_seqs; i++) {
        lens[i] = len;
    }
    struct batch b = check_batch_of(lens, n_seqs, 0);
    struct op_run r = {.be = be, .b = &b.b, .program = attention_program, .n_heads = n_heads};
    make_tensors(&r, n_seqs * len, 3 * n_heads * head_dim, n_heads * head_dim);
    snprintf(name, sizeof(name), "attention %dx%d, %d x %d", n_seqs, len, n_heads, head_dim);
    print_op(name, &r, 4.0 * n_seqs * len * len * n_heads * head_dim, bound_by_peak(isa));
    free_tensors(&r), check_batch_free(&b);
}
/* 256 rows stay in cache and can beat a copy through memory; ROWS_MANY do not. */
enum { ROWS_FEW = 256, ROWS_MANY = 16384, LONGEST = 512 };
static void bench_rows(struct backend *be, const char *isa, const struct net_weights *w, int rows,
                       int hidden) {
    char name[64];
    int lens[ROWS_MANY / LONGEST], n_seqs = 0;
    for (int left = rows; left > 0; left -= LONGEST) {
        lens[n_seqs++] = left < LONGEST ? left : LONGEST;
    }
    struct batch b = check_batch_of(lens, n_seqs, 0);
    struct op_run r = {.be = be, .b = &b.b, .program = norm_program, .embedding = w->embedding};
    make_tensors(&r, rows, hidden, hidden);
    snprintf(name, sizeof(name), "layernorm %dx%d", rows, hidden);
    print_op(name, &r, 8.0 * rows * hidden, bound_by_copy(isa));
    r.program = embed_program;
    snprintf(name, sizeof(name), "embed_layernorm %dx%d", rows, hidden);
    print_op(name, &r, 16.0 * rows * hidden, bound_by_copy(isa)); // three rows read, one written
    free_tensors(&r), check_batch_free(&b);
}

static const struct net_shape minilm = {.n_heads = 12,
                                        .head_dim = 32,
                                        .intermediate = 1536,
                                        .n_layers = 6,
                                        .n_labels = 2,
                                        .activation = ACT_GELU};
/* isa NULL: the reference, which is shown the small model's products alone. */
static void bench_ops(struct backend *be, const char *isa, const struct net_host *h) {
    static const int nk[][2] = {{1152, 384}, {384, 384}, {1536, 384}, {384, 1536},
                                {2304, 768}, {768, 768}, {3072, 768}, {768, 3072}};
    static const int ms[] = {16, 64, 256};
    const struct pass_limits limits = {ROWS_MANY, ROWS_MANY / LONGEST, LONGEST, 768, 3072, 12, 1};
    const size_t n_products = isa ? N_ITEMS(nk) : N_ITEMS(nk) / 2;
    struct error err;
    struct net_weights w;
    net_weights_make(&w, be, h);
    assert_int_equal(be->fn->reserve(be, &limits, &err), STATUS_OK);
    for (size_t i = 0; i < n_products; i++) {
        for (size_t j = 0; j < N_ITEMS(ms); j++) {
            bench_linear(be, isa, ms[j], nk[i][0], nk[i][1]);
        }
    }
    for (int head_dim = 32; head_dim <= 64; head_dim *= 2) {
        bench_attention(be, isa, 16, 16, 12, head_dim);
        bench_attention(be, isa, 4, 128, 12, head_dim);
        bench_attention(be, isa, 1, 512, 12, head_dim);
    }
    bench_rows(be, isa, &w, ROWS_FEW, 384);
    bench_rows(be, isa, &w, ROWS_MANY, 384);
    net_weights_finish(&w, be, h->shape.n_layers);
}

/* Multiply-adds of a pass over all tokens in every layer. */
static double pass_flops(const struct token_batch *b, const struct net_host *h) {
    const double hidden = h->hidden, inter = h->shape.intermediate;
    double flops = 0;
    for (int s = 0; s < b->n_seqs; s++) {
        const double len = b->seq_lens[s];
        flops += 2 * len * (4 * hidden * hidden + 2 * hidden * inter) + 4 * len * len * hidden;
    }
    return flops * h->shape.n_layers;
}
struct pass_run {
    struct net *net;
    const struct token_batch *b;
    struct net_pass pass;
    struct op_times times;
};
static void run_pass(void *arg) {
    struct pass_run *r = arg;
    struct error err;
    enum status s;
    r->net->be->fn->batch_begin(r->net->be, 0, r->b);
    r->net->be->fn->batch_submit(r->net->be, 0, net_program, &r->pass);
    r->net->be->fn->batch_end(r->net->be, 0, true, &s, &r->times, &err);
}
static void bench_pass(struct net *n, const char *name, const struct token_batch *b) {
    float *out = xcalloc((size_t)b->n_rows * (size_t)n->host->hidden, sizeof(*out));
    struct pass_run r = {.net = n, .b = b, .pass = {.net = n, .hidden = out}};
    run_pass(&r); // warm
    const struct timing whole = time_runs(run_pass, &r, false);
    r.pass = (struct net_pass){.net = n, .logits = out};
    const struct timing first = time_runs(run_pass, &r, false);
    double total = 0;
    for (int i = 0; i < N_OP_KINDS; i++) {
        total += (double)r.times.ns[i];
    }
    printf("pass %-10s %-16s all tokens %7.2f ms (best %.2f), %5.1f GFLOP/s; classified %7.2f ms;",
           name, n->be->detail, whole.median_ns / 1e6, whole.min_ns / 1e6,
           pass_flops(b, n->host) / whole.median_ns, first.median_ns / 1e6);
    for (int i = 0; i < N_OP_KINDS; i++) {
        printf(" %s %.1f%%", op_kind_names[i], 100 * (double)r.times.ns[i] / total);
    }
    printf("\n");
    fflush(stdout);
    free(out);
}
static void bench_passes(struct backend *be, const struct net_host *h) {
    static const int shapes[][2] = {{1, 16}, {1, 128}, {8, 128}, {32, 32}};
    static const int mixed[] = {24, 12, 60, 17, 31, 9, 40, 25, 14, 24}; // 256 rows
    struct net_weights w;
    struct net n;
    int lens[32];
    char name[32];
    net_weights_make(&w, be, h);
    net_init(&n, be, h, &w, 1024, 32, 512);
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        for (int s = 0; s < shapes[i][0]; s++) {
            lens[s] = shapes[i][1];
        }
        struct batch b = check_batch_of(lens, shapes[i][0], 0);
        snprintf(name, sizeof(name), "%dx%d", shapes[i][0], shapes[i][1]);
        bench_pass(&n, name, &b.b);
        check_batch_free(&b);
    }
    struct batch b = check_batch_of(mixed, (int)N_ITEMS(mixed), 0);
    bench_pass(&n, "mixed 256", &b.b);
    check_batch_free(&b);
    net_finish(&n);
    net_weights_finish(&w, be, h->shape.n_layers);
}

static void bench_kind(const char *isa, enum precision precision, const struct net_host *h,
                       bool with_reference) {
    struct pair p = check_pair_in(isa, 1, precision), two = check_pair_in(isa, 2, precision);
    printf("%s, products in %s\n", isa, dtype_name(p.dev->dtype));
    if (with_reference) {
        bench_ops(p.ref, NULL, h);
    }
    bench_ops(p.dev, precision == PRECISION_FLOAT32 ? isa : NULL, h); // the peak is of fp32
    bench_passes(p.dev, h);
    bench_passes(two.dev, h);
    check_pair_finish(&p), check_pair_finish(&two);
}

int bench(void) {
    struct net_host h;
    net_host_init(&h, &minilm);
    bench_machine();
    for (const char *const *isa = check_isas(); *isa && !is_emulated(*isa); isa++) {
        bench_kind(*isa, PRECISION_FLOAT32, &h, isa == check_isas());
    }
    for (const struct kind *k = check_kinds(); k->isa && !is_emulated(k->isa); k++) {
        bench_kind(k->isa, k->precision, &h, false);
    }
    net_host_finish(&h);
    return 0;
}
