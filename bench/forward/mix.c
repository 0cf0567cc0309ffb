/* mix.c - sequences of many lengths, packed in the order they stand in. */
#include "bench/forward/engine.h"

#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_lengths(int *lens, const char *path) {
    FILE *f = fopen(path, "r");
    char line[64];
    int n = 0;
    if (!f) {
        die(path, "cannot be opened");
    }
    while (n < MAX_LENGTHS && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\r\n")] = 0;
        lens[n++] = parse_number(line, path, 1 << 20);
    }
    fclose(f);
    if (!n) {
        die(path, "holds no lengths");
    }
    return n;
}

struct sums {
    double ms, gflop;
    int64_t tokens, op_ns[N_OP_KINDS];
    int batches, seqs;
};
static void add_pass(struct sums *sums, const struct engine *g, const int *lens, int n_seqs) {
    struct worker *w = &g->workers[0];
    sums->ms += engine_pass(g, w, g->ids, lens, n_seqs);
    const struct flops f = flops_of(g, lens, n_seqs);
    sums->gflop += (f.gemm + f.attention) / 1e9;
    sums->tokens += w->cu_seqlens[n_seqs];
    sums->batches++;
    sums->seqs += n_seqs;
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        sums->op_ns[kind] += w->times.ns[kind];
    }
}

static void print_shares(const struct sums *sums) {
    int64_t total = 0;
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        total += sums->op_ns[kind];
    }
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        printf("%s %.1f %%%s", op_kind_names[kind],
               100.0 * (double)sums->op_ns[kind] / (double)total,
               kind + 1 < N_OP_KINDS ? ", " : "\n");
    }
}

void bench_mix(const struct options *o) {
    int *lens = xcalloc(MAX_LENGTHS, sizeof(*lens));
    const int n = read_lengths(lens, o->lengths_file);
    struct encoder_limits limits = {o->rows, o->rows, 1, 0};
    struct engine g;
    struct sums sums = {0};
    for (int i = 0; i < n; i++) {
        limits.max_seq_len = lens[i] > limits.max_seq_len ? lens[i] : limits.max_seq_len;
    }
    limits.max_rows = o->rows > limits.max_seq_len ? o->rows : limits.max_seq_len;
    engine_open(&g, o, &limits);
    engine_pass(&g, &g.workers[0], g.ids, lens, engine_count_fitting(&g, lens, n, o->rows));
    for (int at = 0; sums.ms < o->seconds * 1e3;) {
        const int count = engine_count_fitting(&g, lens + at, n - at, o->rows);
        add_pass(&sums, &g, lens + at, count);
        at = at + count < n ? at + count : 0;
    }
    if (o->csv) {
        puts("rows,threads,batches,sequences,tokens,seconds,sequences_per_s,tokens_per_s,gflops");
    }
    printf(o->csv ? "%d,%d,%d,%d,%lld,%.3f,%.2f,%.1f,%.2f\n"
                  : "rows %d, threads %d: %d batches, %d sequences, %lld tokens in %.2f s: "
                    "%.1f sequences/s, %.0f tokens/s, %.1f GFLOP/s\n",
           o->rows, o->threads, sums.batches, sums.seqs, (long long)sums.tokens, sums.ms / 1e3,
           sums.seqs / sums.ms * 1e3, (double)sums.tokens / sums.ms * 1e3,
           sums.gflop / sums.ms * 1e3);
    if (!o->csv) {
        print_shares(&sums);
    }
    engine_close(&g);
    free(lens);
}
