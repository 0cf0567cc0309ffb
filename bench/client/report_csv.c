/* report_csv.c - a run as one line, to be collected over time; and a line a request. */
#include "bench/client/result.h"

#include <string.h>

/* In quotes where it holds what would end the field; quotes doubled (RFC 4180). */
static void field(FILE *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        fputs(*c == '"' ? "\"\"" : (const char[]){*c, '\0'}, out);
    }
    fputc('"', out);
}
void report_csv(FILE *out, const void *result) {
    const struct result *r = result;
    static const double quantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999, 0.9999};
    const struct record *sum = r->round->sum;
    const struct hist *h = &sum->latency;
    char load[400];
    result_describe_load(load, sizeof(load), r);
    fputs("started,title,url,load,partial,window_s,due,answered,failed,throughput_per_s,"
          "offered_per_s,mean_ms,p50_ms,p90_ms,p95_ms,p99_ms,p99_9_ms,p99_99_ms,max_ms,"
          "send_delay_p99_us,padding_ratio\n",
          out);
    fprintf(out, "%s,", r->started);
    field(out, r->cfg->title ? r->cfg->title : "");
    fputc(',', out);
    field(out, r->load->target);
    fputc(',', out);
    field(out, load);
    fprintf(out, ",%d,%.3f,%lld,%lld,%lld,%.3f,%.3f,%.4f", result_is_partial(r), r->round->window_s,
            (long long)sum->n_due, (long long)sum->n_ok, (long long)record_failures(sum),
            r->round->throughput, r->offered, hist_mean(h) / 1e6);
    for (size_t i = 0; i < N_ITEMS(quantiles); i++) {
        fprintf(out, ",%.4f", (double)hist_quantile(h, quantiles[i]) / 1e6);
    }
    fprintf(out, ",%.4f,%.1f,", (double)h->max / 1e6,
            (double)hist_quantile(&sum->lateness, 0.99) / 1e3);
    if (sum->batch_rows > 0) {
        fprintf(out, "%.4f", 1 - sum->batch_tokens / sum->batch_rows);
    }
    fputc('\n', out);
}
void report_samples(FILE *out, const void *result) {
    const struct result *r = result;
    const struct record *sum = r->round->sum;
    const struct stages *names = &r->load->stages;
    const int n = atomic_load(&names->n);
    fputs("due_ms,index,words,bucket,outcome,status,latency_ms,service_ms,server_total_ms", out);
    for (int k = 0; k < n; k++) {
        fprintf(out, ",%s_ms", names->names[k]);
    }
    fputc('\n', out);
    for (int64_t i = 0; i < sum->n_samples; i++) {
        const struct sample *s = &sum->samples[i];
        fprintf(out, "%.3f,%lld,%d,%d,%s,%d,%.4f,%.4f,", (double)s->due_ns / 1e6,
                (long long)s->index, s->n_words, s->bucket, failure_names[s->failure],
                s->http_status, (double)s->latency_ms, (double)s->service_ms);
        if (s->total_ms >= 0) {
            fprintf(out, "%.3f", (double)s->total_ms);
        }
        for (int k = 0; k < n; k++) {
            fputc(',', out);
            if (s->has & (1U << k)) {
                fprintf(out, "%.3f", (double)s->ms[k]);
            }
        }
        fputc('\n', out);
    }
}
