/* cmd_bench.c - `berth bench URL`: the options of the load client, which is bench/client, and of
 * the experiments that start servers themselves, bench/experiment. The table is all there is to say
 * about an option: name, bounds, help. */
#include "server/commands.h"

#include <stddef.h>
#include <string.h>

#include "bench/client/bench.h"
#include "bench/client/plan.h"
#include "bench/experiment/experiment.h"
#include "server/flags.h"

#define AT(member) offsetof(struct bench_config, member)
#define TEXT(name, value, member, help)                                                            \
    { name, value, FLAG_TEXT, AT(member), 0, 0, help, 0 }
#define TEXTS(name, value, member, count, most, help)                                              \
    { name, value, FLAG_TEXTS, AT(member), 0, most, help, AT(count) }
#define SWITCH(name, member, help)                                                                 \
    { name, NULL, FLAG_SWITCH, AT(member), 0, 0, help, 0 }
#define NUMBER(name, value, kind, member, low, high, help)                                         \
    { name, value, kind, AT(member), low, high, help, 0 }
#define SECONDS(name, member, low, high, help)                                                     \
    NUMBER(name, "TIME", FLAG_SECONDS, member, low, high, help)
#define COUNT(name, member, low, high, help) NUMBER(name, "N", FLAG_INT, member, low, high, help)

static const struct flag flags[] = {
    TEXT("rate", "RATE", rate,
         "Open loop: requests a second (default 50); or steps and ramps, \"100:10,200:10\" and\n"
         "      \"100-400:30\": rate or rates and seconds, with commas between."),
    TEXT("arrivals", "KIND", arrivals,
         "How they scatter: constant, poisson (default) or bursts (gamma gaps of shape 0.25)."),
    TEXT("trace", "FILE", trace,
         "Open loop: the arrivals and lengths of a trace (CSV: at_ms,tokens,priority,key)."),
    NUMBER("speed", "X", FLAG_NUMBER, speed, 0.001, 1000, "Plays the trace X times as fast."),
    COUNT("connections", connections, 1, BENCH_MAX_CONNECTIONS,
          "Closed loop: N connections that each wait for their answer before they ask again."),
    COUNT(
        "max-connections", max_connections, 1, BENCH_MAX_CONNECTIONS,
        "Open loop: at most so many at once (default 256); when all are busy, requests wait, and\n"
        "      the wait counts."),
    COUNT("threads", threads, 1, BENCH_MAX_THREADS, "Client threads (default 1)."),
    SECONDS("duration", duration_s, 0.01, SCHEDULE_MAX_SECONDS,
            "How long to measure: 10, 500ms, 2m (default 10 s, or until --requests are done)."),
    NUMBER("requests", "N", FLAG_INT64, requests, 1, 1e9,
           "Ends after N requests, warm-up not counted."),
    SECONDS("warmup", warmup_s, 0, 3600, "The same load before it, not measured (default 1 s)."),
    SECONDS("timeout", timeout_s, 0.001, 3600,
            "A request without an answer so long after its due time has failed (default 10 s)."),
    SECONDS("give-up", give_up_s, 0, 3600,
            "Stops when connections have only failed for so long (default 2 s; 0: never)."),
    TEXT("dialect", "NAME", dialect,
         "native (default): stages from Server-Timing; tei: from the x- headers."),
    TEXT("method", "NAME", method, "POST (default), or GET, which sends no text."),
    TEXT("path", "PATH", path, "Default: the URL's, or /predict."),
    TEXT("field", "NAME", field,
         "The JSON field of the text (default inputs); \"input[]\": a list of one text."),
    TEXTS("header", "\"NAME: VALUE\"", headers, n_headers, BENCH_MAX_HEADERS,
          "A further request header; may be repeated."),
    TEXT("texts", "FILE", texts, "A text a line, UTF-8, in turn."),
    TEXT("lengths", "LAW", lengths,
         "Draws texts of so many tokens ([CLS] and [SEP] counted): fixed:N,\n"
         "      lognormal:MEDIAN:SIGMA, bimodal:SHORT:LONG:SHARE_OF_LONG, file:PATH (lines\n"
         "      TOKENS,COUNT), or chat, reviews, queries, documents, bimodal, mixed (default)."),
    COUNT("max-tokens", max_tokens, 3, TRACE_MAX_TOKENS,
          "Drawn lengths are cut there (default 512)."),
    NUMBER("seed", "N", FLAG_INT64, seed, 0, 9e15, "Of arrivals and texts (default 1)."),
    SWITCH("until-stable", until_stable,
           "Repeats --duration until the 95 % intervals of throughput and p99 are narrow."),
    NUMBER("precision", "SHARE", FLAG_NUMBER, precision, 0.001, 0.5,
           "Half the width of those intervals; the step at which --find-rate ends (default 0.05)."),
    COUNT("max-rounds", max_rounds, 3, 100, "Of --until-stable and --find-rate (default 20)."),
    TEXT("find-rate", "GOAL", find_rate,
         "Searches the highest rate that holds GOAL, such as p99=50ms, from --rate on."),
    TEXTS(
        "fail-if", "TEST", fail_if, n_fail_if, BENCH_MAX_CHECKS,
        "Exit code 3 when it is true: p99>20ms, mean>1s, throughput<100, errors>0, error_rate>1%,\n"
        "      padding>0.3; may be repeated."),
    TEXT("json", "FILE", json, "Writes the result as JSON; - is standard output."),
    TEXT("csv", "FILE", csv, "Writes the result as one line of CSV below a header."),
    TEXT("samples", "FILE", samples, "Writes a line of CSV a request."),
    TEXT("html", "FILE", html, "Writes a report for a browser, one file, no network."),
    TEXT("title", "WORDS", title, "What the reports call this run."),
    SWITCH("quiet", quiet, "No text, no progress."),
    COUNT("max-samples", max_samples, 1, BENCH_MAX_SAMPLES,
          "Requests kept one by one, for --samples and the slowest 1 % (default 200000)."),
    NUMBER("max-body-bytes", "N", FLAG_INT64, max_body_bytes, 1, 1e9,
           "A longer answer is an error (default 16777216)."),
    COUNT("spin-us", spin_us, 0, 10000,
          "The client wakes so long before a request is due and spins (default 60)."),
    SWITCH("no-probe", no_probe,
           "Skips the one request that is sent first to see whether URL and path are right."),
    TEXT("experiment", "NAME", experiment,
         "Without a URL: padding starts servers of --model in every batching mode, loads them in\n"
         "      turn, and tells what padding costs; some 4 1/2 minutes. With --connections (32) "
         "and\n"
         "      --duration (6 s) for its closed loop."),
    TEXT("model", "DIR", model, "The model that --experiment and --sweep serve."),
    TEXT("fusion", "on|off", fusion,
         "Of --experiment: off compares servers without fused kernels, on leaves these out; by\n"
         "      default padded and packed are there without fusion too, in the closed loop."),
    COUNT("rounds", rounds, 1, EXPERIMENT_MAX_ROUNDS,
          "Of the experiment's closed loop (default 2)."),
    SECONDS("equal-seconds", equal_s, 0.1, 3600,
            "Of its load at half of what padded can do (default 7)."),
    NUMBER("overload", "X", FLAG_NUMBER, overload, 0.1, 100,
           "Its last load, in units of what padded can do (default 1.5)."),
    SECONDS(
        "overload-seconds", overload_s, 0.1, 3600,
        "How long that goes on for padded and packed (default 60); 8 s at most for the others."),
    SWITCH("quick", quick,
           "Of --experiment and --sweep: rounds of a second or two, to see that it works; the "
           "figures\n"
           "      are too few to stand on."),
    SECONDS("time-limit", time_limit_s, 1, 86400,
            "Of --experiment and --sweep: they end by then, with what they have, marked PARTIAL\n"
            "      (default: 1 1/4 times their loads, and a minute)."),
    SWITCH("sweep", sweep,
           "Without a URL: latency against throughput, over rates and batch budgets of servers of\n"
           "      --model; --duration for each point (3 s); 3 to 4 minutes with the budgets as "
           "they are."),
    TEXT("slo", "GOAL", slo, "Of --sweep: what has to hold, such as p99=50ms."),
    TEXT("budgets", "N,N", budgets,
         "Of --sweep: batching.max_batch_tokens to try (default 64,256,1024)."),
    TEXT("budget-ms", "N,N", budget_ms,
         "Of --sweep: batching.max_batch_ms to try with each (default 5,25)."),
};
_Static_assert((int)BENCH_OK == 0 && (int)BENCH_FAULT == (int)EXIT_FAULT &&
                   (int)BENCH_USAGE == (int)EXIT_USAGE,
               "a bench ends as every command does");

void bench_print_options(FILE *out) {
    flags_print_help(out, flags, (int)N_ITEMS(flags));
}
/* What says when and what to measure is the experiment's own. */
static const char *foreign_option(const struct bench_config *c) {
    const struct {
        const char *name;
        bool is_given;
    } all[] = {{"--rate", c->rate},
               {"--trace", c->trace},
               {"--requests", c->requests > 0},
               {"--find-rate", c->find_rate},
               {"--until-stable", c->until_stable},
               {"--fail-if", c->n_fail_if > 0},
               {"--samples", c->samples},
               {"--method", strcmp(c->method, bench_defaults.method) != 0},
               {"--path", c->path},
               {"--field", c->field},
               {"--dialect", strcmp(c->dialect, bench_defaults.dialect) != 0}};
    for (size_t i = 0; i < N_ITEMS(all); i++) {
        if (all[i].is_given) {
            return all[i].name;
        }
    }
    return NULL;
}
/* What is wrong with the options of an experiment or a sweep. */
static enum status check_experiment(const struct bench_config *c, int n_words, char **words,
                                    struct error *err) {
    const char *name = c->sweep ? "--sweep" : "--experiment";
    const char *foreign = foreign_option(c);
    if (c->sweep && c->experiment) {
        return error_set(err, STATUS_INVALID, "--sweep and --experiment exclude each other");
    }
    if (c->experiment && strcmp(c->experiment, "padding") != 0) {
        return error_set(err, STATUS_INVALID, "--experiment %.40s: expected padding",
                         c->experiment);
    }
    if (n_words > 0) {
        return error_set(err, STATUS_INVALID, "%s starts its servers itself: no URL (%.60s)", name,
                         words[0]);
    }
    if (!c->model) {
        return error_set(err, STATUS_INVALID, "%s needs a model: --model DIR", name);
    }
    if (c->fusion &&
        ((strcmp(c->fusion, "on") != 0 && strcmp(c->fusion, "off") != 0) || c->sweep)) {
        return error_set(err, STATUS_INVALID,
                         "--fusion %.40s: expected on or off, and --experiment", c->fusion);
    }
    return foreign ? error_set(err, STATUS_INVALID, "%s does not go with %s", foreign, name)
                   : STATUS_OK;
}
/* Times that were given stay. */
static void make_quick(struct bench_config *c) {
    const struct bench_config *d = &bench_defaults;
    c->duration_s = c->duration_s > 0 ? c->duration_s : 1;
    c->warmup_s = c->warmup_s == d->warmup_s ? 0.2 : c->warmup_s;
    c->rounds = c->rounds == d->rounds ? 1 : c->rounds;
    c->equal_s = c->equal_s == d->equal_s ? 1 : c->equal_s;
    c->overload_s = c->overload_s == d->overload_s ? 2 : c->overload_s;
}
static int run_experiment(struct bench_config *c, int n_words, char **words) {
    struct error err;
    if (check_experiment(c, n_words, words, &err)) {
        fprintf(stderr, "berth: bench: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (c->quick) {
        make_quick(c);
    }
    return (int)(c->sweep ? experiment_sweep(c) : experiment_padding(c));
}
int cmd_bench(int argc, char **argv) {
    struct bench_config cfg = bench_defaults;
    struct error err;
    int n_words = 0;
    const enum status s = flags_parse(&cfg, flags, (int)N_ITEMS(flags), argc, argv, &n_words, &err);
    if (s) {
        fprintf(stderr, "berth: bench: %s\n", err.text);
        return EXIT_USAGE;
    }
    if (cfg.experiment || cfg.sweep) {
        return run_experiment(&cfg, n_words, argv);
    }
    if (cfg.model || cfg.slo || cfg.fusion || cfg.quick || cfg.time_limit_s > 0) {
        fputs("berth: bench: --model, --slo, --fusion, --quick and --time-limit go with "
              "--experiment or --sweep\n",
              stderr);
        return EXIT_USAGE;
    }
    if (n_words != 1) {
        if (n_words) {
            fprintf(stderr, "berth: bench: \"%.60s\" is one word too many\n", argv[1]);
        } else {
            fputs(
                "berth: bench: no URL; usage: berth bench URL, or berth bench --experiment padding "
                "--model DIR\n",
                stderr);
        }
        return EXIT_USAGE;
    }
    cfg.url = argv[0];
    return (int)bench_run(&cfg);
}
