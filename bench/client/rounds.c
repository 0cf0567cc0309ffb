/* rounds.c - repeats rounds. Until stable: until the 95 % intervals of throughput and p99 over the
 * rounds' own values are as narrow as asked. A search: rates double until the goal breaks, then the
 * gap between the best that held and the least that broke is halved, in ratio, and the best is held
 * to a second round, since one lucky round is no rate. */
#include "bench/client/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIN_ROUNDS = 3, KEPT_TRIES = 3 }; // kept to confirm what was found
#define MAX_ERROR_RATE 0.01              // more, and a rate does not hold, whatever the latencies
#define MAX_BEHIND_SHARE 0.1             // of what was due may be unanswered at the end,
#define MAX_BEHIND 3                     // beside these and what is under way for the goal's time

struct interval interval_of(const double *values, int n) {
    /* t for 95 %, two-sided, 1 to 30 degrees of freedom. */
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                               2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                               2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                               2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    double mean = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        mean += values[i] / n;
    }
    if (n < 2) {
        return (struct interval){mean, INFINITY};
    }
    for (int i = 0; i < n; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
    }
    const double error = sqrt(squares / (n - 1) / n);
    return (struct interval){mean, error * (n - 2 < (int)N_ITEMS(t) ? t[n - 2] : 1.96)};
}

static const char *progress_title(const struct result *r, char *text, size_t size, int number) {
    if (r->cfg->quiet || !isatty(STDERR_FILENO)) {
        return NULL;
    }
    if (r->cfg->until_stable || r->cfg->find_rate) {
        snprintf(text, size, "round %d, %.2f/s", number, r->load->plan.rate.phases[0].first);
    } else {
        snprintf(text, size, "load");
    }
    return text;
}
static enum status run_one(struct round *out, const struct result *r, struct plan *p, int number,
                           struct error *err) {
    char title[64];
    const char *shown = progress_title(r, title, sizeof(title), number);
    return round_run(out, p, r->cfg->max_samples, shown, err);
}
/* Adds a round to the sum, which takes it over when it was empty. */
static void add_round(struct round *sum, struct round *one) {
    if (!sum->sum) {
        *sum = *one;
        one->sum = NULL;
        return;
    }
    const double n_ok = sum->throughput * sum->window_s + one->throughput * one->window_s;
    record_add(sum->sum, one->sum);
    sum->window_s += one->window_s;
    sum->wall_s += one->wall_s;
    sum->throughput = sum->window_s > 0 ? n_ok / sum->window_s : 0;
    sum->stop = one->stop;
    memcpy(sum->reason, one->reason, sizeof(sum->reason));
}
static void judge_rounds(struct result *r) {
    r->throughput = interval_of(r->round_throughput, r->n_rounds);
    r->p99_ms = interval_of(r->round_p99_ms, r->n_rounds);
    r->is_stable = r->n_rounds >= MIN_ROUNDS &&
                   r->throughput.half_width <= r->cfg->precision * r->throughput.mean &&
                   r->p99_ms.half_width <= r->cfg->precision * r->p99_ms.mean;
}
static enum status run_until_stable(struct result *r, struct round *sum, struct plan *p,
                                    struct error *err) {
    while (!r->is_stable && r->n_rounds < r->cfg->max_rounds) {
        struct round one = {.sum = NULL};
        const enum status s = run_one(&one, r, p, r->n_rounds + 1, err);
        if (!s) {
            p->offset_ns += (int64_t)(one.window_s * 1e9);
            p->seed++;
            r->round_throughput[r->n_rounds] = one.throughput;
            r->round_p99_ms[r->n_rounds++] = (double)hist_quantile(&one.sum->latency, 0.99) / 1e6;
            add_round(sum, &one);
        }
        round_finish(&one);
        if (s || sum->stop) {
            return s;
        }
        judge_rounds(r);
    }
    return STATUS_OK;
}

/* One round at `rate`; the best that holds becomes the result's own round. */
static enum status try_rate(struct result *r, struct round *best, struct plan *p, double rate,
                            bool *holds, struct error *err) {
    struct round one = {.sum = NULL};
    p->rate.phases[0].first = p->rate.phases[0].last = rate;
    p->seed++;
    const enum status s = run_one(&one, r, p, r->n_tries + 1, err);
    if (s) {
        round_finish(&one);
        return s;
    }
    const struct record *sum = one.sum;
    const double n_behind = (double)(sum->n_due - sum->n_ok_in_window);
    const double may_be_behind =
        MAX_BEHIND + MAX_BEHIND_SHARE * (double)sum->n_due + rate * r->goal.value / 1e3;
    struct rate_try *t = &r->tries[r->n_tries++];
    *t = (struct rate_try){.rate = rate,
                           .value_ms = criterion_value(&r->goal, &one),
                           .throughput = one.throughput,
                           .error_rate =
                               sum->n_due ? (double)record_failures(sum) / (double)sum->n_due : 1};
    *holds = t->holds = !one.stop && !criterion_holds(&r->goal, &one) &&
                        t->error_rate <= MAX_ERROR_RATE && n_behind <= may_be_behind;
    if (t->holds || one.stop || !best->sum || r->found_rate <= 0) {
        round_finish(best);
        *best = one;
    } else {
        round_finish(&one);
    }
    return STATUS_OK;
}
static bool has_tries(const struct result *r, int n_kept) {
    return r->n_tries + n_kept < r->cfg->max_rounds;
}
static enum status search(struct result *r, struct round *best, struct plan *p, struct error *err) {
    double rate = p->rate.phases[0].first, low = 0, high = 0;
    while (has_tries(r, KEPT_TRIES)) {
        bool holds = false;
        const enum status s = try_rate(r, best, p, rate, &holds, err);
        if (s || best->stop) {
            return s;
        }
        low = holds ? rate : low;
        high = holds ? high : rate;
        r->found_rate = low;
        if (low > 0 && high > 0 && high / low - 1 <= r->cfg->precision) {
            break;
        }
        rate = high <= 0 ? 2 * low : low <= 0 ? high / 2 : sqrt(low * high);
        if (rate > SCHEDULE_MAX_RATE || rate < 0.1) {
            break;
        }
    }
    return STATUS_OK;
}
/* The rate that was found has to hold again; while it does not, it is lowered by the precision. */
static enum status confirm(struct result *r, struct round *best, struct plan *p,
                           struct error *err) {
    bool holds = false;
    while (r->found_rate > 0 && !holds && has_tries(r, 0)) {
        const enum status s = try_rate(r, best, p, r->found_rate, &holds, err);
        if (s || best->stop) {
            return s;
        }
        r->found_rate *= holds ? 1 : 1 - r->cfg->precision;
    }
    r->found_rate = holds ? r->found_rate : 0;
    return STATUS_OK;
}
enum status rounds_run(struct result *r, struct round *sum, struct plan *p, struct error *err) {
    if (r->cfg->find_rate) {
        const enum status s = search(r, sum, p, err);
        return s || sum->stop ? s : confirm(r, sum, p, err);
    }
    if (r->cfg->until_stable) {
        return run_until_stable(r, sum, p, err);
    }
    return run_one(sum, r, p, 1, err);
}
