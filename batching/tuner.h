/* tuner.h - bucket bounds, budgets and waits for a load. Allocates; for `berth tune` and tests. */
#ifndef BERTH_BATCHING_TUNER_H
#define BERTH_BATCHING_TUNER_H
#include "batching/simulator.h"

/* The k bounds (rising, the last is `last`) that make the expected cost of a job least when each is
 * computed at its bucket's bound: sum over lengths of count * (b * bound + c * bound^2), exact, by
 * dynamic programming over the distinct lengths. Fewer come out when there are fewer distinct
 * lengths. Returns their number and, in *cost, the sum. */
int tuner_bounds(int *bounds, int k, const struct lengths *lengths, int last,
                 const double coef[COST_TERMS], double *cost);

struct tune_goal {
    int64_t p99_ns; // hold this at the trace's load; 0: the most throughput
};
struct tune_row { // one line of the trade-off table
    struct policy_config policy;
    struct sim_result at_load; // the trace as it is
    double capacity;           // jobs a second when there is always work
    bool holds;                // the goal
};
struct tune_report {       // rows[0] is the configuration in force, rows[best] the proposal
    struct tune_row *rows; // owned
    int n_rows, best;
};
MUST_CHECK enum status tuner_run(struct tune_report *out, const struct sim_config *base,
                                 const struct trace *trace, const struct tune_goal *goal,
                                 struct error *err);
void tune_report_finish(struct tune_report *r); // takes a zeroed one
#endif
