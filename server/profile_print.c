/* profile_print.c - a profile as a table or as JSON. Rates are of an op's own time: its mean over
 * the lanes, so that they stand beside what all lanes together can do. */
#include "server/profile.h"

#include "base/timing.h"
#include "server/line_output.h"

enum { ALL = -1, BYTES_A_LINE = 512 };

struct op_figures profile_sum(const struct op_profile *p, int layer, int step) {
    struct op_figures sum = {0};
    const int layer0 = layer == ALL ? 0 : layer, layer1 = layer == ALL ? p->n_layers : layer;
    const int step0 = step == ALL ? 0 : step, step1 = step == ALL ? N_OP_STEPS - 1 : step;
    for (int l = layer0; l <= layer1; l++) {
        for (int s = step0; s <= step1; s++) {
            const struct op_figures *f = op_profile_at(p, l, (enum op_step)s);
            sum.calls += f->calls, sum.rows += f->rows, sum.ns += f->ns;
            sum.flops += f->flops, sum.bytes += f->bytes;
        }
    }
    return sum;
}
static double per_ns(double n, int64_t ns) {
    return ns > 0 ? n / (double)ns : 0;
}

static void print_head(FILE *out, const struct profile_report *r) {
    const double passes = (double)r->profile.n_passes;
    fprintf(out, "model  %s, %s\ndevice %s (%s), %d thread%s\n", r->model_dir, r->dtype, r->backend,
            r->detail, r->n_threads, r->n_threads == 1 ? "" : "s");
    fprintf(out, "batch  %d sequence%s, %d tokens, the longest %d\n", r->request->n_seqs,
            r->request->n_seqs == 1 ? "" : "s", r->request->n_tokens, r->request->longest);
    fprintf(out, "passes %.0f, %.3f ms each\n", passes, (double)r->pass_ns / passes / NS_PER_MS);
    if (r->peak_gflops > 0) {
        fprintf(out,
                "peak   %.1f GFLOP/s of fp32 multiply-adds on %d thread%s; %.1f GB/s copied by "
                "one\n",
                r->peak_gflops, r->n_threads, r->n_threads == 1 ? "" : "s", r->copy_gbs);
    }
    fprintf(out, "\n%-15s %5s %8s %12s %10s %7s %10s %9s %9s %8s\n", "op", "layer", "calls",
            "total ms", "ms a pass", "%", "rows", "GFLOP/s", "% of peak", "GB/s");
}
static void print_line(FILE *out, const struct profile_report *r, int layer, int step) {
    const struct op_figures f = profile_sum(&r->profile, layer, step);
    const double all_ns = (double)profile_sum(&r->profile, ALL, ALL).ns;
    const double gflops = per_ns(f.flops, f.ns);
    char name[8] = "all";
    if (f.calls == 0 && f.ns == 0) {
        return; // not part of this pass
    }
    if (layer != ALL) {
        snprintf(name, sizeof(name), layer < r->profile.n_layers ? "%d" : "-", layer);
    }
    fprintf(out, "%-15s %5s %8lld %12.3f %10.4f %7.2f %10lld %9.1f ",
            step == ALL ? "all" : op_step_names[step], name, (long long)f.calls,
            (double)f.ns / NS_PER_MS, (double)f.ns / NS_PER_MS / (double)r->profile.n_passes,
            all_ns > 0 ? 100 * (double)f.ns / all_ns : 0, (long long)f.rows, gflops);
    if (r->peak_gflops > 0) {
        fprintf(out, "%9.1f ", 100 * gflops / r->peak_gflops);
    } else {
        fprintf(out, "%9s ", "-");
    }
    fprintf(out, "%8.1f\n", per_ns(f.bytes, f.ns));
}
void profile_print_table(FILE *out, const struct profile_report *r) {
    const enum profile_by by = r->request->by;
    const int n_layers = r->profile.n_layers;
    print_head(out, r);
    for (int layer = 0; layer <= n_layers && by != PROFILE_BY_OP; layer++) {
        for (int step = 0; step < N_OP_STEPS && by == PROFILE_BY_BOTH; step++) {
            print_line(out, r, layer, step);
        }
        if (by == PROFILE_BY_LAYER) {
            print_line(out, r, layer, ALL);
        }
    }
    for (int step = 0; step < N_OP_STEPS && by == PROFILE_BY_OP; step++) {
        print_line(out, r, ALL, step);
    }
    print_line(out, r, ALL, ALL);
}

static void write_op(struct json_writer *w, const struct op_figures *f, int layer, int n_layers,
                     int step) {
    json_write_raw(w, "{");
    json_field_text(w, "op", op_step_names[step]);
    if (layer < n_layers) {
        json_field_int(w, "layer", layer);
    } else {
        json_field_raw(w, "layer", "null");
    }
    json_field_int(w, "calls", f->calls);
    json_field_int(w, "rows", f->rows);
    json_field_number(w, "ms", (double)f->ns / NS_PER_MS);
    json_field_int(w, "flops", (int64_t)f->flops);
    json_field_int(w, "bytes", (int64_t)f->bytes);
    json_write_raw(w, "}");
}
static void write_ops(struct json_writer *w, const struct op_profile *p) {
    bool first = true;
    json_field(w, "ops");
    json_write_raw(w, "[");
    for (int layer = 0; layer <= p->n_layers; layer++) {
        for (int step = 0; step < N_OP_STEPS; step++) {
            const struct op_figures *f = op_profile_at(p, layer, (enum op_step)step);
            if (f->calls > 0 || f->ns > 0) {
                json_write_raw(w, first ? "" : ",");
                write_op(w, f, layer, p->n_layers, step);
                first = false;
            }
        }
    }
    json_write_raw(w, "]");
}
static void write_report(struct json_writer *w, const struct profile_report *r) {
    json_write_raw(w, "{");
    json_field_text(w, "model_dir", r->model_dir);
    json_field_text(w, "backend", r->backend);
    json_field_text(w, "detail", r->detail);
    json_field_text(w, "dtype", r->dtype);
    json_field_int(w, "threads", r->n_threads);
    json_field_int(w, "layers", r->profile.n_layers);
    json_field_int(w, "sequences", r->request->n_seqs);
    json_field_int(w, "tokens", r->request->n_tokens);
    json_field_int(w, "passes", r->profile.n_passes);
    json_field_number(w, "ms", (double)r->pass_ns / NS_PER_MS);
    json_field_number(w, "peak_gflops", r->peak_gflops);
    json_field_number(w, "copy_gbs", r->copy_gbs);
    write_ops(w, &r->profile);
    json_write_raw(w, "}\n");
}
enum status profile_print_json(const struct profile_report *r, struct error *err) {
    struct arena arena = {0};
    const size_t lines = ((size_t)r->profile.n_layers + 2) * N_OP_STEPS;
    enum status s = arena_init(&arena, lines * BYTES_A_LINE + 16384, err);
    if (!s) {
        struct json_writer w;
        json_writer_init(&w, &arena);
        write_report(&w, r);
        s = line_put(&w, err);
        s = s ? s : line_flush(err);
    }
    arena_finish(&arena);
    return s;
}
