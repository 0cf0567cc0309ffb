/* padding_files.c - the experiment for programs: JSON whole, CSV a line for each way and load. */
#include "bench/experiment/padding.h"

#include <math.h>

static void put_gains(FILE *out, const struct padding *p) {
    const struct way *bad = &p->ways[p->bad], *cure = &p->ways[p->cure];
    fputs("  \"gain\": {\"throughput\": ", out);
    json_number(out, padding_gain(cure, bad));
    for (int load = LOAD_EQUAL; load < N_PADDING_LOADS; load++) {
        const struct figures a = padding_figures(p, p->bad, (enum padding_load)load);
        const struct figures b = padding_figures(p, p->cure, (enum padding_load)load);
        fprintf(out, ", \"p99_%s\": ", padding_load_names[load]);
        json_number(out, a.is_there && b.is_there ? a.p99_ms / b.p99_ms : NAN);
    }
    fputs("},\n", out);
}
static void put_fusion(FILE *out, const struct padding *p) {
    const struct fusion_shares f = padding_fusion(p);
    if (!f.is_there) {
        return;
    }
    fprintf(out,
            "  \"fusion\": {\"total\": %.4g, \"packing_first\": %.4g, \"fusion_last\": %.4g, "
            "\"fusion_first\": %.4g, \"packing_last\": %.4g, \"share_last\": %.4g, "
            "\"share_first\": %.4g},\n",
            f.total, f.batching_first, f.fusion_last, f.fusion_first, f.batching_last, f.share_last,
            f.share_first);
}
static void put_way(FILE *out, const struct padding *p, int i) {
    const struct way *w = &p->ways[i];
    fputs("    {\"name\": ", out);
    json_text(out, w->name);
    fprintf(out, ", \"mode\": \"%s\", \"fusion\": \"%s\", \"failed\": ", w->mode,
            w->is_fused ? "on" : "off");
    if (w->has_failed) {
        json_text(out, w->reason);
    } else {
        fputs("null", out);
    }
    fprintf(out, ",\n     \"cpu_s\": %.3f, \"max_rss_mib\": %.1f",
            (double)(w->child.usage.ru_utime.tv_sec + w->child.usage.ru_stime.tv_sec) +
                (double)(w->child.usage.ru_utime.tv_usec + w->child.usage.ru_stime.tv_usec) / 1e6,
            (double)w->child.usage.ru_maxrss / 1024);
    for (int load = 0; load < N_PADDING_LOADS; load++) {
        const struct figures f = padding_figures(p, i, (enum padding_load)load);
        fprintf(out, ",\n     \"%s\": ", padding_load_names[load]);
        if (f.is_there) {
            figures_json(out, &f);
        } else {
            fputs("null", out);
        }
    }
    fputc('}', out);
}
void padding_json(FILE *out, const void *padding) {
    const struct padding *p = padding;
    const struct bench_config *c = p->runner.cfg;
    fputs("{\n  \"experiment\": \"padding\",\n  \"model\": ", out);
    json_text(out, c->model);
    fputs(",\n  \"lengths\": ", out);
    json_text(out, c->texts ? c->texts : c->lengths ? c->lengths : "mixed");
    fprintf(out,
            ",\n  \"started\": \"%s\", \"version\": \"%s\", \"seed\": %lld, \"cores\": %d, "
            "\"connections\": %d, \"seconds\": %.1f, \"time_limit_s\": %.1f, \"partial\": %s,\n  "
            "\"cut\": ",
            p->started, BERTH_VERSION, (long long)c->seed, p->runner.n_cores, c->connections,
            p->took_s, p->runner.limit_s,
            p->runner.is_partial || p->runner.is_interrupted ? "true" : "false");
    json_text(out, runner_cut(&p->runner));
    fputs(", \"bad\": ", out);
    json_text(out, p->ways[p->bad].name);
    fputs(", \"cure\": ", out);
    json_text(out, p->ways[p->cure].name);
    fputs(",\n", out);
    put_gains(out, p);
    put_fusion(out, p);
    fputs("  \"ways\": [\n", out);
    for (int i = 0; i < p->n_ways; i++) {
        put_way(out, p, i);
        fputs(i + 1 < p->n_ways ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
}
void padding_csv(FILE *out, const void *padding) {
    const struct padding *p = padding;
    fprintf(out, "mode,fusion,load,%s\n", figures_csv_header);
    for (int i = 0; i < p->n_ways; i++) {
        for (int load = 0; load < N_PADDING_LOADS; load++) {
            const struct figures f = padding_figures(p, i, (enum padding_load)load);
            if (f.is_there) {
                fprintf(out, "%s,%s,%s,", p->ways[i].mode, p->ways[i].is_fused ? "on" : "off",
                        padding_load_names[load]);
                figures_csv(out, &f);
                fputc('\n', out);
            }
        }
    }
}
