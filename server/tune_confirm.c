/* tune_confirm.c - the busiest stretch of the load, played against a running server with the
 * settings in force and with the proposal, beside what the simulation says of the same stretch.
 * The load client is bench/client's. Signals wait until the old settings are back: a round looks
 * for them, and what is left of one takes effect afterwards. */
#include "server/tune.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "bench/client/prepare.h"
#include "bench/client/round.h"

#define WARM_UP_S 1.0

struct trial {
    double predicted_p50_ms, predicted_p99_ms, p50_ms, p99_ms, answers_per_s;
    int64_t n_failed;
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
static enum status play(struct trial *out, struct load *load, const char *title,
                        struct error *err) {
    struct round round;
    enum status s = round_run(&round, &load->plan, 1, title, err);
    if (!s && round.stop) {
        s = error_set(err, STATUS_IO, "confirming: %s", round.reason);
    }
    if (!s && round.sum->n_ok == 0) {
        s = error_set(err, STATUS_IO, "confirming: nothing was answered: %.200s",
                      first_example(round.sum));
    }
    if (!s) {
        out->p50_ms = ms(hist_quantile(&round.sum->latency, 0.5));
        out->p99_ms = ms(hist_quantile(&round.sum->latency, 0.99));
        out->answers_per_s = round.throughput;
        out->n_failed = record_failures(round.sum);
    }
    round_finish(&round);
    return s;
}

/* With the proposal in force; the old settings come back even if it could not be played. */
static enum status play_proposal(struct trial *out, struct load *load, const struct tune_task *t,
                                 const struct tune_report *r, const char *title,
                                 struct error *err) {
    struct error restore_err = {.text = ""};
    enum status s = tune_put_policy(t, &r->rows[r->best].policy, err);
    if (s) {
        return s; // nothing has changed
    }
    s = play(out, load, title, err);
    if (s || !t->request.keeps) {
        const enum status restored = tune_put_policy(t, &r->rows[0].policy, &restore_err);
        if (restored) {
            return error_set(err, restored, "the server still has the proposal in force: %.300s",
                             restore_err.text);
        }
    }
    return s;
}
static enum status play_both(struct trial trials[2], struct load *load, const struct tune_task *t,
                             const struct tune_report *r, struct error *err) {
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    enum status s = play(&trials[0], load, NULL, err);
    if (!s && r->best > 0) {
        s = play_proposal(&trials[1], load, t, r, NULL, err);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

static void print_trial(FILE *out, const char *name, const struct trial *t) {
    fprintf(out, "%-14s  %8.1f  %8.1f  %9.1f  %8.1f  %10.1f  %8lld\n", name, t->predicted_p50_ms,
            t->predicted_p99_ms, t->p50_ms, t->p99_ms, t->answers_per_s, (long long)t->n_failed);
}
static void print_trials(FILE *out, const struct tune_task *t, const struct tune_report *r,
                         const struct trial trials[2]) {
    const struct trial *last = &trials[r->best > 0];
    fprintf(out, "\n%-14s  %-18s  %-19s\n%-14s  %8s  %8s  %9s  %8s  %10s  %8s\n", "", "predicted",
            " measured", "milliseconds", "p50", "p99", "p50", "p99", "answers/s", "failed");
    print_trial(out, "before", &trials[0]);
    if (r->best == 0) {
        fputs("\nNothing was changed on the server: there is no better proposal.\n", out);
    } else {
        print_trial(out, "proposal", &trials[1]);
        fprintf(out, "\nMeasured, the proposal's p99 is %.2f times that of before. %s\n",
                trials[1].p99_ms / trials[0].p99_ms,
                t->request.keeps ? "The server keeps it until its next\nreload or start; the "
                                   "settings above make it last."
                                 : "The server has its old settings again.");
    }
    if (t->request.p99_ns) {
        fprintf(out, "Measured, p99=%gms %s.\n", ms(t->request.p99_ns),
                last->p99_ms <= ms(t->request.p99_ns) && last->n_failed == 0 ? "is held"
                                                                             : "is not held");
    }
}
enum status tune_confirm(FILE *out, const struct tune_task *t, const struct tune_report *r,
                         struct error *err) {
    struct trial trials[2] = {{0}};
    struct trace stretch = {0};
    struct load *load = xcalloc(1, sizeof(*load));
    busiest(&stretch, &t->trace, (int64_t)(t->request.confirm_s * (double)NS_PER_S));
    fprintf(
        out,
        "\nconfirming on %s: the busiest %g s of the load, %d arrivals, after %g s of warm-up\n",
        t->request.url, t->request.confirm_s, stretch.n, WARM_UP_S);
    fflush(out); // it takes a while
    enum status s = predict(&trials[0], t, &r->rows[0].policy, &stretch, err);
    s = s ? s : predict(&trials[1], t, &r->rows[r->best].policy, &stretch, err);
    s = s ? s : prepare(load, t, &stretch, err);
    s = s ? s : play_both(trials, load, t, r, err);
    if (!s) {
        print_trials(out, t, r, trials);
    }
    load_finish(load);
    free(load);
    trace_finish(&stretch);
    return s;
}
