/* padding_text.c - the experiment for a reader: the bad case, the cure, then every way beside each
 * other, and what fusion has to do with it. */
#include "bench/experiment/padding.h"

#include <math.h>
#include <string.h>

static void print_case(FILE *out, const struct padding *p, const char *what, int way) {
    const struct figures c = padding_figures(p, way, LOAD_CLOSED);
    const struct figures e = padding_figures(p, way, LOAD_EQUAL);
    fprintf(out, "%s: %s\n", what, p->ways[way].name);
    if (!c.is_there) {
        fputs("  not measured\n", out);
        return;
    }
    fprintf(out,
            "  %.1f requests/s and %.0f tokens/s in a closed loop of %d\n"
            "  %.1f %% of the computed rows are padding\n"
            "  %.1f %% of the forward passes' time is attention and softmax\n"
            "  %.0f %% of %d cores used, %.1f ms of CPU a request\n",
            c.throughput, c.tokens_per_s, p->runner.cfg->connections, 100 * c.padding,
            100 * c.attention, 100 * c.cpu, p->runner.n_cores, c.cpu_ms);
    if (e.is_there) {
        fprintf(out, "  at %.1f/s: p50 %.1f ms, p99 %.1f ms\n", e.offered, e.p50_ms, e.p99_ms);
    }
}
static void print_overload(FILE *out, const char *name, const struct figures *f) {
    if (!f->is_there) {
        return;
    }
    fprintf(out,
            "  %s: %s: %.1f of %.1f requests/s answered in time over %.0f s, %lld timeouts;\n"
            "    mean latency %.0f ms in the first third, %.0f in the last; p99 %.1f ms\n",
            name, f->is_steady ? "steady" : "no steady state", f->throughput, f->offered,
            f->seconds, (long long)f->n_timeouts, f->early_ms, f->late_ms, f->p99_ms);
}
static void print_comparison(FILE *out, const struct padding *p) {
    const struct way *bad = &p->ways[p->bad], *cure = &p->ways[p->cure];
    const struct figures e[] = {padding_figures(p, p->bad, LOAD_EQUAL),
                                padding_figures(p, p->cure, LOAD_EQUAL)};
    const struct figures o[] = {padding_figures(p, p->bad, LOAD_OVERLOAD),
                                padding_figures(p, p->cure, LOAD_OVERLOAD)};
    fprintf(out, "what it gains\n  throughput      x %.2f\n", padding_gain(cure, bad));
    if (e[0].is_there && e[1].is_there) {
        fprintf(out, "  p99 at %.1f/s    1 / %.2f\n", e[0].offered, e[0].p99_ms / e[1].p99_ms);
    }
    if (o[0].is_there && o[1].is_there) {
        fprintf(out, "  p99 at %.1f/s    1 / %.2f\n", o[0].offered, o[0].p99_ms / o[1].p99_ms);
        fprintf(out, "at %.2f times what %s can do in a closed loop\n", p->runner.cfg->overload,
                bad->name);
        print_overload(out, bad->name, &o[0]);
        print_overload(out, cure->name, &o[1]);
    }
}
static void print_ms(FILE *out, const struct figures *f) {
    if (f->is_there) {
        fprintf(out, " %10.1f", f->p99_ms);
    } else {
        fprintf(out, " %10s", "-");
    }
}
static void print_table(FILE *out, const struct padding *p) {
    fprintf(out, "\n%-22s %9s %8s %7s %8s %9s %5s %10s %10s\n", "way", "requests/s", "to bad",
            "padding", "attention", "CPU ms/rq", "CPU", "p99 equal", "p99 over");
    for (int i = 0; i < p->n_ways; i++) {
        const struct figures c = padding_figures(p, i, LOAD_CLOSED);
        const struct figures e = padding_figures(p, i, LOAD_EQUAL);
        const struct figures o = padding_figures(p, i, LOAD_OVERLOAD);
        fprintf(out, "%-22s ", p->ways[i].name);
        if (!c.is_there) {
            fputs("not measured\n", out);
            continue;
        }
        fprintf(out, "%10.1f %8.2f %7.3f %8.1f%% %9.1f %4.0f%%", c.throughput,
                padding_gain(&p->ways[i], &p->ways[p->bad]), c.padding, 100 * c.attention, c.cpu_ms,
                100 * c.cpu);
        print_ms(out, &e);
        print_ms(out, &o);
        fprintf(out, "%s\n", o.is_there && !o.is_steady ? " no steady state" : "");
    }
}

static void print_failures(FILE *out, const struct padding *p) {
    if (runner_cut(&p->runner)) {
        fprintf(out, "\nPARTIAL: %s; what was measured before stands\n", runner_cut(&p->runner));
    }
    for (int i = 0; i < p->n_ways; i++) {
        if (p->ways[i].has_failed) {
            fprintf(out, "\nPARTIAL: %s: %s\n", p->ways[i].name, p->ways[i].reason);
        }
    }
}
struct fusion_shares padding_fusion(const struct padding *p) {
    const struct way *naive = padding_find(p, "padded", false);
    const struct way *packed = padding_find(p, "packed", false);
    const struct way *fused = padding_find(p, "padded", true),
                     *both = padding_find(p, "packed", true);
    struct fusion_shares f = {.total = padding_gain(both, naive),
                              .batching_first = padding_gain(packed, naive),
                              .fusion_last = padding_gain(both, packed),
                              .fusion_first = padding_gain(fused, naive),
                              .batching_last = padding_gain(both, fused)};
    f.is_there =
        isfinite(f.total) && isfinite(f.fusion_last) && isfinite(f.fusion_first) && f.total > 1;
    f.share_last = log(f.fusion_last) / log(f.total);
    f.share_first = log(f.fusion_first) / log(f.total);
    return f;
}
static void print_fusion(FILE *out, const struct padding *p) {
    const struct fusion_shares f = padding_fusion(p);
    if (!f.is_there) {
        return;
    }
    fprintf(out,
            "\nwhat fusion has to do with it (throughput, from padded with fusion off to packed)\n"
            "  all of it                x %.2f\n"
            "  packing, then fusion     x %.2f, x %.2f: fusion is %.0f %% of the gain (of its "
            "logarithm)\n"
            "  fusion, then packing     x %.2f, x %.2f: fusion is %.0f %% of the gain\n",
            f.total, f.batching_first, f.fusion_last, 100 * f.share_last, f.fusion_first,
            f.batching_last, 100 * f.share_first);
}
void padding_text(FILE *out, const void *padding) {
    const struct padding *p = padding;
    const struct bench_config *c = p->runner.cfg;
    fprintf(out, "experiment  padding, %s, lengths %s, seed %lld, %d cores, %.0f s in all\n\n",
            c->model,
            c->texts     ? c->texts
            : c->lengths ? c->lengths
                         : "mixed",
            (long long)c->seed, p->runner.n_cores, p->took_s);
    print_case(out, p, "the bad case", p->bad);
    print_case(out, p, "the cure", p->cure);
    print_comparison(out, p);
    print_table(out, p);
    print_fusion(out, p);
    print_failures(out, p);
}
