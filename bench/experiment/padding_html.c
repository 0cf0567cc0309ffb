/* padding_html.c - the experiment for a browser, in the order of its argument: the bad case, what
 * becomes of it at a higher rate, the cure, all ways beside each other. */
#include "bench/experiment/padding.h"

#include <math.h>

#include "bench/client/svg.h"

enum { CURVE_POINTS = 200, COMPARED = 4 };

static void put_case(FILE *out, const struct padding *p, int way, bool is_bad) {
    const struct figures c = padding_figures(p, way, LOAD_CLOSED);
    const struct figures e = padding_figures(p, way, LOAD_EQUAL);
    const struct figures o = padding_figures(p, way, LOAD_OVERLOAD);
    fprintf(out, "<h2>%s: ", is_bad ? "The bad case" : "The cure");
    html_escape(out, p->ways[way].name);
    fprintf(out, "</h2>\n<p class=\"%s\">", is_bad ? "bad" : "good");
    if (!c.is_there) {
        fputs("Not measured.</p>\n", out);
        return;
    }
    fprintf(out,
            "%.1f requests a second in a closed loop of %d. %.1f&nbsp;%% of the computed rows are "
            "padding; attention and softmax take %.1f&nbsp;%% of the forward passes' time; "
            "%.0f&nbsp;%% of %d cores are used.",
            c.throughput, p->runner.cfg->connections, 100 * c.padding, 100 * c.attention,
            100 * c.cpu, p->runner.n_cores);
    if (e.is_there) {
        fprintf(out, "<br>At %.1f a second: p99 %.1f ms.", e.offered, e.p99_ms);
    }
    if (o.is_there) {
        fprintf(out,
                "<br>At %.1f a second for %.0f s: %s; %.1f a second answered in time, %lld "
                "timeouts, mean latency %.0f ms in the first third and %.0f in the last; p99 "
                "%.1f ms.",
                o.offered, o.seconds, o.is_steady ? "steady" : "<b>no steady state</b>",
                o.throughput, (long long)o.n_timeouts, o.early_ms, o.late_ms, o.p99_ms);
    }
    fputs("</p>\n", out);
}
static void put_gain(FILE *out, const struct padding *p) {
    const struct fusion_shares f = padding_fusion(p);
    fprintf(out, "<p>Throughput: <b>%.2f times</b>.",
            padding_gain(&p->ways[p->cure], &p->ways[p->bad]));
    for (int load = LOAD_EQUAL; load < N_PADDING_LOADS; load++) {
        const struct figures a = padding_figures(p, p->bad, (enum padding_load)load);
        const struct figures b = padding_figures(p, p->cure, (enum padding_load)load);
        if (a.is_there && b.is_there) {
            fprintf(out, " p99 at %.1f a second: <b>1/%.2f</b>.", a.offered, a.p99_ms / b.p99_ms);
        }
    }
    fputs("</p>\n", out);
    if (f.is_there) {
        fprintf(out,
                "<p>From padded with fusion off to packed with it: %.2f times. Packing first "
                "gives %.2f, then fusion %.2f (%.0f&nbsp;%% of the gain, of its logarithm); fusion "
                "first gives %.2f, then packing %.2f (fusion %.0f&nbsp;%%).</p>\n",
                f.total, f.batching_first, f.fusion_last, 100 * f.share_last, f.fusion_first,
                f.batching_last, 100 * f.share_first);
    }
}
static void put_ms(FILE *out, const struct figures *f) {
    if (f->is_there) {
        fprintf(out, "<td>%.1f%s</td>", f->p99_ms,
                f->is_steady ? "" : " <small>no steady state</small>");
    } else {
        fputs("<td></td>", out);
    }
}
static void put_table(FILE *out, const struct padding *p) {
    fputs("<h2>Every way</h2>\n<table><tr><th></th><th>requests/s</th><th>to the bad case</th>"
          "<th>tokens/s</th><th>padding_ratio</th><th>attention and softmax</th>"
          "<th>CPU used</th><th>CPU ms a request</th><th>p99 at equal load</th>"
          "<th>p99 in overload</th></tr>\n",
          out);
    for (int i = 0; i < p->n_ways; i++) {
        const struct figures c = padding_figures(p, i, LOAD_CLOSED);
        const struct figures e = padding_figures(p, i, LOAD_EQUAL);
        const struct figures o = padding_figures(p, i, LOAD_OVERLOAD);
        fputs("<tr><td>", out);
        html_escape(out, p->ways[i].name);
        if (!c.is_there) {
            fputs("</td><td>not measured</td></tr>\n", out);
            continue;
        }
        fprintf(out,
                "</td><td>%.1f</td><td>%.2f</td><td>%.0f</td><td>%.3f</td><td>%.1f %%</td>"
                "<td>%.0f %%</td><td>%.1f</td>",
                c.throughput, padding_gain(&p->ways[i], &p->ways[p->bad]), c.tokens_per_s,
                c.padding, 100 * c.attention, 100 * c.cpu, c.cpu_ms);
        put_ms(out, &e);
        put_ms(out, &o);
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}
static void draw_cdf(FILE *out, const struct padding *p, enum padding_load load,
                     const char *title) {
    struct chart c = {.title = title,
                      .x_label = "ms, from the intended send",
                      .y_label = "share of requests answered within",
                      .x_low = 1e9,
                      .y_high = 1,
                      .x_is_log = true};
    for (int i = 0; i < COMPARED; i++) {
        const struct record *sum = p->ways[i].cells[load].sum;
        if (sum && sum->latency.count) {
            c.x_low = fmin(c.x_low, fmax(0.01, (double)sum->latency.min / 1e6));
            c.x_high = fmax(c.x_high, (double)sum->latency.max / 1e6);
        }
    }
    if (c.x_high <= c.x_low) {
        return;
    }
    svg_begin(out, &c);
    for (int i = 0; i < COMPARED; i++) {
        const struct record *sum = p->ways[i].cells[load].sum;
        struct point points[CURVE_POINTS];
        for (int k = 0; sum && k < CURVE_POINTS; k++) {
            const double q = (double)k / (CURVE_POINTS - 1);
            points[k] = (struct point){(double)hist_quantile(&sum->latency, q) / 1e6, q};
        }
        svg_line(out, &c, points, sum && sum->latency.count ? CURVE_POINTS : 0, i, p->ways[i].name);
    }
    svg_end(out);
}
/* Mean latency of what was due at a time. */
static void draw_overload(FILE *out, const struct padding *p) {
    const int shown[] = {p->bad, p->cure};
    struct point points[2][RECORD_SLOTS];
    int n[2] = {0};
    struct chart c = {.title = "Overload: mean latency by the time a request was due",
                      .x_label = "s",
                      .y_label = "ms"};
    for (int k = 0; k < 2; k++) {
        const struct record *sum = p->ways[shown[k]].cells[LOAD_OVERLOAD].sum;
        for (int i = 0; sum && i < RECORD_SLOTS; i++) {
            const struct slot *s = &sum->slots[i];
            if (s->n_ok) {
                struct point *at = &points[k][n[k]++];
                *at =
                    (struct point){i * (double)sum->slot_ns / 1e9, s->latency_ms / (double)s->n_ok};
                c.x_high = fmax(c.x_high, at->x), c.y_high = fmax(c.y_high, at->y);
            }
        }
    }
    if (c.x_high > 0 && c.y_high > 0) {
        c.y_high = svg_round_up(c.y_high);
        svg_begin(out, &c);
        for (int k = 0; k < 2; k++) {
            svg_line(out, &c, points[k], n[k], k, p->ways[shown[k]].name);
        }
        svg_end(out);
    }
}
void padding_html(FILE *out, const void *padding) {
    const struct padding *p = padding;
    const struct bench_config *c = p->runner.cfg;
    html_begin(out, c->title ? c->title : "What padding costs", report_css);
    fputs("<p>", out);
    html_escape(out, c->model);
    fprintf(out, ", %s, berth %s, seed %lld, lengths ", p->started, BERTH_VERSION,
            (long long)c->seed);
    html_escape(out, c->texts ? c->texts : c->lengths ? c->lengths : "mixed");
    fputs("</p>\n", out);
    if (runner_cut(&p->runner)) {
        fprintf(out, "<p class=\"bad\">Partial: %s.</p>\n", runner_cut(&p->runner));
    }
    for (int i = 0; i < p->n_ways; i++) {
        if (p->ways[i].has_failed) {
            fputs("<p class=\"bad\">Partial: ", out);
            html_escape(out, p->ways[i].name);
            fputs(": ", out);
            html_escape(out, p->ways[i].reason);
            fputs("</p>\n", out);
        }
    }
    put_case(out, p, p->bad, true);
    put_case(out, p, p->cure, false);
    put_gain(out, p);
    put_table(out, p);
    draw_cdf(out, p, LOAD_EQUAL, "Equal load: latency");
    draw_cdf(out, p, LOAD_OVERLOAD, "Overload: latency");
    draw_overload(out, p);
    fputs("</body></html>\n", out);
}
