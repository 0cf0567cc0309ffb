/* bench.c - the order of a load test: options made into a plan, files opened, one request to see
 * that the server is there and means this path, the load, the reports. What can fail early does. */
#include "bench/client/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/timing.h"
#include "bench/client/result.h"
#include "bench/client/rounds.h"

const struct bench_config bench_defaults = {
    .dialect = "native",
    .method = "POST",
    .max_tokens = 512,
    .arrivals = "poisson",
    .speed = 1,
    .max_connections = 256,
    .threads = 1,
    .seed = 1,
    .warmup_s = 1,
    .timeout_s = 10,
    .give_up_s = 2,
    .spin_us = 60,
    .max_body_bytes = 1 << 24,
    .precision = 0.05,
    .max_rounds = 20,
    .max_samples = 200000,
    .rounds = 2,
    .equal_s = 7,
    .overload_s = 60,
    .overload = 1.5,
    .budgets = "64,256,1024",
    .budget_ms = "5,25",
};

enum { N_OUTPUTS = 4 };
struct bench {
    const struct bench_config *cfg;
    struct load load;
    struct result result;
    struct round sum;
    struct report outputs[N_OUTPUTS];
};

static enum status open_outputs(struct bench *b, struct error *err) {
    const struct bench_config *c = b->cfg;
    const struct report all[N_OUTPUTS] = {{c->json, "--json", report_json, NULL},
                                          {c->csv, "--csv", report_csv, NULL},
                                          {c->samples, "--samples", report_samples, NULL},
                                          {c->html, "--html", report_html, NULL}};
    memcpy(b->outputs, all, sizeof(all));
    return reports_open(b->outputs, N_OUTPUTS, err);
}

/* Statuses that no text can have earned: the path, the method or the key is wrong. */
static bool is_about_the_path(int http_status) {
    return http_status == 401 || http_status == 403 || http_status == 404 || http_status == 405 ||
           http_status == 415 || (http_status >= 300 && http_status < 400);
}
static enum status judge_probe(const struct bench *b, const struct round *r, struct error *err) {
    const struct record *sum = r->sum;
    const char *target = b->load.target;
    if (sum->n_samples == 0) {
        return error_set(err, STATUS_IO, "%s: %s", target,
                         r->stop ? r->reason : "no answer to the first request");
    }
    const struct sample *s = &sum->samples[0];
    const char *what = sum->example[s->failure];
    switch (s->failure) {
    case FAILURE_CONNECT:
        return error_set(err, STATUS_IO, "%s: %s; is the server running, and is this its port?",
                         target, what);
    case FAILURE_CLOSED:
    case FAILURE_RESET:
    case FAILURE_TIMEOUT:
    case FAILURE_PROTOCOL:
        return error_set(err, STATUS_IO, "%s: %s; is this an HTTP server?", target, what);
    default: break;
    }
    return is_about_the_path(s->http_status)
               ? error_set(err, STATUS_IO,
                           "%s: the first request was answered %s; are --path, --method and "
                           "--header right?",
                           target, what)
               : STATUS_OK;
}
static enum status probe(struct bench *b, struct error *err) {
    struct round r = {.sum = NULL};
    if (b->cfg->no_probe) {
        return STATUS_OK;
    }
    enum status s = round_probe(&r, &b->load.plan, err);
    s = s ? s : judge_probe(b, &r, err);
    round_finish(&r);
    return s;
}

static enum status parse_criteria(struct bench *b, struct error *err) {
    struct result *r = &b->result;
    for (int i = 0; i < b->cfg->n_fail_if; i++) {
        const enum status s = criterion_parse(&r->checks[i], b->cfg->fail_if[i], err);
        if (s) {
            return error_prefix(err, s, "--fail-if");
        }
        r->n_checks++;
    }
    if (!b->cfg->find_rate) {
        return STATUS_OK;
    }
    const enum status s = goal_parse(&r->goal, b->cfg->find_rate, err);
    if (s) {
        return error_prefix(err, s, "--find-rate");
    }
    if (b->load.plan.is_closed_loop || b->load.plan.trace || b->load.plan.rate.n != 1 ||
        b->cfg->until_stable) {
        return error_set(err, STATUS_INVALID,
                         "--find-rate goes with a single --rate to begin with, and not with "
                         "--connections, --trace or --until-stable");
    }
    return STATUS_OK;
}
static void note_start(struct result *r) {
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(r->started, sizeof(r->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
}
static enum status prepare(struct bench *b, struct error *err) {
    enum status s = load_prepare(&b->load, b->cfg, err);
    s = s ? s : parse_criteria(b, err);
    s = s ? s : open_outputs(b, err);
    b->result.cfg = b->cfg;
    b->result.load = &b->load;
    b->result.round = &b->sum;
    note_start(&b->result);
    return s;
}
static double offered_rate(const struct bench *b) {
    const struct plan *p = &b->load.plan;
    if (p->is_closed_loop || !b->sum.sum || b->sum.window_s <= 0) {
        return 0;
    }
    return b->result.n_tries > 0 ? b->result.found_rate
                                 : (double)b->sum.sum->n_due / b->sum.window_s;
}
static enum bench_exit exit_of(const struct bench *b, bool is_written) {
    const struct result *r = &b->result;
    const struct record *sum = b->sum.sum;
    if (result_is_partial(r) || !is_written) {
        return BENCH_FAULT;
    }
    for (int i = 0; i < r->n_checks; i++) {
        if (criterion_holds(&r->checks[i], r->round)) {
            return BENCH_CHECK_FAILED;
        }
    }
    if (r->n_tries > 0 && r->found_rate <= 0) {
        return BENCH_CHECK_FAILED;
    }
    return sum->n_ok > 0 ? BENCH_OK : BENCH_FAULT; // a load that nothing answered measured nothing
}
static enum bench_exit refuse(const struct error *err, enum status s) {
    fprintf(stderr, "berth: bench: %s\n", err->text);
    return s == STATUS_INVALID || s == STATUS_TOO_LONG ? BENCH_USAGE : BENCH_FAULT;
}
enum bench_exit bench_run(const struct bench_config *cfg) {
    struct bench *b = xcalloc(1, sizeof(*b));
    struct error err = {""};
    enum bench_exit code;
    b->cfg = cfg;
    enum status s = prepare(b, &err);
    s = s ? s : probe(b, &err);
    s = s ? s : rounds_run(&b->result, &b->sum, &b->load.plan, &err);
    if (s) {
        code = refuse(&err, s);
    } else {
        b->result.offered = offered_rate(b);
        code = exit_of(
            b, reports_write(b->outputs, N_OUTPUTS, cfg->quiet ? NULL : report_text, &b->result));
    }
    reports_close(b->outputs, N_OUTPUTS);
    round_finish(&b->sum);
    load_finish(&b->load);
    free(b);
    return code;
}
