/* cmd_tune.c - `berth tune`: reads a load and what passes take, searches, shows, writes.
 * The search is a simulation over the server's own queues and policy (batching/simulator.h); the
 * only passes that run are those which measure the model, and a running server's when it confirms.
 */
#include "server/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "server/json.h"
#include "server/tune.h"

/* sigma of ln(time) of a simulated pass: no machine repeats itself exactly. */
#define NOISE 0.05

/* Before the search, which takes a while. */
static enum status check_out(const struct tune_task *t, struct error *err) {
    FILE *out = t->request.out ? fopen(t->request.out, "ae") : NULL; // what is there stays for now
    if (t->request.out && !out) {
        return error_set(err, STATUS_IO, "--out: %s: %s", t->request.out, strerror(errno));
    }
    if (out) {
        fclose(out);
    }
    return STATUS_OK;
}
static enum status write_settings(const struct tune_task *t, const struct tune_report *r,
                                  struct error *err) {
    FILE *out = fopen(t->request.out, "we");
    if (!out) {
        return error_set(err, STATUS_IO, "%s: %s", t->request.out, strerror(errno));
    }
    tune_print_settings(out, t, r);
    const bool failed = ferror(out);
    if (fclose(out) || failed) {
        return error_set(err, STATUS_IO, "%s: %s", t->request.out, strerror(errno));
    }
    printf("\nwritten to %s: berth serve MODEL_DIR --config %s\n", t->request.out, t->request.out);
    return STATUS_OK;
}
static enum status search(const struct tune_task *t, struct error *err) {
    int up_to[TUNE_CLASSES];
    const int n_classes = tune_classes(up_to, t->max_input_tokens);
    const int64_t limit_ns = (int64_t)(t->request.budget_s * (double)NS_PER_S);
    const struct tune_goal goal = {t->request.p99_ns, time_now_ns() + limit_ns};
    struct tune_report report = {.rows = NULL};
    enum status s = tuner_run(&report, &t->sim, &t->trace, &goal, up_to, n_classes, err);
    if (s) {
        return s;
    }
    tune_print_report(stdout, t, &report);
    if (t->request.out) {
        s = write_settings(t, &report, err);
    } else {
        fputs("\nsettings (--out FILE writes them):\n", stdout);
        tune_print_settings(stdout, t, &report);
    }
    if (!s && t->request.confirm_s > 0) {
        s = tune_confirm(stdout, t, &report, err);
    }
    tune_report_finish(&report);
    return s;
}

/* A scheduler as the comparison's row. */
struct scheduler {
    const char *name;
    enum sim_kind kind;
    enum batch_mode mode;
    bool is_fifo, is_ours; // ours: the settings in force
};
static enum status compare_one(const struct tune_task *t, const struct scheduler *p,
                               const struct lengths *lengths, const int *up_to, int n_classes,
                               struct error *err) {
    struct sim_config sim = t->sim;
    struct sim_result r;
    double capacity = 0;
    sim.kind = p->kind;
    enum status s = STATUS_OK;
    if (!p->is_ours) {
        struct config cfg = *t->cfg;
        cfg.batching.mode = p->mode;
        s = config_policy(&sim.queues.policy, &cfg, t->max_input_tokens, err);
    }
    if (p->is_fifo) {
        sim.queues.policy.rank_cost_factor = 0;
        sim.queues.policy.max_batch_ns = 0;
    }
    if (!s) {
        s = simulate(&r, &sim, &t->trace, up_to, n_classes, INT64_MAX, err);
    }
    if (!s) {
        s = tuner_capacity(&capacity, &sim, lengths, t->trace.n, err);
    }
    if (!s) {
        tune_print_line(stdout, p->name, &r, n_classes, capacity);
    }
    return s;
}
static enum status compare(const struct tune_task *t, struct error *err) {
    static const struct scheduler schedulers[] = {
        {"padded FIFO", SIM_QUEUES, BATCH_PADDED, true, false},
        {"padded DP", SIM_DP, BATCH_PADDED, false, false},
        {"packed FIFO", SIM_QUEUES, BATCH_PACKED, true, false},
        {"as configured", SIM_QUEUES, BATCH_PACKED, false, true},
    };
    int up_to[TUNE_CLASSES];
    const int n_classes = tune_classes(up_to, t->max_input_tokens);
    struct lengths *lengths = xcalloc(1, sizeof(*lengths));
    enum status s = STATUS_OK;
    lengths_of_trace(lengths, &t->trace);
    tune_print_head(stdout, up_to, n_classes);
    for (size_t i = 0; i < N_ITEMS(schedulers) && !s; i++) {
        s = compare_one(t, &schedulers[i], lengths, up_to, n_classes, err);
    }
    free(lengths);
    return s;
}

static enum status run(struct tune_task *t, struct error *err) {
    enum status s = check_out(t, err);
    if (!s) {
        s = tune_read_device(t, err);
    }
    if (!s) {
        s = tune_read_load(t, err);
    }
    if (s) {
        return s;
    }
    tune_print_task(stdout, t);
    fflush(stdout); // the search takes a while
    return t->request.compares_policies ? compare(t, err) : search(t, err);
}
int cmd_tune(const struct options *opt) {
    struct tune_task t = {.cfg = &opt->cfg, .sim = {.kind = SIM_QUEUES, .noise = NOISE}};
    struct error err = {.text = ""};
    json_init();
    enum status s = tune_request_read(&t.request, opt, &err);
    const bool is_usage = s != STATUS_OK;
    if (!s) {
        s = run(&t, &err);
    }
    tune_task_finish(&t);
    if (s) {
        fprintf(stderr, "berth: tune: %s\n", err.text);
    }
    return is_usage ? EXIT_USAGE : s ? EXIT_FAULT : 0;
}
