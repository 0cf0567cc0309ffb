/* cmd_bench.c - `berth bench URL`: the options of the load client, which is bench/client. The table
 * is all there is to say about an option: name, bounds, help. */
#include "server/commands.h"

#include <stddef.h>

#include "bench/client/bench.h"
#include "bench/client/plan.h"
#include "server/flags.h"

#define AT(member) offsetof(struct bench_config, member)
#define TEXT(name, value, member, help)                                                            \
    { name, value, FLAG_TEXT, AT(member), 0, 0, help, 0 }

static const struct flag flags[] = {
    TEXT("rate", "RATE", rate,
         "Open loop: requests a second (default 50); or steps and ramps, \"100:10,200:10\" and\n"
         "      \"100-400:30\": rate or rates and seconds, with commas between."),
    TEXT("arrivals", "KIND", arrivals,
         "How they scatter: constant, poisson (default) or bursts (gamma gaps of shape 0.25)."),
    TEXT("trace", "FILE", trace,
         "Open loop: the arrivals and lengths of a trace (CSV: at_ms,tokens,priority,key)."),
    {"speed", "X", FLAG_NUMBER, AT(speed), 0.001, 1000, "Plays the trace X times as fast.", 0},
    {"connections", "N", FLAG_INT, AT(connections), 1, BENCH_MAX_CONNECTIONS,
     "Closed loop: N connections that each wait for their answer before they ask again.", 0},
    {"max-connections", "N", FLAG_INT, AT(max_connections), 1, BENCH_MAX_CONNECTIONS,
     "Open loop: at most so many at once (default 256); when all are busy, requests wait, and\n"
     "      the wait counts.",
     0},
    {"threads", "N", FLAG_INT, AT(threads), 1, BENCH_MAX_THREADS, "Client threads (default 1).", 0},
    {"duration", "TIME", FLAG_SECONDS, AT(duration_s), 0.01, SCHEDULE_MAX_SECONDS,
     "How long to measure: 10, 500ms, 2m (default 10 s, or until --requests are done).", 0},
    {"requests", "N", FLAG_INT64, AT(requests), 1, 1e9,
     "Ends after N requests, warm-up not counted.", 0},
    {"warmup", "TIME", FLAG_SECONDS, AT(warmup_s), 0, 3600,
     "The same load before it, not measured (default 1 s).", 0},
    {"timeout", "TIME", FLAG_SECONDS, AT(timeout_s), 0.001, 3600,
     "A request without an answer so long after its due time has failed (default 10 s).", 0},
    {"give-up", "TIME", FLAG_SECONDS, AT(give_up_s), 0, 3600,
     "Stops when connections have only failed for so long (default 2 s; 0: never).", 0},
    TEXT("dialect", "NAME", dialect,
         "native (default): stages from Server-Timing; tei: from the x- headers."),
    TEXT("method", "NAME", method, "POST (default), or GET, which sends no text."),
    TEXT("path", "PATH", path, "Default: the URL's, or /predict."),
    TEXT("field", "NAME", field,
         "The JSON field of the text (default inputs); \"input[]\": a list of one text."),
    {"header", "\"NAME: VALUE\"", FLAG_TEXTS, AT(headers), 0, BENCH_MAX_HEADERS,
     "A further request header; may be repeated.", AT(n_headers)},
    TEXT("texts", "FILE", texts, "A text a line, UTF-8, in turn."),
    TEXT("lengths", "LAW", lengths,
         "Draws texts of so many tokens ([CLS] and [SEP] counted): fixed:N,\n"
         "      lognormal:MEDIAN:SIGMA, bimodal:SHORT:LONG:SHARE_OF_LONG, file:PATH (lines\n"
         "      TOKENS,COUNT), or chat, reviews, queries, documents, bimodal, mixed (default)."),
    {"max-tokens", "N", FLAG_INT, AT(max_tokens), 3, TRACE_MAX_TOKENS,
     "Drawn lengths are cut there (default 512).", 0},
    {"seed", "N", FLAG_INT64, AT(seed), 0, 9e15, "Of arrivals and texts (default 1).", 0},
    {"until-stable", NULL, FLAG_SWITCH, AT(until_stable), 0, 0,
     "Repeats --duration until the 95 % intervals of throughput and p99 are narrow.", 0},
    {"precision", "SHARE", FLAG_NUMBER, AT(precision), 0.001, 0.5,
     "Half the width of those intervals; the step at which --find-rate ends (default 0.05).", 0},
    {"max-rounds", "N", FLAG_INT, AT(max_rounds), 3, 100,
     "Of --until-stable and --find-rate (default 20).", 0},
    TEXT("find-rate", "GOAL", find_rate,
         "Searches the highest rate that holds GOAL, such as p99=50ms, from --rate on."),
    {"fail-if", "TEST", FLAG_TEXTS, AT(fail_if), 0, BENCH_MAX_CHECKS,
     "Exit code 3 when it is true: p99>20ms, mean>1s, throughput<100, errors>0, error_rate>1%,\n"
     "      padding>0.3; may be repeated.",
     AT(n_fail_if)},
    TEXT("json", "FILE", json, "Writes the result as JSON; - is standard output."),
    TEXT("csv", "FILE", csv, "Writes the result as one line of CSV below a header."),
    TEXT("samples", "FILE", samples, "Writes a line of CSV a request."),
    TEXT("html", "FILE", html, "Writes a report for a browser, one file, no network."),
    TEXT("title", "WORDS", title, "What the reports call this run."),
    {"quiet", NULL, FLAG_SWITCH, AT(quiet), 0, 0, "No text, no progress.", 0},
    {"max-samples", "N", FLAG_INT, AT(max_samples), 1, BENCH_MAX_SAMPLES,
     "Requests kept one by one, for --samples and the slowest 1 % (default 200000).", 0},
    {"max-body-bytes", "N", FLAG_INT64, AT(max_body_bytes), 1, 1e9,
     "A longer answer is an error (default 16777216).", 0},
    {"spin-us", "N", FLAG_INT, AT(spin_us), 0, 10000,
     "The client wakes so long before a request is due and spins (default 60).", 0},
    {"no-probe", NULL, FLAG_SWITCH, AT(no_probe), 0, 0,
     "Skips the one request that is sent first to see whether URL and path are right.", 0},
};
_Static_assert((int)BENCH_OK == 0 && (int)BENCH_FAULT == (int)EXIT_FAULT &&
                   (int)BENCH_USAGE == (int)EXIT_USAGE,
               "a bench ends as every command does");

void bench_print_options(FILE *out) {
    flags_print_help(out, flags, (int)N_ITEMS(flags));
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
    if (n_words != 1) {
        if (n_words) {
            fprintf(stderr, "berth: bench: \"%.60s\" is one word too many\n", argv[1]);
        } else {
            fputs("berth: bench: no URL; usage: berth bench URL\n", stderr);
        }
        return EXIT_USAGE;
    }
    cfg.url = argv[0];
    return (int)bench_run(&cfg);
}
