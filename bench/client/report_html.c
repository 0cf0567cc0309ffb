/* report_html.c - the result as one file for a browser: tables and inline SVG, no script, nothing
 * from the network. What a person looks for first comes first: did it hold, where is the tail,
 * which stage and which lengths make it. */
#include "bench/client/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/client/svg.h"

enum { CURVE_POINTS = 200 };

static void print_head(FILE *out, const struct result *r) {
    html_begin(out, r->cfg->title ? r->cfg->title : r->load->target,
               ".good{color:#2b7a46}.hot{color:#d1495b;font-weight:600}\n");
}
static void print_summary(FILE *out, const struct result *r) {
    const struct record *sum = r->round->sum;
    const long long n_failed = record_failures(sum);
    char load[400];
    result_describe_load(load, sizeof(load), r);
    if (result_is_partial(r)) {
        fprintf(out, "<p class=\"bad\">Partial: stopped after %.1f s: ", r->round->window_s);
        html_escape(out, r->round->reason);
        fputs("</p>\n", out);
    }
    fputs("<p>", out);
    html_escape(out, r->load->target);
    fputs("<br>", out);
    html_escape(out, load);
    fprintf(out, "<br>%s, berth %s</p>\n", r->started, BERTH_VERSION);
    fprintf(out,
            "<table><tr><th>due</th><th>answered</th><th>failed</th><th>requests/s</th>"
            "<th>offered/s</th><th>mean ms</th><th>p50</th><th>p95</th><th>p99</th><th>p99.9</th>"
            "<th>max</th></tr>\n<tr><td>%lld</td><td>%lld</td><td>%lld</td><td>%.2f</td>",
            (long long)sum->n_due, (long long)sum->n_ok, n_failed, r->round->throughput);
    fprintf(out, r->offered > 0 ? "<td>%.2f</td>" : "<td>as answered</td>", r->offered);
    const struct hist *h = &sum->latency;
    fprintf(out,
            "<td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td></tr>"
            "</table>\n",
            hist_mean(h) / 1e6, (double)hist_quantile(h, 0.5) / 1e6,
            (double)hist_quantile(h, 0.95) / 1e6, (double)hist_quantile(h, 0.99) / 1e6,
            (double)hist_quantile(h, 0.999) / 1e6, (double)h->max / 1e6);
}
static void print_checks(FILE *out, const struct result *r) {
    for (int i = 0; i < r->n_checks; i++) {
        const struct criterion *c = &r->checks[i];
        const bool holds = criterion_holds(c, r->round);
        fprintf(out, "<p class=\"%s\">%s: ", holds ? "bad" : "good", holds ? "Failed" : "Passed");
        html_escape(out, c->text);
        fprintf(out, "; it is %.6g</p>\n", criterion_value(c, r->round));
    }
    if (r->n_rounds > 0) {
        fprintf(out,
                "<p>%d rounds, %s; 95&nbsp;%% confidence: throughput %.2f ± %.2f /s, p99 %.3f ± "
                "%.3f ms</p>\n",
                r->n_rounds, r->is_stable ? "stable" : "not stable", r->throughput.mean,
                r->throughput.half_width, r->p99_ms.mean, r->p99_ms.half_width);
    }
    if (r->n_tries == 0) {
        return;
    }
    fputs("<h2>Highest rate</h2>\n<table><tr><th>rate/s</th><th>value ms</th><th>throughput/s</th>"
          "<th>errors</th><th></th></tr>\n",
          out);
    for (int i = 0; i < r->n_tries; i++) {
        const struct rate_try *t = &r->tries[i];
        fprintf(out,
                "<tr><td>%.2f</td><td>%.3f</td><td>%.2f</td><td>%.2f %%</td><td>%s</td></tr>\n",
                t->rate, t->value_ms, t->throughput, t->error_rate * 100,
                t->holds ? "holds" : "broken");
    }
    fputs("</table>\n<p>", out);
    html_escape(out, r->goal.text);
    fprintf(out, r->found_rate > 0 ? " holds at %.2f/s</p>\n" : " holds at no rate tried</p>\n",
            r->found_rate);
}
static void draw_percentiles(FILE *out, const struct hist *h) {
    struct point p[CURVE_POINTS];
    const double most = fmin(1e5, fmax(10, (double)h->count));
    const struct chart c = {.title = "Latency by percentile",
                            .x_label = "1 / (1 − p): 2 is p50, 10 p90, 100 p99, 1000 p99.9",
                            .y_label = "ms",
                            .x_low = 1,
                            .x_high = most,
                            .y_high = svg_round_up((double)h->max / 1e6),
                            .x_is_log = true};
    for (int i = 0; i < CURVE_POINTS; i++) {
        p[i].x = pow(most, (double)i / (CURVE_POINTS - 1));
        p[i].y = (double)hist_quantile(h, 1 - 1 / p[i].x) / 1e6;
    }
    svg_begin(out, &c);
    svg_line(out, &c, p, CURVE_POINTS, 0, "latency");
    svg_end(out);
}
static void draw_cdf(FILE *out, const struct record *sum) {
    const struct hist *both[] = {&sum->latency, &sum->service};
    static const char *const names[] = {"from the intended send", "from the real send"};
    const double low = fmax(1e-4, (double)sum->service.min / 1e6);
    const struct chart c = {.title = "Share of requests answered within",
                            .x_label = "ms",
                            .y_label = "share",
                            .x_low = low,
                            .x_high = fmax(low * 1.1, (double)sum->latency.max / 1e6),
                            .y_high = 1,
                            .x_is_log = true};
    svg_begin(out, &c);
    for (int k = 0; k < 2; k++) {
        struct point p[CURVE_POINTS];
        for (int i = 0; i < CURVE_POINTS && both[k]->count > 0; i++) {
            const double q = (double)i / (CURVE_POINTS - 1);
            p[i] = (struct point){(double)hist_quantile(both[k], q) / 1e6, q};
        }
        svg_line(out, &c, p, both[k]->count > 0 ? CURVE_POINTS : 0, k, names[k]);
    }
    svg_end(out);
}

/* One figure of a slot; NAN: it has none. */
typedef double slot_fn(const struct slot *s, double seconds);
static double due_rate(const struct slot *s, double seconds) {
    return (double)s->n_due / seconds;
}
static double ok_rate(const struct slot *s, double seconds) {
    return (double)s->n_ok / seconds;
}
static double failed_rate(const struct slot *s, double seconds) {
    return (double)s->n_failed / seconds;
}
static double mean_ms(const struct slot *s, double seconds) {
    (void)seconds;
    return s->n_ok ? s->latency_ms / (double)s->n_ok : NAN;
}
static double max_ms(const struct slot *s, double seconds) {
    (void)seconds;
    return s->n_ok ? s->latency_max_ms : NAN;
}
static double queue_mean_ms(const struct slot *s, double seconds) {
    (void)seconds;
    return s->queue_n ? s->queue_ms / (double)s->queue_n : NAN;
}
static double queue_max_ms(const struct slot *s, double seconds) {
    (void)seconds;
    return s->queue_n ? s->queue_max_ms : NAN;
}
struct series {
    slot_fn *value;
    const char *name;
};
static void draw_series(FILE *out, const struct record *sum, const char *title, const char *unit,
                        const struct series *series, int n_series) {
    struct point p[4][RECORD_SLOTS];
    const double seconds = (double)sum->slot_ns / 1e9;
    double most = 0;
    int n = 0;
    for (int i = 0; i < RECORD_SLOTS; i++) {
        n = sum->slots[i].n_due > 0 ? i + 1 : n;
    }
    for (int k = 0; k < n_series; k++) {
        for (int i = 0; i < n; i++) {
            p[k][i] = (struct point){i * seconds, series[k].value(&sum->slots[i], seconds)};
            most = fmax(most, p[k][i].y); // NAN is passed over
        }
    }
    const struct chart c = {.title = title,
                            .x_label = "s, when the request was due",
                            .y_label = unit,
                            .x_high = fmax(seconds, n * seconds),
                            .y_high = svg_round_up(most)};
    svg_begin(out, &c);
    for (int k = 0; k < n_series; k++) {
        svg_line(out, &c, p[k], n, k, series[k].name);
    }
    svg_end(out);
}
static void draw_over_time(FILE *out, const struct record *sum) {
    static const struct series rates[] = {
        {due_rate, "due"}, {ok_rate, "answered"}, {failed_rate, "failed"}};
    static const struct series latencies[] = {{mean_ms, "mean"}, {max_ms, "longest"}};
    static const struct series queues[] = {{queue_mean_ms, "mean"}, {queue_max_ms, "longest"}};
    draw_series(out, sum, "Throughput over time", "requests/s", rates, 3);
    draw_series(out, sum, "Latency over time", "ms", latencies, 2);
    draw_series(out, sum, "Queue over time (Server-Timing: queue)", "ms", queues, 2);
}
static void print_stages(FILE *out, const struct result *r) {
    struct stage_share s[STAGES_MAX];
    const int n = result_stages(s, r);
    fputs("<h2>Where the server's time goes</h2>\n", out);
    if (n == 0) {
        fputs("<p>The server tells no stages (no Server-Timing).</p>\n", out);
        return;
    }
    fputs("<table><tr><th>stage</th><th>mean ms</th><th>share</th><th>of the slowest 1 %</th><th>"
          "</th></tr>\n",
          out);
    for (int i = 0; i < n; i++) {
        const bool is_large = s[i].share > SHARE_TO_NAME || s[i].slow_share > SHARE_TO_NAME;
        fprintf(out, "<tr%s><td>", is_large ? " class=\"hot\"" : "");
        html_escape(out, s[i].name);
        fprintf(out, "</td><td>%.3f</td><td>%.1f %%</td><td>", s[i].mean_ms, s[i].share * 100);
        if (!isnan(s[i].slow_share)) {
            fprintf(out, "%.1f %%", s[i].slow_share * 100);
        }
        fprintf(out,
                "</td><td style=\"text-align:left\"><svg width=\"220\" height=\"12\"><rect "
                "width=\"%.0f\" height=\"12\" fill=\"#1f6fb4\"/></svg>%s</td></tr>\n",
                fmin(220, s[i].share * 220), is_large ? " over 20 %" : "");
    }
    fputs("</table>\n", out);
    const struct record *sum = r->round->sum;
    if (sum->total_n > 0) {
        fprintf(out,
                "<p>Server's total %.3f ms on average; %.3f ms outside of it: network, kernel, "
                "waiting to be sent.</p>\n",
                sum->total_ms / (double)sum->total_n, sum->outside_ms / (double)sum->total_n);
    }
}
static void print_buckets(FILE *out, const struct result *r) {
    const struct bucket_record *b[RECORD_MAX_BUCKETS];
    const int n = result_buckets(b, r);
    fputs("<h2>By length</h2>\n<table><tr><th>bucket</th><th>requests</th><th>p50 ms</th>"
          "<th>p95</th><th>p99</th><th>p99.9</th><th>queue</th><th>padding</th></tr>\n",
          out);
    for (int i = 0; i < n; i++) {
        const struct hist *h = &b[i]->latency;
        fprintf(out, "<tr><td>%s%d</td><td>%llu</td>", b[i]->is_told ? "up to " : "words up to ",
                b[i]->up_to, (unsigned long long)h->count);
        fprintf(out, "<td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.3f</td><td>",
                (double)hist_quantile(h, 0.5) / 1e6, (double)hist_quantile(h, 0.95) / 1e6,
                (double)hist_quantile(h, 0.99) / 1e6, (double)hist_quantile(h, 0.999) / 1e6);
        if (b[i]->queue_n > 0) {
            fprintf(out, "%.3f", b[i]->queue_ms / (double)b[i]->queue_n);
        }
        fputs("</td><td>", out);
        if (b[i]->n_rows > 0) {
            fprintf(out, "%.3f", 1 - b[i]->n_tokens / b[i]->n_rows);
        }
        fputs("</td></tr>\n", out);
    }
    fputs("</table>\n", out);
}
static void draw_padding(FILE *out, const struct record *sum) {
    if (sum->batch_rows <= 0) {
        fputs("<p>The server tells no padding (no Berth-Batch).</p>\n", out);
        return;
    }
    struct point p[RECORD_PADDING_BINS];
    double most = 0;
    for (int i = 0; i < RECORD_PADDING_BINS; i++) {
        p[i] = (struct point){(double)i / RECORD_PADDING_BINS, sum->padding_bins[i]};
        most = fmax(most, p[i].y);
    }
    const struct chart c = {.title = "Batches by padding",
                            .x_label = "padding ratio: 1 − real rows / computed rows",
                            .y_label = "batches",
                            .x_high = 1,
                            .y_high = svg_round_up(most)};
    svg_begin(out, &c);
    svg_bars(out, &c, p, RECORD_PADDING_BINS, 1.0 / RECORD_PADDING_BINS, 0);
    svg_end(out);
    fprintf(out,
            "<p>%.1f %% of all computed rows were padding; about %.0f batches, %.2f requests "
            "a batch.</p>\n",
            100 * (1 - sum->batch_tokens / sum->batch_rows), sum->n_batches,
            sum->n_batches > 0 ? sum->batch_requests / sum->n_batches : 0.0);
}
static void print_errors(FILE *out, const struct record *sum) {
    fputs("<h2>Errors</h2>\n", out);
    if (record_failures(sum) == 0) {
        fputs("<p>None.</p>\n", out);
    } else {
        fputs("<table><tr><th>kind</th><th>requests</th><th>the first</th></tr>\n", out);
    }
    for (int i = FAILURE_NONE + 1; i < N_FAILURES; i++) {
        if (sum->n_failed[i] > 0) {
            fprintf(out, "<tr><td>%s</td><td>%lld</td><td>", failure_names[i],
                    (long long)sum->n_failed[i]);
            html_escape(out, sum->example[i]);
            fputs("</td></tr>\n", out);
        }
    }
    fputs(record_failures(sum) ? "</table>\n" : "", out);
    if (sum->n_malformed > 0) {
        fprintf(out, "<p>%lld answers had a malformed timing header, which was left out.</p>\n",
                (long long)sum->n_malformed);
    }
}
static void print_client(FILE *out, const struct result *r) {
    const struct record *sum = r->round->sum;
    const struct hist *h = &sum->lateness;
    fprintf(out,
            "<h2>The client itself</h2>\n<p>From the due time until the client turned to a "
            "request: p50 %.1f µs, p99 %.1f µs, longest %.1f µs. %lld requests waited for a "
            "connection. It used %.0f %% of a core.</p>\n",
            (double)hist_quantile(h, 0.5) / 1e3, (double)hist_quantile(h, 0.99) / 1e3,
            (double)h->max / 1e3, (long long)sum->n_waited,
            r->round->wall_s > 0 ? 100 * sum->cpu_s / r->round->wall_s : 0.0);
}
void report_html(FILE *out, const void *result) {
    const struct result *r = result;
    const struct record *sum = r->round->sum;
    print_head(out, r);
    print_summary(out, r);
    print_checks(out, r);
    if (sum->latency.count > 0) {
        draw_percentiles(out, &sum->latency);
        draw_cdf(out, sum);
    }
    draw_over_time(out, sum);
    print_stages(out, r);
    print_buckets(out, r);
    draw_padding(out, sum);
    print_errors(out, sum);
    print_client(out, r);
    fputs("</body></html>\n", out);
}
