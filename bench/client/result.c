/* result.c - what more than one report says, worked out once. */
#include "bench/client/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool result_is_partial(const struct result *r) {
    return r->round->stop != STOP_NOT;
}
static void add_slow_shares(struct stage_share *out, int n, const struct record *sum) {
    const float bound_ms = (float)hist_quantile(&sum->latency, 0.99) / 1e6F * 0.999F;
    double total_ms = 0, ms[STAGES_MAX] = {0};
    for (int64_t i = 0; i < sum->n_samples; i++) {
        const struct sample *s = &sum->samples[i];
        if (s->failure != FAILURE_NONE || s->latency_ms < bound_ms || s->total_ms < 0) {
            continue;
        }
        total_ms += (double)s->total_ms;
        for (int k = 0; k < n; k++) {
            ms[k] += s->has & (1U << k) ? (double)s->ms[k] : 0;
        }
    }
    for (int k = 0; k < n; k++) {
        out[k].slow_share = total_ms > 0 ? ms[k] / total_ms : NAN;
    }
}
int result_stages(struct stage_share out[STAGES_MAX], const struct result *r) {
    const struct record *sum = r->round->sum;
    const struct stages *names = &r->load->stages;
    const int n = atomic_load(&names->n);
    double total_ms = sum->total_ms;
    for (int i = 0; i < n && sum->total_n == 0; i++) { // no "total": the stages' own sum
        total_ms += sum->stage_ms[i];
    }
    for (int i = 0; i < n; i++) {
        out[i] = (struct stage_share){
            .name = names->names[i],
            .mean_ms = sum->stage_n[i] ? sum->stage_ms[i] / (double)sum->stage_n[i] : 0,
            .share = total_ms > 0 ? sum->stage_ms[i] / total_ms : 0};
    }
    add_slow_shares(out, n, sum);
    return n;
}
static int compare_buckets(const void *a, const void *b) {
    const struct bucket_record *x = *(const struct bucket_record *const *)a;
    const struct bucket_record *y = *(const struct bucket_record *const *)b;
    return x->is_told != y->is_told ? y->is_told - x->is_told
                                    : (x->up_to > y->up_to) - (x->up_to < y->up_to);
}
int result_buckets(const struct bucket_record *out[RECORD_MAX_BUCKETS], const struct result *r) {
    const struct record *sum = r->round->sum;
    for (int i = 0; i < sum->n_buckets; i++) {
        out[i] = &sum->buckets[i];
    }
    qsort(out, (size_t)sum->n_buckets, sizeof(out[0]), compare_buckets);
    return sum->n_buckets;
}
void result_describe_load(char *out, size_t size, const struct result *r) {
    const struct plan *p = &r->load->plan;
    char how[200];
    if (p->is_closed_loop) {
        snprintf(how, sizeof(how), "closed loop, %d connections", p->n_connections);
    } else if (p->trace) {
        snprintf(how, sizeof(how), "open loop, trace %.100s at speed %g", r->cfg->trace, p->speed);
    } else {
        snprintf(how, sizeof(how), "open loop, %s, %.100s/s", arrival_kind_names[p->kind],
                 r->cfg->rate ? r->cfg->rate : "50");
    }
    snprintf(out, size, "%s, %.1f s after %g s of warm-up, %d thread%s, seed %lld", how,
             r->round->window_s, p->warmup_s, p->n_threads, p->n_threads > 1 ? "s" : "",
             (long long)r->cfg->seed);
}
/* Even steps where the values lie close together, even ratios where they do not. */
int result_display_rows(struct display_row out[DISPLAY_ROWS], const struct hist *h) {
    const double low = (double)(h->min > 0 ? h->min : 1), high = (double)h->max;
    const bool is_narrow = high < 4 * low;
    uint64_t seen = 0;
    int n = 0;
    for (int i = 1; i <= DISPLAY_ROWS && h->count > 0 && seen < h->count; i++) {
        const double part = (double)i / DISPLAY_ROWS;
        const double edge = is_narrow ? low + (high - low) * part : low * pow(high / low, part);
        const int64_t upper_ns = i < DISPLAY_ROWS ? (int64_t)edge : h->max;
        const uint64_t up_to = i < DISPLAY_ROWS ? hist_count_le(h, upper_ns) : h->count;
        out[n++] = (struct display_row){upper_ns, up_to - seen};
        seen = up_to;
    }
    return n;
}
