/* reports.c - what the reports of an experiment and of a sweep have in common: files, and one set
 * of figures as JSON and CSV. */
#include "bench/experiment/way.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char report_css[] =
    ".good{background:#e6f4ea;padding:.6em 1em;border-left:4px solid #3a9d5d}\n";

enum status experiment_open(struct report reports[N_REPORTS], const struct bench_config *cfg,
                            struct error *err) {
    const char *const paths[N_REPORTS] = {cfg->json, cfg->csv, cfg->html};
    static const char *const options[N_REPORTS] = {"--json", "--csv", "--html"};
    for (int i = 0; i < N_REPORTS; i++) {
        reports[i].path = paths[i], reports[i].option = options[i];
    }
    return reports_open(reports, N_REPORTS, err);
}

enum { N_NUMBERS = 16, N_COUNTS = 4 };
static const char *const number_names[N_NUMBERS] = {"offered_per_s",
                                                    "seconds",
                                                    "requests_per_s",
                                                    "tokens_per_s",
                                                    "mean_ms",
                                                    "p50_ms",
                                                    "p95_ms",
                                                    "p99_ms",
                                                    "max_ms",
                                                    "padding_ratio",
                                                    "attention_share",
                                                    "cpu_utilisation",
                                                    "cpu_ms_per_request",
                                                    "first_third_ms",
                                                    "last_third_ms",
                                                    "steady"};
static const char *const count_names[N_COUNTS] = {"due", "answered", "failed", "timeouts"};
const char figures_csv_header[] =
    "offered_per_s,seconds,requests_per_s,tokens_per_s,mean_ms,p50_ms,p95_ms,p99_ms,max_ms,"
    "padding_ratio,attention_share,cpu_utilisation,cpu_ms_per_request,first_third_ms,"
    "last_third_ms,steady,due,answered,failed,timeouts";

static void list_numbers(double out[N_NUMBERS], const struct figures *f) {
    const double all[N_NUMBERS] = {f->offered > 0 ? f->offered : NAN,
                                   f->seconds,
                                   f->throughput,
                                   f->tokens_per_s,
                                   f->mean_ms,
                                   f->p50_ms,
                                   f->p95_ms,
                                   f->p99_ms,
                                   f->max_ms,
                                   f->padding,
                                   f->attention,
                                   f->cpu,
                                   f->cpu_ms,
                                   f->early_ms,
                                   f->late_ms,
                                   f->offered > 0 ? (double)f->is_steady : NAN};
    memcpy(out, all, sizeof(all));
}
static void list_counts(int64_t out[N_COUNTS], const struct figures *f) {
    const int64_t all[N_COUNTS] = {f->n_due, f->n_ok, f->n_failed, f->n_timeouts};
    memcpy(out, all, sizeof(all));
}
void figures_json(FILE *out, const struct figures *f) {
    double numbers[N_NUMBERS];
    int64_t counts[N_COUNTS];
    list_numbers(numbers, f);
    list_counts(counts, f);
    fprintf(out, "{\"partial\": %s", f->is_partial ? "true" : "false");
    for (int i = 0; i < N_NUMBERS; i++) {
        fprintf(out, ", \"%s\": ", number_names[i]);
        if (i == N_NUMBERS - 1 && isfinite(numbers[i])) {
            fputs(numbers[i] > 0 ? "true" : "false", out);
        } else {
            json_number(out, numbers[i]);
        }
    }
    for (int i = 0; i < N_COUNTS; i++) {
        fprintf(out, ", \"%s\": %" PRId64, count_names[i], counts[i]);
    }
    fputc('}', out);
}
void figures_csv(FILE *out, const struct figures *f) {
    double numbers[N_NUMBERS];
    int64_t counts[N_COUNTS];
    list_numbers(numbers, f);
    list_counts(counts, f);
    for (int i = 0; i < N_NUMBERS; i++) {
        if (isfinite(numbers[i])) {
            fprintf(out, "%.6g", numbers[i]);
        }
        fputc(',', out);
    }
    for (int i = 0; i < N_COUNTS; i++) {
        fprintf(out, "%s%" PRId64, i ? "," : "", counts[i]);
    }
}
