/* tune_confirm.c - the busiest stretch of the load, played against a running server with the
 * settings in force and with the proposal, beside what the simulation says of the same stretch.
 * They take turns, before, proposal, proposal, before and so on, so that a machine that gets slower
 * or faster meanwhile favours neither, and settings change once a round. The load client is
 * bench/client's. Signals wait until the old settings are back: a turn looks for them, and what is
 * left of one takes effect afterwards. */
#include "server/tune.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/timing.h"
#include "bench/client/prepare.h"
#include "bench/client/round.h"

#define WARM_UP_S 1.0
enum { RESTORE_TRIES = 3, RESTORE_PAUSE_MS = 500 };

enum { UNKNOWN = -1, BEFORE, PROPOSAL, N_SIDES };
struct trial { // all turns of one side
    double predicted_p50_ms, predicted_p99_ms;
    struct record *sum; // owned; NULL: not played
    double seconds, n_in_time;
    double turn_p99_ms[TUNE_MAX_ROUNDS];
    int n_turns;
};

static double ms(int64_t ns) {
    return (double)ns / NS_PER_MS;
}
/* Into a zeroed trace: the stretch of `length_ns` in which the most arrivals are. */
static void busiest(struct trace *out, const struct trace *t, int64_t length_ns) {
    int first = 0, n = 0;
    for (int from = 0, to = 0; from < t->n; from++) {
        while (to < t->n && t->arrivals[to].at_ns - t->arrivals[from].at_ns < length_ns) {
            to++;
        }
        if (to - from > n) {
            first = from, n = to - from;
        }
    }
    for (int i = first; i < first + n; i++) {
        struct arrival a = t->arrivals[i];
        a.at_ns -= t->arrivals[first].at_ns;
        trace_add(out, &a);
    }
}
static enum status predict(struct trial *out, const struct tune_task *t,
                           const struct policy_config *policy, const struct trace *stretch,
                           struct error *err) {
    const int all[] = {t->max_input_tokens};
    struct sim_config sim = t->sim;
    struct sim_result r;
    sim.queues.policy = *policy;
    const enum status s = simulate(&r, &sim, stretch, all, 1, INT64_MAX, err);
    if (!s) {
        out->predicted_p50_ms = ms(r.all.p50_ns);
        out->predicted_p99_ms = ms(r.all.p99_ns);
    }
    return s;
}

static enum status prepare(struct load *out, const struct tune_task *t, const struct trace *stretch,
                           struct error *err) {
    const char *client_key = getenv("BERTH_API_KEY"), *admin_key = getenv("BERTH_ADMIN_KEY");
    const char *key = client_key ? client_key : admin_key;
    struct bench_config cfg = bench_defaults;
    char rate[40], header[512];
    snprintf(rate, sizeof(rate), "%.3f", stretch->n / t->request.confirm_s); // of the warm-up
    cfg.url = t->request.url;
    cfg.rate = rate;
    cfg.duration_s = t->request.confirm_s;
    cfg.warmup_s = WARM_UP_S;
    cfg.max_tokens = t->max_input_tokens;
    if (key) {
        const int n = snprintf(header, sizeof(header), "Authorization: Bearer %s", key);
        if (n < 0 || (size_t)n >= sizeof(header)) {
            return error_set(err, STATUS_INVALID, "the key in the environment is too long");
        }
        cfg.headers[cfg.n_headers++] = header;
    }
    const enum status s = load_prepare(out, &cfg, err);
    out->plan.trace = stretch;
    out->plan.speed = 1;
    return s;
}
static const char *first_example(const struct record *r) {
    for (int i = 0; i < N_FAILURES; i++) {
        if (r->example[i][0]) {
            return r->example[i];
        }
    }
    return "no answer at all";
}
static void add_turn(struct trial *t, struct round *turn) {
    t->turn_p99_ms[t->n_turns++] = ms(hist_quantile(&turn->sum->latency, 0.99));
    t->seconds += turn->window_s;
    t->n_in_time += turn->throughput * turn->window_s;
    if (t->sum) {
        record_add(t->sum, turn->sum);
    } else {
        t->sum = turn->sum;
        turn->sum = NULL;
    }
}
static enum status play(struct trial *out, struct load *load, struct error *err) {
    struct round turn;
    enum status s = round_run(&turn, &load->plan, 1, NULL, err);
    if (!s && turn.stop) {
        s = error_set(err, STATUS_IO, "confirming: %s", turn.reason);
    }
    if (!s && turn.sum->n_ok == 0) {
        s = error_set(err, STATUS_IO, "confirming: nothing was answered: %.200s",
                      first_example(turn.sum));
    }
    if (!s) {
        add_turn(out, &turn);
    }
    round_finish(&turn);
    return s;
}

/* What goes over the turns of both sides. */
struct confirmation {
    const struct tune_task *task;
    const struct policy_config *policies[N_SIDES];
    struct load *load;
    struct trial trials[N_SIDES];
    int in_force; // of the policies; UNKNOWN: a change was not answered
};
static enum status put_in_force(struct confirmation *c, int side, struct error *err) {
    const enum status s =
        c->in_force == side ? STATUS_OK : tune_put_policy(c->task, c->policies[side], err);
    if (s != STATUS_INVALID) { // what was refused has changed nothing
        c->in_force = s ? UNKNOWN : side;
    }
    return s;
}
static enum status play_turns(struct confirmation *c, int n_sides, struct error *err) {
    enum status s = STATUS_OK;
    for (int i = 0; !s && i < n_sides * c->task->request.confirm_rounds; i++) {
        const int round = i / n_sides, place = i % n_sides;
        const int side = round % 2 == 0 ? place : n_sides - 1 - place;
        s = put_in_force(c, side, err);
        s = s ? s : play(&c->trials[side], c->load, err);
    }
    return s;
}
/* A server that does not answer for a moment, as one that is stopped or overloaded, is asked again.
 */
static enum status put_back(struct confirmation *c, struct error *err) {
    const struct timespec pause = {.tv_nsec = RESTORE_PAUSE_MS * NS_PER_MS};
    enum status s = put_in_force(c, BEFORE, err);
    for (int i = 1; s && i < RESTORE_TRIES; i++) {
        nanosleep(&pause, NULL);
        s = put_in_force(c, BEFORE, err);
    }
    return s;
}
static enum status end_turns(struct confirmation *c, enum status s, struct error *err) {
    struct error why = {.text = ""};
    if (!s && c->task->request.keeps && c->policies[PROPOSAL] != c->policies[BEFORE]) {
        s = put_in_force(c, PROPOSAL, err);
    }
    if (!s && c->task->request.keeps) {
        return s;
    }
    const enum status restored = put_back(c, &why);
    if (!restored) {
        return s;
    }
    const struct error played = *err;
    return error_set(err, restored,
                     "%.200s%sthe server may still have the proposal in force; a reload or a "
                     "restart takes it back: %.200s",
                     s ? played.text : "", s ? "; " : "", why.text);
}
static enum status play_all(struct confirmation *c, struct error *err) {
    const int n_sides = c->policies[PROPOSAL] != c->policies[BEFORE] ? N_SIDES : 1;
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    enum status s = play_turns(c, n_sides, err);
    s = end_turns(c, s, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

static double quantile_ms(const struct trial *t, double q) {
    return t->sum ? ms(hist_quantile(&t->sum->latency, q)) : NAN;
}
static void print_trial(FILE *out, const char *name, const struct trial *t) {
    fprintf(out, "%-14s  %8.1f  %8.1f  %9.1f  %8.1f  %10.1f  %8lld\n", name, t->predicted_p50_ms,
            t->predicted_p99_ms, quantile_ms(t, 0.5), quantile_ms(t, 0.99),
            t->n_in_time / t->seconds, (long long)record_failures(t->sum));
}
/* The mean of the rounds' own ratios: what drifts is alike within one. */
static void print_ratio(FILE *out, const struct trial trials[N_SIDES]) {
    const int n = trials[PROPOSAL].n_turns;
    double sum = 0, low = INFINITY, high = 0;
    for (int i = 0; i < n; i++) {
        const double r = trials[PROPOSAL].turn_p99_ms[i] / trials[BEFORE].turn_p99_ms[i];
        sum += log(r);
        low = fmin(low, r), high = fmax(high, r);
    }
    fprintf(out, "\nMeasured, the proposal's p99 is %.2f times that of before", exp(sum / n));
    if (n > 1) {
        fprintf(out, " (the %d rounds' own: %.2f to %.2f%s)", n, low, high,
                low < 1 && high > 1 ? "; they disagree" : "");
    }
    fputs(".\n", out);
}
static void print_trials(FILE *out, const struct tune_task *t, const struct tune_report *r,
                         const struct trial trials[N_SIDES]) {
    const struct trial *last = &trials[r->best > 0 ? PROPOSAL : BEFORE];
    fprintf(out, "\n%-14s  %-18s  %-19s\n%-14s  %8s  %8s  %9s  %8s  %10s  %8s\n", "", "predicted",
            " measured", "milliseconds", "p50", "p99", "p50", "p99", "answers/s", "failed");
    print_trial(out, "before", &trials[BEFORE]);
    if (r->best == 0) {
        fputs("\nNothing was changed on the server: there is no better proposal.\n", out);
    } else {
        print_trial(out, "proposal", &trials[PROPOSAL]);
        print_ratio(out, trials);
        fputs(t->request.keeps ? "The server keeps it until its next reload or start; the settings "
                                 "above make it last.\n"
                               : "The server has its old settings again.\n",
              out);
    }
    if (t->request.p99_ns) {
        const bool is_held =
            quantile_ms(last, 0.99) <= ms(t->request.p99_ns) && record_failures(last->sum) == 0;
        fprintf(out, "Measured, p99=%gms %s.\n", ms(t->request.p99_ns),
                is_held ? "is held" : "is not held");
    }
}
enum status tune_confirm(FILE *out, const struct tune_task *t, const struct tune_report *r,
                         struct error *err) {
    struct confirmation c = {.task = t,
                             .policies = {&r->rows[0].policy, &r->rows[r->best].policy},
                             .load = xcalloc(1, sizeof(*c.load))};
    struct trace stretch = {0};
    busiest(&stretch, &t->trace, (int64_t)(t->request.confirm_s * (double)NS_PER_S));
    fprintf(out,
            "\nconfirming on %s: the busiest %g s of the load, %d arrivals, after %g s of warm-up, "
            "%d times with each\n",
            t->request.url, t->request.confirm_s, stretch.n, WARM_UP_S, t->request.confirm_rounds);
    fflush(out); // it takes a while
    enum status s = STATUS_OK;
    for (int i = 0; !s && i < N_SIDES; i++) {
        s = predict(&c.trials[i], t, c.policies[i], &stretch, err);
    }
    s = s ? s : prepare(c.load, t, &stretch, err);
    s = s ? s : play_all(&c, err);
    if (!s) {
        print_trials(out, t, r, c.trials);
    }
    for (int i = 0; i < N_SIDES; i++) {
        record_destroy(c.trials[i].sum);
    }
    load_finish(c.load);
    free(c.load);
    trace_finish(&stretch);
    return s;
}
