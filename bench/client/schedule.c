/* schedule.c - arrivals as a walk through work: gaps of mean 1 (none but 1 for a constant rate,
 * exponential for Poisson, gamma for bursts) are laid along the integral of the rate, and each
 * arrival is where the integral reaches it. So steps and ramps need no kinds of their own. Bursts
 * have shape 0.25: a coefficient of variation of 2. */
#include "bench/client/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"

#define BURST_SHAPE 0.25
#define WORK_EPSILON 1e-6

/* One number; *at goes behind it. */
static bool take_number(const char **at, double most, double *out) {
    char *end = NULL;
    if (!strchr("0123456789.", **at) || !**at) {
        return false; // strtod would take "inf", "nan", "0x1p3" and signs
    }
    *out = strtod(*at, &end);
    const bool is_plain = (size_t)(end - *at) == strspn(*at, "0123456789.e");
    *at = end;
    return is_plain && *out >= 0 && *out <= most;
}
static bool take_phase(const char **at, double seconds, bool *has_seconds, struct phase *out) {
    if (!take_number(at, SCHEDULE_MAX_RATE, &out->first)) {
        return false;
    }
    out->last = out->first;
    out->seconds = seconds;
    if (**at == '-' && (++*at, !take_number(at, SCHEDULE_MAX_RATE, &out->last))) {
        return false;
    }
    *has_seconds = **at == ':';
    if (*has_seconds && (++*at, !take_number(at, SCHEDULE_MAX_SECONDS, &out->seconds))) {
        return false;
    }
    *at += **at == 's' && *has_seconds;
    return (**at == ',' || !**at) && out->seconds > 0;
}
enum status rate_plan_parse(struct rate_plan *out, const char *text, double seconds,
                            struct error *err) {
    const char *at = text;
    double most = 0;
    struct rate_plan p = {.n = 0};
    bool has_seconds = true;
    do {
        at += p.n > 0; // the comma
        if (p.n == SCHEDULE_MAX_PHASES) {
            return error_set(err, STATUS_INVALID, "more than %d phases", SCHEDULE_MAX_PHASES);
        }
        struct phase *phase = &p.phases[p.n];
        if (!take_phase(&at, seconds, &has_seconds, phase) || (p.n > 0 && !has_seconds)) {
            return error_set(err, STATUS_INVALID,
                             "\"%.80s\" is no rate: 100, or steps and ramps as "
                             "RATE:SECONDS or FIRST-LAST:SECONDS, with commas between; rates to %g",
                             text, SCHEDULE_MAX_RATE);
        }
        most = fmax(most, fmax(phase->first, phase->last));
        p.n++;
    } while (*at == ',' && has_seconds);
    if (*at) {
        return error_set(err, STATUS_INVALID, "\"%.80s\": a step needs its seconds, as in 100:10",
                         text);
    }
    if (most <= 0) {
        return error_set(err, STATUS_INVALID, "\"%.80s\": the rate is 0 all the time", text);
    }
    *out = p;
    return STATUS_OK;
}
double rate_plan_seconds(const struct rate_plan *p) {
    double sum = 0;
    for (int i = 0; i < p->n; i++) {
        sum += p->phases[i].seconds;
    }
    return sum;
}
double rate_plan_requests(const struct rate_plan *p) {
    double sum = 0;
    for (int i = 0; i < p->n; i++) {
        sum += (p->phases[i].first + p->phases[i].last) / 2 * p->phases[i].seconds;
    }
    return sum;
}

static double trace_mean_rate(const struct trace *t, double speed) {
    const double seconds = t->n > 0 ? (double)t->arrivals[t->n - 1].at_ns / 1e9 / speed : 0;
    return seconds > 0 ? t->n / seconds : 1;
}
void schedule_init(struct schedule *s, enum arrival_kind kind, const struct rate_plan *plan,
                   const struct trace *trace, double speed, double warmup_s, uint64_t seed) {
    *s = (struct schedule){
        .kind = kind, .trace = trace, .speed = speed, .warmup_s = warmup_s, .is_first = true};
    random_seed(&s->random, seed);
    const double first = trace ? trace_mean_rate(trace, speed) : plan->phases[0].first;
    s->plan.phases[0] = (struct phase){first, first, warmup_s};
    s->plan.n = warmup_s > 0;
    for (int i = 0; !trace && i < plan->n && s->plan.n < SCHEDULE_MAX_PHASES; i++) {
        s->plan.phases[s->plan.n++] = plan->phases[i];
    }
}

static double draw_gap(struct schedule *s) {
    switch (s->kind) {
    case ARRIVE_POISSON: return random_exponential(&s->random);
    case ARRIVE_BURSTS: return random_gamma(&s->random, BURST_SHAPE) / BURST_SHAPE;
    case ARRIVE_CONSTANT:
    case N_ARRIVAL_KINDS: break;
    }
    return s->is_first ? 0 : 1;
}
/* How long from s->t on until the phase has done `work`; beyond its end: *work is what is left. */
static bool walk(struct schedule *s, double *work) {
    const struct phase *p = &s->plan.phases[s->phase];
    const double slope = (p->last - p->first) / p->seconds, rate = p->first + slope * s->t;
    const double rest = p->seconds - s->t, to_end = (rate + p->last) / 2 * rest;
    if (*work >= to_end - WORK_EPSILON) { // a whole number of gaps must not hang on rounding
        *work = fmax(0, *work - to_end);
        return false;
    }
    /* The root of slope/2 dt² + rate dt = work that loses no digits. */
    s->t += *work > 0 ? 2 * *work / (rate + sqrt(fmax(0, rate * rate + 2 * slope * *work))) : 0;
    return true;
}
static bool next_of_plan(struct schedule *s, double *at_s) {
    double work = draw_gap(s);
    s->is_first = false;
    while (s->phase < s->plan.n) {
        if (walk(s, &work)) {
            *at_s = s->begin + s->t;
            return true;
        }
        s->begin += s->plan.phases[s->phase++].seconds;
        s->t = 0;
    }
    return false;
}
bool schedule_next(struct schedule *s, struct due *out) {
    double at_s;
    *out = (struct due){.arrival = NULL};
    if (next_of_plan(s, &at_s)) {
        out->at_ns = (int64_t)(at_s * 1e9);
        out->is_warmup = s->phase == 0 && s->warmup_s > 0;
        out->index = out->is_warmup ? s->n_warm++ : s->index++;
        return true;
    }
    if (!s->trace || s->index >= s->trace->n) {
        return false;
    }
    const struct arrival *a = &s->trace->arrivals[s->index];
    out->at_ns = (int64_t)(s->warmup_s * 1e9 + (double)a->at_ns / s->speed);
    out->arrival = a;
    out->index = s->index++;
    return true;
}
