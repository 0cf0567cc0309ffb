/* report_json.c - everything that was measured, for programs. Keys carry their units. */
#include "bench/client/result.h"

#include <math.h>
#include <string.h>

static void key_string(FILE *out, const char *key, const char *text) {
    fprintf(out, "  \"%s\": ", key);
    json_text(out, text);
    fputs(",\n", out);
}
static void key_number(FILE *out, const char *key, double v) {
    fprintf(out, "  \"%s\": ", key);
    json_number(out, v);
    fputs(",\n", out);
}
static void histogram(FILE *out, const char *key, const struct hist *h, double unit,
                      bool has_rows) {
    static const struct {
        const char *name;
        double q;
    } points[] = {{"p50", 0.5},  {"p75", 0.75},    {"p90", 0.9},      {"p95", 0.95},
                  {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}};
    fprintf(out, "  \"%s\": {\"count\": %llu, \"mean\": %.9g, \"min\": %.9g, \"max\": %.9g", key,
            (unsigned long long)h->count, hist_mean(h) / unit, (double)h->min / unit,
            (double)h->max / unit);
    for (size_t i = 0; i < N_ITEMS(points); i++) {
        fprintf(out, ", \"%s\": %.9g", points[i].name,
                (double)hist_quantile(h, points[i].q) / unit);
    }
    if (has_rows) {
        struct display_row rows[DISPLAY_ROWS];
        const int n = result_display_rows(rows, h);
        fputs(",\n    \"histogram\": [", out);
        for (int i = 0; i < n; i++) {
            fprintf(out, "%s{\"up_to\": %.9g, \"count\": %llu}", i ? ", " : "",
                    (double)rows[i].upper_ns / unit, (unsigned long long)rows[i].count);
        }
        fputs("]", out);
    }
    fputs("},\n", out);
}
static void errors(FILE *out, const struct record *sum) {
    const char *separator = "";
    fputs("  \"errors\": {", out);
    for (int i = FAILURE_NONE + 1; i < N_FAILURES; i++) {
        if (sum->n_failed[i] > 0) {
            fprintf(out, "%s\"%s\": {\"count\": %lld, \"first\": ", separator, failure_names[i],
                    (long long)sum->n_failed[i]);
            json_text(out, sum->example[i]);
            fputs("}", out);
            separator = ", ";
        }
    }
    fputs("},\n", out);
}
static void stages(FILE *out, const struct result *r) {
    struct stage_share s[STAGES_MAX];
    const struct record *sum = r->round->sum;
    const int n = result_stages(s, r);
    fputs("  \"stages\": [", out);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s\n    {\"name\": ", i ? "," : "");
        json_text(out, s[i].name);
        fprintf(out, ", \"mean_ms\": %.9g, \"share\": %.6f, \"share_of_slowest_1_percent\": ",
                s[i].mean_ms, s[i].share);
        json_number(out, s[i].slow_share);
        fprintf(out, ", \"over_20_percent\": %s}",
                s[i].share > SHARE_TO_NAME || s[i].slow_share > SHARE_TO_NAME ? "true" : "false");
    }
    fputs("],\n", out);
    key_number(out, "server_total_mean_ms",
               sum->total_n ? sum->total_ms / (double)sum->total_n : NAN);
    key_number(out, "outside_mean_ms", sum->total_n ? sum->outside_ms / (double)sum->total_n : NAN);
}
static void buckets(FILE *out, const struct result *r) {
    const struct bucket_record *b[RECORD_MAX_BUCKETS];
    const int n = result_buckets(b, r);
    fputs("  \"buckets\": [", out);
    for (int i = 0; i < n; i++) {
        const struct hist *h = &b[i]->latency;
        fprintf(out,
                "%s\n    {\"%s\": %d, \"count\": %llu, \"p50_ms\": %.9g, \"p95_ms\": %.9g, "
                "\"p99_ms\": %.9g, \"p99_9_ms\": %.9g, \"queue_mean_ms\": ",
                i ? "," : "", b[i]->is_told ? "bucket" : "words_up_to", b[i]->up_to,
                (unsigned long long)h->count, (double)hist_quantile(h, 0.5) / 1e6,
                (double)hist_quantile(h, 0.95) / 1e6, (double)hist_quantile(h, 0.99) / 1e6,
                (double)hist_quantile(h, 0.999) / 1e6);
        json_number(out, b[i]->queue_n ? b[i]->queue_ms / (double)b[i]->queue_n : NAN);
        fputs(", \"padding_ratio\": ", out);
        json_number(out, b[i]->n_rows > 0 ? 1 - b[i]->n_tokens / b[i]->n_rows : NAN);
        fputs("}", out);
    }
    fputs("],\n", out);
}
static void padding(FILE *out, const struct record *sum) {
    if (sum->batch_rows <= 0) {
        fputs("  \"padding\": null,\n", out);
        return;
    }
    fprintf(out,
            "  \"padding\": {\"ratio\": %.6f, \"batches\": %.1f, \"requests_per_batch\": %.6g, "
            "\"batches_by_ratio\": [",
            1 - sum->batch_tokens / sum->batch_rows, sum->n_batches,
            sum->n_batches > 0 ? sum->batch_requests / sum->n_batches : 0.0);
    for (int i = 0; i < RECORD_PADDING_BINS; i++) {
        fprintf(out, "%s%.2f", i ? ", " : "", sum->padding_bins[i]);
    }
    fputs("]},\n", out);
}
static void series(FILE *out, const struct record *sum) {
    const char *separator = "";
    fputs("  \"series\": [", out);
    for (int i = 0; i < RECORD_SLOTS; i++) {
        const struct slot *s = &sum->slots[i];
        if (s->n_due == 0) {
            continue;
        }
        fprintf(out,
                "%s\n    {\"at_s\": %.3f, \"seconds\": %.3f, \"due\": %lld, \"answered\": %lld, "
                "\"failed\": %lld, \"mean_ms\": ",
                separator, (double)i * (double)sum->slot_ns / 1e9, (double)sum->slot_ns / 1e9,
                (long long)s->n_due, (long long)s->n_ok, (long long)s->n_failed);
        json_number(out, s->n_ok ? s->latency_ms / (double)s->n_ok : NAN);
        fprintf(out, ", \"max_ms\": %.6g, \"queue_mean_ms\": ", s->latency_max_ms);
        json_number(out, s->queue_n ? s->queue_ms / (double)s->queue_n : NAN);
        fprintf(out, ", \"queue_max_ms\": %.6g}", s->queue_max_ms);
        separator = ",";
    }
    fputs("],\n", out);
}
static void rounds(FILE *out, const struct result *r) {
    if (r->n_rounds > 0) {
        fprintf(out,
                "  \"rounds\": {\"n\": %d, \"stable\": %s, \"confidence\": 0.95, "
                "\"throughput_per_s\": {\"mean\": %.9g, \"half_width\": %.9g}, "
                "\"p99_ms\": {\"mean\": %.9g, \"half_width\": %.9g}},\n",
                r->n_rounds, r->is_stable ? "true" : "false", r->throughput.mean,
                r->throughput.half_width, r->p99_ms.mean, r->p99_ms.half_width);
    }
    if (r->n_tries == 0) {
        return;
    }
    fputs("  \"find_rate\": {\"goal\": ", out);
    json_text(out, r->goal.text);
    fputs(", \"rate_per_s\": ", out);
    json_number(out, r->found_rate > 0 ? r->found_rate : NAN);
    fputs(", \"tries\": [", out);
    for (int i = 0; i < r->n_tries; i++) {
        const struct rate_try *t = &r->tries[i];
        fprintf(out, "%s\n    {\"rate_per_s\": %.9g, \"value_ms\": ", i ? "," : "", t->rate);
        json_number(out, t->value_ms);
        fprintf(out, ", \"throughput_per_s\": %.9g, \"error_rate\": %.6f, \"holds\": %s}",
                t->throughput, t->error_rate, t->holds ? "true" : "false");
    }
    fputs("]},\n", out);
}
static void checks(FILE *out, const struct result *r) {
    bool has_failed = false;
    fputs("  \"checks\": [", out);
    for (int i = 0; i < r->n_checks; i++) {
        const bool holds = criterion_holds(&r->checks[i], r->round);
        has_failed = has_failed || holds;
        fprintf(out, "%s{\"fail_if\": ", i ? ", " : "");
        json_text(out, r->checks[i].text);
        fputs(", \"value\": ", out);
        json_number(out, criterion_value(&r->checks[i], r->round));
        fprintf(out, ", \"failed\": %s}", holds ? "true" : "false");
    }
    fprintf(out, "],\n  \"failed\": %s\n", has_failed ? "true" : "false");
}
void report_json(FILE *out, const void *result) {
    const struct result *r = result;
    const struct record *sum = r->round->sum;
    const double n_failed = (double)record_failures(sum);
    char load[400];
    result_describe_load(load, sizeof(load), r);
    fputs("{\n", out);
    key_string(out, "berth_version", BERTH_VERSION);
    key_string(out, "started", r->started);
    key_string(out, "title", r->cfg->title);
    key_string(out, "url", r->load->target);
    key_string(out, "load", load);
    fprintf(out, "  \"partial\": %s,\n", result_is_partial(r) ? "true" : "false");
    key_string(out, "partial_reason", result_is_partial(r) ? r->round->reason : NULL);
    key_number(out, "window_s", r->round->window_s);
    key_number(out, "due", (double)sum->n_due);
    key_number(out, "answered", (double)sum->n_ok);
    key_number(out, "failed_requests", n_failed);
    key_number(out, "abandoned", (double)sum->n_abandoned);
    key_number(out, "error_rate", sum->n_due ? n_failed / (double)sum->n_due : NAN);
    key_number(out, "throughput_per_s", r->round->throughput);
    key_number(out, "offered_per_s", r->offered > 0 ? r->offered : NAN);
    histogram(out, "latency_ms", &sum->latency, 1e6, true);
    histogram(out, "service_ms", &sum->service, 1e6, false);
    histogram(out, "send_delay_us", &sum->lateness, 1e3, true);
    key_number(out, "waited_for_connection", (double)sum->n_waited);
    key_number(out, "connections_opened", (double)sum->n_connects);
    key_number(out, "malformed_timing_headers", (double)sum->n_malformed);
    key_number(out, "client_cores", r->round->wall_s > 0 ? sum->cpu_s / r->round->wall_s : NAN);
    errors(out, sum);
    stages(out, r);
    buckets(out, r);
    padding(out, sum);
    series(out, sum);
    rounds(out, r);
    checks(out, r);
    fputs("}\n", out);
}
