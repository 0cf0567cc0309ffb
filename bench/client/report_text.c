/* report_text.c - the result for a terminal: what was asked, what came, and where the time went. */
#include "bench/client/result.h"

#include <math.h>
#include <string.h>

enum { BAR_WIDTH = 40, BAR_BYTES = 64 };

static void print_latency(FILE *out, const struct hist *h) {
    static const struct {
        const char *name;
        double q;
    } points[] = {{"p50", 0.5},  {"p90", 0.9},     {"p95", 0.95},
                  {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};
    fprintf(out, "  mean %.3f  min %.3f", hist_mean(h) / 1e6, (double)h->min / 1e6);
    for (size_t i = 0; i < N_ITEMS(points); i++) {
        fprintf(out, "  %s %.3f", points[i].name, (double)hist_quantile(h, points[i].q) / 1e6);
    }
    fprintf(out, "  max %.3f\n", (double)h->max / 1e6);
}
static void print_histogram(FILE *out, const struct hist *h) {
    struct display_row rows[DISPLAY_ROWS];
    const int n = result_display_rows(rows, h);
    uint64_t most = 1;
    char bar[BAR_BYTES];
    for (int i = 0; i < n; i++) {
        most = rows[i].count > most ? rows[i].count : most;
    }
    memset(bar, '#', sizeof(bar));
    for (int i = 0; i < n; i++) {
        const int width = (int)ceil((double)rows[i].count * BAR_WIDTH / (double)most);
        fprintf(out, "  up to %10.3f  %9llu  %.*s\n", (double)rows[i].upper_ns / 1e6,
                (unsigned long long)rows[i].count, width, bar);
    }
}
static void print_stages(FILE *out, const struct result *r) {
    const struct record *sum = r->round->sum;
    struct stage_share s[STAGES_MAX];
    const int n = result_stages(s, r);
    if (n == 0) {
        fputs("stages      the server tells none (no Server-Timing)\n", out);
        return;
    }
    fputs("stages      mean ms   share  share of the slowest 1 %\n", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "  %-10s%9.3f  %4.1f %%", s[i].name, s[i].mean_ms, s[i].share * 100);
        if (!isnan(s[i].slow_share)) {
            fprintf(out, "  %4.1f %%", s[i].slow_share * 100);
        }
        const bool is_large = s[i].share > SHARE_TO_NAME || s[i].slow_share > SHARE_TO_NAME;
        fprintf(out, "%s\n", is_large ? "  over 20 %" : "");
    }
    if (sum->total_n > 0) {
        fprintf(out, "  %-10s%9.3f\n  %-10s%9.3f  (network, kernel, waiting to be sent)\n", "total",
                sum->total_ms / (double)sum->total_n, "outside",
                sum->outside_ms / (double)sum->total_n);
    }
}
static void print_buckets(FILE *out, const struct result *r) {
    const struct bucket_record *b[RECORD_MAX_BUCKETS];
    const int n = result_buckets(b, r);
    if (n == 0) {
        return;
    }
    fprintf(out,
            "by length   requests       p50       p95       p99     p99.9     queue  padding\n");
    for (int i = 0; i < n; i++) {
        const struct hist *h = &b[i]->latency;
        char name[32];
        snprintf(name, sizeof(name), b[i]->is_told ? "bucket %d" : "%d words", b[i]->up_to);
        fprintf(out, "  %-10s%9llu %9.3f %9.3f %9.3f %9.3f", name, (unsigned long long)h->count,
                (double)hist_quantile(h, 0.5) / 1e6, (double)hist_quantile(h, 0.95) / 1e6,
                (double)hist_quantile(h, 0.99) / 1e6, (double)hist_quantile(h, 0.999) / 1e6);
        if (b[i]->queue_n > 0) {
            fprintf(out, " %9.3f", b[i]->queue_ms / (double)b[i]->queue_n);
        }
        if (b[i]->n_rows > 0) {
            fprintf(out, "  %7.3f", 1 - b[i]->n_tokens / b[i]->n_rows);
        }
        fputc('\n', out);
    }
}
static void print_errors(FILE *out, const struct record *sum) {
    for (int i = FAILURE_NONE + 1; i < N_FAILURES; i++) {
        if (sum->n_failed[i] > 0) {
            fprintf(out, "error       %s: %lld; the first: %s\n", failure_names[i],
                    (long long)sum->n_failed[i], sum->example[i]);
        }
    }
    if (sum->n_malformed > 0) {
        fprintf(out,
                "warning     %lld answers with a malformed Server-Timing or Berth-Batch header; "
                "it was left out\n",
                (long long)sum->n_malformed);
    }
}
static void print_client(FILE *out, const struct result *r) {
    const struct record *sum = r->round->sum;
    const struct hist *h = &sum->lateness;
    const double cpu = r->round->wall_s > 0 ? sum->cpu_s / r->round->wall_s : 0;
    if (!r->load->plan.is_closed_loop) {
        fprintf(
            out,
            "send delay  p50 %.1f us  p99 %.1f us  max %.1f us; waited for a connection: %lld\n",
            (double)hist_quantile(h, 0.5) / 1e3, (double)hist_quantile(h, 0.99) / 1e3,
            (double)h->max / 1e3, (long long)sum->n_waited);
    }
    fprintf(out, "client      %.0f %% of a core, %lld connections opened\n", cpu * 100,
            (long long)sum->n_connects);
    if (cpu > 0.9 * r->load->plan.n_threads) {
        fputs(
            "warning     the client was busy all the time: it may be what limits; try --threads\n",
            out);
    }
}
static void print_rounds(FILE *out, const struct result *r) {
    if (r->n_rounds > 0) {
        fprintf(
            out,
            "rounds      %d, %s; 95 %% confidence: throughput %.2f ± %.2f /s, p99 %.3f ± %.3f ms\n",
            r->n_rounds, r->is_stable ? "stable" : "NOT stable", r->throughput.mean,
            r->throughput.half_width, r->p99_ms.mean, r->p99_ms.half_width);
    }
    for (int i = 0; i < r->n_tries; i++) {
        const struct rate_try *t = &r->tries[i];
        fprintf(out, "try         %10.2f/s  %s %.3f ms  throughput %.2f/s  errors %.2f %%  %s\n",
                t->rate, r->goal.text, t->value_ms, t->throughput, t->error_rate * 100,
                t->holds ? "holds" : "broken");
    }
    if (r->n_tries > 0 && r->found_rate > 0) {
        bool has_broken = false;
        for (int i = 0; i < r->n_tries; i++) {
            has_broken = has_broken || !r->tries[i].holds;
        }
        fprintf(out, "highest     %.2f/s holds %s%s\n", r->found_rate, r->goal.text,
                has_broken ? "" : "; none that was tried broke it: begin with a higher --rate");
    } else if (r->n_tries > 0) {
        fprintf(out, "highest     no rate that was tried holds %s\n", r->goal.text);
    }
}
static void print_checks(FILE *out, const struct result *r) {
    for (int i = 0; i < r->n_checks; i++) {
        const struct criterion *c = &r->checks[i];
        const double v = criterion_value(c, r->round);
        if (isnan(v)) {
            fprintf(out, "FAILED      %s: there is no value\n", c->text);
        } else {
            fprintf(out, "%-11s %s: it is %.6g\n",
                    criterion_holds(c, r->round) ? "FAILED" : "passed", c->text, v);
        }
    }
}
void report_text(FILE *out, const void *result) {
    const struct result *r = result;
    const struct record *sum = r->round->sum;
    const long long n_failed = record_failures(sum);
    char load[400];
    result_describe_load(load, sizeof(load), r);
    fprintf(out, "berth bench %s\nload        %s\n", r->load->target, load);
    fprintf(out, "requests    %lld due, %lld answered, %lld failed (%.2f %%)\n",
            (long long)sum->n_due, (long long)sum->n_ok, n_failed,
            sum->n_due ? 100.0 * (double)n_failed / (double)sum->n_due : 0.0);
    fprintf(out, "throughput  %.2f/s", r->round->throughput);
    fprintf(out, r->offered > 0 ? " of %.2f/s offered\n" : "\n", r->offered);
    if (sum->latency.count > 0) {
        fprintf(out, "latency     ms, from the %s; timeouts count\n",
                r->load->plan.is_closed_loop ? "send" : "intended send");
        print_latency(out, &sum->latency);
        print_histogram(out, &sum->latency);
    }
    print_stages(out, r);
    print_buckets(out, r);
    if (sum->batch_rows > 0) {
        fprintf(out, "padding     %.3f of the rows; about %.0f batches, %.2f requests a batch\n",
                1 - sum->batch_tokens / sum->batch_rows, sum->n_batches,
                sum->n_batches > 0 ? sum->batch_requests / sum->n_batches : 0.0);
    }
    print_client(out, r);
    print_rounds(out, r);
    print_errors(out, sum);
    print_checks(out, r);
    if (result_is_partial(r)) {
        fprintf(out, "PARTIAL     stopped after %.1f s: %s; %lld in flight were given up\n",
                r->round->window_s, r->round->reason, (long long)sum->n_abandoned);
    }
}
