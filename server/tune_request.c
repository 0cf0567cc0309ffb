/* tune_request.c - the options of `berth tune`: their table, and their values read strictly. */
#include "server/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "server/commands.h"

enum {
    OPT_TRACE,
    OPT_LENGTHS,
    OPT_RATE,
    OPT_ARRIVALS,
    OPT_COUNT,
    OPT_SLO,
    OPT_SIMULATE,
    OPT_COST,
    OPT_URL,
    OPT_OUT,
    OPT_SEED,
    OPT_BUDGET,
    OPT_CONFIRM,
    OPT_CONFIRM_ROUNDS,
    OPT_KEEP,
    N_OPTS,
};
static const struct own_option rows[N_OPTS] = {
    [OPT_TRACE] = {"trace", "FILE",
                   "The load: a file that `berth serve --record FILE` wrote (at_ms,tokens,...)."},
    [OPT_LENGTHS] =
        {"lengths", "FILE|NAME",
         "Or lengths to draw from: what GET /debug/lengths answered, lines of TOKENS or "
         "TOKENS,COUNT,\n      or chat, reviews, queries, documents, bimodal, mixed, "
         "fixed:N, lognormal:MEDIAN:SIGMA."},
    [OPT_RATE] = {"rate", "R",
                  "Arrivals a second, with --lengths; default: what the file says, if it does."},
    [OPT_ARRIVALS] = {"arrivals", "KIND",
                      "How they come, with --lengths: poisson (default), constant, bursts."},
    [OPT_COUNT] = {"count", "N",
                   "How many to make, with --lengths; 100 to 1000000; default 60000."},
    [OPT_SLO] =
        {"slo", "p99=TIME",
         "Hold this at the load (50ms, 0.5s), then the most throughput; without it: the most "
         "throughput."},
    [OPT_SIMULATE] = {"simulate", NULL,
                      "Compare schedulers on this load instead: padded and packed FIFO, padded by "
                      "dynamic\n      programming, the settings in force."},
    [OPT_COST] = {"cost", "A,B,C",
                  "What a pass takes: A + B * rows + C * sum(len^2), in microseconds; default: "
                  "measured on MODEL_DIR."},
    [OPT_URL] = {"url", "URL",
                 "A running server: its cost model, and its lengths and rate where none are given. "
                 "An admin\n      key is taken from the environment, BERTH_ADMIN_KEY."},
    [OPT_OUT] = {"out", "FILE", "Write the proposed settings there, for berth serve --config."},
    [OPT_SEED] = {"seed", "N", "Of what is drawn; default 1."},
    [OPT_BUDGET] = {"budget-s", "S", "Seconds to search at most; default 60."},
    [OPT_CONFIRM] = {"confirm", "S",
                     "With --url: begin with the settings that the server has in force, and play "
                     "the load's busiest\n      S seconds there, with them and with the proposal; "
                     "0: do not; default 10."},
    [OPT_CONFIRM_ROUNDS] =
        {"confirm-rounds", "N",
         "So often with each, in turn (before, proposal, proposal, before), so "
         "that a machine that\n      drifts favours neither; 1 to 20; default 2."},
    [OPT_KEEP] = {"keep", NULL,
                  "Leave the proposal in force there; without it the old settings are put back."},
};
const struct own_options tune_options = {rows, N_OPTS};

static enum status refuse(int option, const char *value, const char *wanted, struct error *err) {
    return error_set(err, STATUS_INVALID, "--%s: \"%.60s\", where %s is expected",
                     rows[option].name, value, wanted);
}
/* A whole text that is a number in min .. max; at its end *rest, when that is not NULL. */
static bool read_number(double *out, const char *text, double min, double max, const char **rest) {
    char *end = NULL;
    if (!(*text >= '0' && *text <= '9') && *text != '.') { // no signs, spaces, "inf", "nan"
        return false;
    }
    const double v = strtod(text, &end);
    if (end == text || !(v >= min && v <= max) || (!rest && *end)) {
        return false;
    }
    if (rest) {
        *rest = end;
    }
    *out = v;
    return true;
}
static enum status read_option(double *out, const struct options *opt, int option, double min,
                               double max, bool is_whole, struct error *err) {
    const char *text = opt->own[option];
    char wanted[80];
    if (!text || (read_number(out, text, min, max, NULL) && (!is_whole || *out == floor(*out)))) {
        return STATUS_OK;
    }
    snprintf(wanted, sizeof(wanted), "%s, %.6g to %.6g,", is_whole ? "an integer" : "a number", min,
             max);
    return refuse(option, text, wanted, err);
}
static enum status read_numbers(struct tune_request *q, const struct options *opt,
                                struct error *err) {
    double count = TUNE_MAX_ARRIVALS, seed = 1, rounds = 2;
    q->confirm_s = q->url && !q->compares_policies ? 10 : 0;
    q->budget_s = 60;
    enum status s = read_option(&q->rate, opt, OPT_RATE, 1e-3, 1e6, false, err);
    if (!s) {
        s = read_option(&count, opt, OPT_COUNT, 100, 1e6, true, err);
    }
    if (!s) {
        s = read_option(&seed, opt, OPT_SEED, 0, 9007199254740992.0, true, err);
    }
    if (!s) {
        s = read_option(&q->budget_s, opt, OPT_BUDGET, 0.1, 3600, false, err);
    }
    if (!s) {
        s = read_option(&q->confirm_s, opt, OPT_CONFIRM, 0, 3600, false, err);
    }
    if (!s) {
        s = read_option(&rounds, opt, OPT_CONFIRM_ROUNDS, 1, TUNE_MAX_ROUNDS, true, err);
    }
    q->confirm_rounds = (int)rounds;
    q->n_arrivals = (int)count;
    q->seed = (uint64_t)seed;
    return s;
}
static enum status read_arrivals(struct tune_request *q, const char *text, struct error *err) {
    q->arrivals = ARRIVE_POISSON;
    if (!text) {
        return STATUS_OK;
    }
    for (int i = 0; i < N_ARRIVAL_KINDS; i++) {
        if (!strcmp(text, arrival_kind_names[i])) {
            q->arrivals = (enum arrival_kind)i;
            return STATUS_OK;
        }
    }
    return refuse(OPT_ARRIVALS, text, "poisson, constant or bursts", err);
}
static enum status read_slo(struct tune_request *q, const char *text, struct error *err) {
    double value = 0;
    const char *unit = "";
    if (!text) {
        return STATUS_OK;
    }
    const bool ok = !strncmp(text, "p99=", 4) && read_number(&value, text + 4, 0, 1e6, &unit);
    const bool is_ms = !strcmp(unit, "ms"), is_s = !strcmp(unit, "s");
    q->p99_ns = llround(value * (double)(is_s ? NS_PER_S : NS_PER_MS));
    return ok && (is_ms || is_s) && q->p99_ns > 0
               ? STATUS_OK
               : refuse(OPT_SLO, text, "p99= and a time, like p99=50ms or p99=0.5s,", err);
}
static enum status read_cost(struct tune_request *q, const char *text, struct error *err) {
    if (!text) {
        return STATUS_OK;
    }
    const char *at = text;
    bool ok = true;
    for (int i = 0; ok && i < COST_TERMS; i++) {
        ok = read_number(&q->coef[i], at, 0, 1e9, &at) && *at == (i + 1 < COST_TERMS ? ',' : 0);
        q->coef[i] *= 1e3; // ns inside
        at += ok;
    }
    q->has_cost = true;
    return ok && q->coef[0] + q->coef[1] + q->coef[2] > 0
               ? STATUS_OK
               : refuse(OPT_COST, text, "A,B,C in microseconds, like 400,120,0.05,", err);
}
static enum status check(const struct tune_request *q, const struct options *opt,
                         struct error *err) {
    if (q->trace && q->lengths) {
        return error_set(err, STATUS_INVALID, "--trace and --lengths are two loads: give one");
    }
    if (!q->trace && !q->lengths && !q->url) {
        return error_set(err, STATUS_INVALID,
                         "no load: give --trace FILE (from `berth serve --record FILE`), or "
                         "--lengths and --rate");
    }
    if (q->trace && (q->rate > 0 || opt->own[OPT_ARRIVALS] || opt->own[OPT_COUNT])) {
        return error_set(err, STATUS_INVALID,
                         "--rate, --arrivals and --count are for --lengths; a trace has its own");
    }
    if (opt->own[OPT_CONFIRM] && (!q->url || q->compares_policies)) {
        return error_set(err, STATUS_INVALID,
                         "--confirm plays the load against a server, for a proposal: it needs "
                         "--url, and not --simulate");
    }
    if (opt->own[OPT_CONFIRM_ROUNDS] && q->confirm_s == 0) {
        return error_set(err, STATUS_INVALID,
                         "--confirm-rounds is for a proposal that is confirmed: it needs --url, "
                         "and not --simulate or --confirm 0");
    }
    if (q->keeps && q->confirm_s == 0) {
        return error_set(err, STATUS_INVALID,
                         "--keep is for a proposal that was confirmed: it needs --url, and not "
                         "--simulate or --confirm 0");
    }
    if (!q->has_cost && !q->url && !*opt->cfg.model.dir) {
        return error_set(err, STATUS_INVALID,
                         "what do passes take? Give MODEL_DIR to measure it, --cost A,B,C, or the "
                         "--url of a running server");
    }
    return STATUS_OK;
}
enum status tune_request_read(struct tune_request *out, const struct options *opt,
                              struct error *err) {
    *out = (struct tune_request){.trace = opt->own[OPT_TRACE],
                                 .lengths = opt->own[OPT_LENGTHS],
                                 .out = opt->own[OPT_OUT],
                                 .url = opt->own[OPT_URL],
                                 .keeps = opt->own[OPT_KEEP] != NULL,
                                 .compares_policies = opt->own[OPT_SIMULATE] != NULL};
    enum status s = read_numbers(out, opt, err);
    if (!s) {
        s = read_arrivals(out, opt->own[OPT_ARRIVALS], err);
    }
    if (!s) {
        s = read_slo(out, opt->own[OPT_SLO], err);
    }
    if (!s) {
        s = read_cost(out, opt->own[OPT_COST], err);
    }
    return s ? s : check(out, opt, err);
}
