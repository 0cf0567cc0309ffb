/* engine.c - opens a model as the server does: the first worker's backend makes the weights, the
 * others borrow them. Operations are counted as they are computed: of a classifier's last layer,
 * one row a sequence after QKV. */
#include "bench/forward/engine.h"

#include "base/timing.h"
#include "kernels/cpu/isa.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *what, const char *why) {
    fprintf(stderr, "bench_forward: %s: %s\n", what, why);
    exit(1);
}
int parse_number(const char *text, const char *what, int max) {
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || n < 1 || n > max) {
        die(what, "a number is expected, from 1 on");
    }
    return (int)n;
}

const char *peak_isa(const struct options *o) {
    const struct cpu_level *level = NULL;
    struct error err;
    if (cpu_level_find(&level, o->isa ? o->isa : getenv("BERTH_CPU_ISA"), &err)) {
        die("--isa", err.text);
    }
    return level->isa->name;
}

static struct backend *open_backend(const struct options *o) {
    struct backend *be = NULL;
    struct error err;
    const struct cpu_options cpu = {
        .n_lanes = o->threads, .first_core = -1, .isa = o->isa, .precision = o->precision};
    if (strcmp(o->backend, "reference") ? cpu_backend_create(&be, &cpu, &err)
                                        : reference_backend_create(&be, &err)) {
        die(o->backend, err.text);
    }
    return be;
}

static void open_worker(struct engine *g, struct worker *w) {
    struct error err;
    const struct encoder_limits *l = &g->limits;
    const size_t hidden = (size_t)l->max_rows * (size_t)g->cfg.hidden;
    const size_t logits = (size_t)l->max_seqs * (size_t)g->cfg.n_labels;
    if (encoder_create(&w->e, w->be, &g->cfg, &g->w, l, &err)) {
        die("model", err.text);
    }
    w->cu_seqlens = xcalloc((size_t)l->max_seqs + 1, sizeof(*w->cu_seqlens));
    w->seq_lens = xcalloc((size_t)l->max_seqs, sizeof(*w->seq_lens));
    w->out = xcalloc(g->all_rows || hidden > logits ? hidden : logits, sizeof(*w->out));
}

void engine_open(struct engine *g, const struct options *o, const struct encoder_limits *limits) {
    struct error err;
    struct load_times t;
    const int64_t start = time_now_ns();
    *g = (struct engine){.limits = *limits, .n_workers = o->workers, .all_rows = o->all_rows};
    g->workers = xcalloc((size_t)o->workers, sizeof(*g->workers));
    for (int i = 0; i < o->workers; i++) {
        g->workers[i].be = open_backend(o);
    }
    if (model_config_read(&g->cfg, o->model_dir, &err) ||
        model_weights_load(&g->w, g->workers[0].be, &g->cfg, o->model_dir, &t, &err)) {
        die("model", err.text);
    }
    if (!g->limits.max_seq_len) {
        g->limits.max_seq_len = g->cfg.max_position;
    }
    for (int i = 0; i < o->workers; i++) {
        open_worker(g, &g->workers[i]);
    }
    g->ids = xcalloc((size_t)limits->max_rows, sizeof(*g->ids));
    g->zeros = xcalloc((size_t)limits->max_rows, sizeof(*g->zeros));
    uint32_t x = 1;
    for (int i = 0; i < limits->max_rows; i++) {
        x = x * 1664525u + 1013904223u;
        g->ids[i] = (int32_t)((x >> 8) % (uint32_t)g->cfg.vocab_size);
    }
    fprintf(stderr, "%s (%s), map %.1f ms, check %.1f ms, convert %.1f ms, ready in %.1f ms\n",
            g->workers[0].be->name, g->workers[0].be->detail, t.map_ms, t.check_ms, t.convert_ms,
            (double)(time_now_ns() - start) / NS_PER_MS);
}

void engine_close(struct engine *g) {
    for (int i = 0; i < g->n_workers; i++) {
        encoder_destroy(g->workers[i].e);
        free(g->workers[i].cu_seqlens);
        free(g->workers[i].seq_lens);
        free(g->workers[i].out);
    }
    model_weights_finish(&g->w);
    model_config_finish(&g->cfg);
    for (int i = 0; i < g->n_workers; i++) {
        backend_destroy(g->workers[i].be);
    }
    free(g->workers);
    free(g->ids);
    free(g->zeros);
}

double engine_pass(const struct engine *g, struct worker *w, const int32_t *ids, const int *lens,
                   int n_seqs) {
    int longest = 0;
    for (int s = 0; s < n_seqs; s++) {
        w->seq_lens[s] = lens[s];
        w->cu_seqlens[s + 1] = w->cu_seqlens[s] + lens[s];
        longest = lens[s] > longest ? lens[s] : longest;
    }
    const struct token_batch b = {
        ids, g->zeros, w->cu_seqlens, w->seq_lens, n_seqs, w->cu_seqlens[n_seqs], longest};
    struct error err;
    const int64_t start = time_now_ns();
    if (g->all_rows ? encoder_hidden(w->e, w->out, &b, &w->times, &err)
                    : encoder_forward(w->e, w->out, &b, &w->times, &err)) {
        die("the forward pass", err.text);
    }
    return (double)(time_now_ns() - start) / NS_PER_MS;
}

int engine_out_floats(const struct engine *g, const int *lens, int n_seqs) {
    int rows = 0;
    for (int s = 0; s < n_seqs; s++) {
        rows += lens[s];
    }
    return g->all_rows ? rows * g->cfg.hidden : n_seqs * g->cfg.n_labels;
}

int engine_count_fitting(const struct engine *g, const int *lens, int n, int max_rows) {
    int taken = 1;
    for (int rows = lens[0];
         taken < n && taken < g->limits.max_seqs && rows + lens[taken] <= max_rows; taken++) {
        rows += lens[taken];
    }
    return taken;
}

struct flops flops_of(const struct engine *g, const int *lens, int n_seqs) {
    const double h = g->cfg.hidden, i = g->cfg.intermediate;
    const double whole = g->cfg.n_layers - !g->all_rows; // layers that compute every row
    struct flops f = {0, 0};
    for (int s = 0; s < n_seqs; s++) {
        const double n = lens[s];
        f.gemm += whole * n * (8 * h * h + 4 * h * i);
        f.attention += whole * 4 * n * n * h;
        if (!g->all_rows) {
            f.gemm += n * 6 * h * h + 2 * h * h + 4 * h * i;
            f.attention += 4 * n * h;
        }
    }
    return f;
}
