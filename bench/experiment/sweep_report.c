/* sweep_report.c - the curves as text, JSON, CSV and a page with one chart. */
#include "bench/experiment/sweep.h"

#include <math.h>

#include "bench/client/svg.h"

static void print_curve(FILE *out, const struct sweep *w, int way) {
    const struct sweep_curve *c = &w->curves[way];
    fprintf(out, "\n%s\n%10s %10s %9s %9s %9s %5s %8s\n", w->ways[way].name, "offered/s",
            "answered/s", "mean ms", "p50 ms", "p99 ms", "CPU", "CPU ms");
    if (w->ways[way].has_failed) {
        fprintf(out, "PARTIAL: %s\n", w->ways[way].reason);
    }
    for (int i = 0; i < c->n; i++) {
        const struct figures *f = &c->points[i].f;
        fprintf(out, "%10.1f %10.1f %9.2f %9.2f %9.2f %4.0f%% %8.2f%s%s%s\n", f->offered,
                f->throughput, f->mean_ms, f->p50_ms, f->p99_ms, 100 * f->cpu, f->cpu_ms,
                c->points[i].holds ? "  holds" : "", i == c->knee ? "  knee" : "",
                f->is_steady ? "" : "  no steady state");
    }
}
static void print_choice(FILE *out, const struct sweep *w, const char *line_end) {
    const char *goal = w->has_goal ? w->goal.text : "a steady state";
    if (w->cheapest < 0) {
        fprintf(out, "no budget holds %s at any rate tried%s\n", goal, line_end);
        return;
    }
    const struct sweep_curve *c = &w->curves[w->cheapest];
    const struct figures *f = &c->points[c->best].f;
    const struct way *way = &w->ways[w->cheapest];
    fprintf(out,
            "%s at least cost: batching.max_batch_tokens %d, batching.max_batch_ms %g: up to "
            "%.1f/s, %.2f core-seconds for 1,000 requests (%.2f of them busy), p99 %.2f ms%s\n",
            goal, way->max_tokens, way->max_ms, f->offered, c->cost_s, f->cpu_ms, f->p99_ms,
            line_end);
}
void sweep_text(FILE *out, const void *sweep) {
    const struct sweep *w = sweep;
    fprintf(out, "sweep  %s, %d cores, seed %lld, %.0f s in all\n", w->runner.cfg->model,
            w->runner.n_cores, (long long)w->runner.cfg->seed, w->took_s);
    for (int i = 0; i < w->n_ways; i++) {
        print_curve(out, w, i);
    }
    fputc('\n', out);
    print_choice(out, w, "");
    if (runner_cut(&w->runner)) {
        fprintf(out, "PARTIAL: %s; what was measured before stands\n", runner_cut(&w->runner));
    }
}

static void put_curve(FILE *out, const struct sweep *w, int way) {
    const struct sweep_curve *c = &w->curves[way];
    fprintf(out, "    {\"max_batch_tokens\": %d, \"max_batch_ms\": %g, \"failed\": ",
            w->ways[way].max_tokens, w->ways[way].max_ms);
    if (w->ways[way].has_failed) {
        json_text(out, w->ways[way].reason);
    } else {
        fputs("null", out);
    }
    fprintf(out, ", \"held_rate\": ");
    json_number(out, c->best >= 0 ? c->points[c->best].f.offered : NAN);
    fprintf(out, ", \"knee_rate\": ");
    json_number(out, c->knee >= 0 ? c->points[c->knee].f.offered : NAN);
    fprintf(out, ", \"core_seconds_per_1000\": ");
    json_number(out, c->cost_s);
    fputs(", \"points\": [", out);
    for (int i = 0; i < c->n; i++) {
        fprintf(out, "%s\n      {\"holds\": %s, \"figures\": ", i ? "," : "",
                c->points[i].holds ? "true" : "false");
        figures_json(out, &c->points[i].f);
        fputc('}', out);
    }
    fputs("]}", out);
}
void sweep_json(FILE *out, const void *sweep) {
    const struct sweep *w = sweep;
    fputs("{\n  \"experiment\": \"sweep\",\n  \"model\": ", out);
    json_text(out, w->runner.cfg->model);
    fputs(", \"goal\": ", out);
    if (w->has_goal) {
        json_text(out, w->goal.text);
    } else {
        fputs("null", out);
    }
    fprintf(out,
            ",\n  \"started\": \"%s\", \"version\": \"%s\", \"seed\": %lld, \"cores\": %d, "
            "\"seconds\": %.1f, \"time_limit_s\": %.1f, \"partial\": %s, \"cut\": ",
            w->started, BERTH_VERSION, (long long)w->runner.cfg->seed, w->runner.n_cores, w->took_s,
            w->runner.limit_s, w->runner.is_partial || w->runner.is_interrupted ? "true" : "false");
    json_text(out, runner_cut(&w->runner));
    fputs(",\n  \"cheapest\": ", out);
    if (w->cheapest >= 0) {
        fprintf(out, "{\"max_batch_tokens\": %d, \"max_batch_ms\": %g}",
                w->ways[w->cheapest].max_tokens, w->ways[w->cheapest].max_ms);
    } else {
        fputs("null", out);
    }
    fputs(",\n  \"curves\": [\n", out);
    for (int i = 0; i < w->n_ways; i++) {
        put_curve(out, w, i);
        fputs(i + 1 < w->n_ways ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
}
void sweep_csv(FILE *out, const void *sweep) {
    const struct sweep *w = sweep;
    fprintf(out, "max_batch_tokens,max_batch_ms,holds,knee,%s\n", figures_csv_header);
    for (int i = 0; i < w->n_ways; i++) {
        const struct sweep_curve *c = &w->curves[i];
        for (int k = 0; k < c->n; k++) {
            fprintf(out, "%d,%g,%d,%d,", w->ways[i].max_tokens, w->ways[i].max_ms,
                    c->points[k].holds, k == c->knee);
            figures_csv(out, &c->points[k].f);
            fputc('\n', out);
        }
    }
}

static struct chart chart_of(const struct sweep *w) {
    struct chart c = {.title = "Latency against throughput; circles are knees",
                      .x_label = "requests a second answered",
                      .y_label = "p99, ms",
                      .y_low = 1e9,
                      .y_is_log = true};
    for (int i = 0; i < w->n_ways; i++) {
        for (int k = 0; k < w->curves[i].n; k++) {
            const struct figures *f = &w->curves[i].points[k].f;
            c.x_high = fmax(c.x_high, f->throughput);
            c.y_low = fmin(c.y_low, f->p99_ms);
            c.y_high = fmax(c.y_high, f->p99_ms);
        }
    }
    c.x_high = svg_round_up(c.x_high);
    c.y_low = fmax(0.01, c.y_low * 0.9), c.y_high *= 1.1;
    return c;
}
static void draw_curves(FILE *out, const struct sweep *w) {
    const struct chart c = chart_of(w);
    if (c.y_high <= c.y_low) {
        return;
    }
    svg_begin(out, &c);
    for (int i = 0; i < w->n_ways; i++) {
        const struct sweep_curve *curve = &w->curves[i];
        struct point points[SWEEP_POINTS];
        for (int k = 0; k < curve->n; k++) {
            points[k] = (struct point){curve->points[k].f.throughput, curve->points[k].f.p99_ms};
        }
        svg_line(out, &c, points, curve->n, i, w->ways[i].name);
        if (curve->knee >= 0) {
            svg_mark(out, &c, points[curve->knee], i, w->ways[i].name);
        }
    }
    svg_end(out);
}
static void put_rows(FILE *out, const struct sweep *w, int way) {
    const struct sweep_curve *c = &w->curves[way];
    for (int i = 0; i < c->n; i++) {
        const struct figures *f = &c->points[i].f;
        fprintf(out,
                "<tr><td>%s</td><td>%.1f</td><td>%.1f</td><td>%.2f</td><td>%.2f</td><td>%.0f "
                "%%</td><td>%.2f</td><td>%s%s%s</td></tr>\n",
                w->ways[way].name, f->offered, f->throughput, f->mean_ms, f->p99_ms, 100 * f->cpu,
                f->cpu_ms, c->points[i].holds ? "holds " : "", i == c->knee ? "<b>knee</b> " : "",
                f->is_steady ? "" : "no steady state");
    }
}
void sweep_html(FILE *out, const void *sweep) {
    const struct sweep *w = sweep;
    const char *title = w->runner.cfg->title;
    html_begin(out, title ? title : "Latency against throughput", report_css);
    fputs("<p>", out);
    html_escape(out, w->runner.cfg->model);
    fprintf(out, ", %s, berth %s, %d cores</p>\n", w->started, BERTH_VERSION, w->runner.n_cores);
    fprintf(out, "<p class=\"%s\">", w->cheapest >= 0 ? "good" : "bad");
    print_choice(out, w, "</p>");
    if (w->runner.is_partial || w->runner.is_interrupted) {
        fprintf(out, "<p class=\"bad\">Partial: %s.</p>\n",
                runner_cut(&w->runner) ? runner_cut(&w->runner) : "a server was lost");
    }
    draw_curves(out, w);
    fputs("<table><tr><th>budget</th><th>offered/s</th><th>answered/s</th><th>mean ms</th>"
          "<th>p99 ms</th><th>CPU used</th><th>CPU ms a request</th><th></th></tr>\n",
          out);
    for (int i = 0; i < w->n_ways; i++) {
        put_rows(out, w, i);
    }
    fputs("</table>\n</body></html>\n", out);
}
