/* tune.h - the parts of `berth tune`: what was asked, the load, what passes take, what is printed.
 * For cmd_tune.c and tune_*.c alone. */
#ifndef BERTH_SERVER_TUNE_H
#define BERTH_SERVER_TUNE_H
#include "batching/tuner.h"
#include "server/options.h"
#include <cjson/cJSON.h>

enum { TUNE_MAX_ROUNDS = 20 };
struct tune_request { // the options, read; strings are borrowed from argv
    const char *trace, *lengths, *out, *url;
    double rate; // arrivals a second; 0: not said
    enum arrival_kind arrivals;
    int n_arrivals;
    uint64_t seed;
    int64_t p99_ns; // 0: throughput
    double coef[COST_TERMS];
    bool has_cost, compares_policies;
    double budget_s;
    double confirm_s;   // of load against `url`, a turn; 0: none
    int confirm_rounds; // each of a turn before and one with the proposal
    bool keeps;         // the proposal stays in force there
};
/* STATUS_INVALID names the option and what is allowed. */
MUST_CHECK enum status tune_request_read(struct tune_request *out, const struct options *opt,
                                         struct error *err);

struct tune_task {
    const struct config *cfg; // of the command, or server_cfg
    struct config server_cfg; // the command's, with the batching that the server has in force
    struct tune_request request;
    struct sim_config sim; // the configuration in force, what passes take
    int max_input_tokens;
    struct trace trace;                  // owned
    int n_cut, n_dropped;                // arrivals longer than the limit: cut to it, or left out
    char load_text[400], cost_text[400]; // where they come from, for people
};
/* What passes take, the longest input, workers, policy: of --cost, a server, or the model. */
MUST_CHECK enum status tune_read_device(struct tune_task *t, struct error *err);
/* The trace, or one made of lengths and a rate. After tune_read_device(). */
MUST_CHECK enum status tune_read_load(struct tune_task *t, struct error *err);
void tune_task_finish(struct tune_task *t);

/* The server of --url. An object that it answers GET with, the caller's to delete. */
MUST_CHECK enum status tune_ask(cJSON **out, const struct tune_task *t, const char *path,
                                struct error *err);
const cJSON *tune_member(const cJSON *object, const char *name); // NULL: it has none
/* Makes what the server has in force the settings in force of the task. */
MUST_CHECK enum status tune_read_in_force(struct tune_task *t, struct error *err);
/* Puts `p` in force; on failure nothing has changed, if the server answered. */
MUST_CHECK enum status tune_put_policy(const struct tune_task *t, const struct policy_config *p,
                                       struct error *err);
/* Plays the load there before and with the proposal, in turn; then the old settings are in force
 * again, however it went, unless they are not to be. */
MUST_CHECK enum status tune_confirm(FILE *out, const struct tune_task *t,
                                    const struct tune_report *r, struct error *err);

enum { TUNE_CLASSES = 3 };
int tune_classes(int up_to[TUNE_CLASSES], int max_input_tokens); // their number
void tune_print_task(FILE *out, const struct tune_task *t);
void tune_print_report(FILE *out, const struct tune_task *t, const struct tune_report *r);
/* A table's line: the classes' quantiles, all's, capacity, padding, losses. */
void tune_print_head(FILE *out, const int *class_up_to, int n_classes);
void tune_print_line(FILE *out, const char *name, const struct sim_result *r, int n_classes,
                     double capacity);
/* The settings of `row` that tuning moves, as a config file that `berth serve --config` reads. */
void tune_print_settings(FILE *out, const struct tune_task *t, const struct tune_report *r);
#endif
