/* tuner.h - bucket bounds, budgets and waits for a load. Allocates; for `berth tune` and tests.
 * Deterministic: the same trace, configuration and seed give the same proposal, unless the time
 * limit cut the search short. */
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
    int64_t p99_ns;   // of all arrivals, the refused counted as late; 0: the most throughput
    int64_t until_ns; // no further trial after this moment (monotonic); 0: no limit
};
enum { TUNE_MAX_ARRIVALS = 60000, TUNE_MAX_ROWS = 512 };
struct tune_row { // one configuration that was tried
    struct policy_config policy;
    struct sim_result at_load; // the busiest stretch of the trace, TUNE_MAX_ARRIVALS at most
    double capacity;           // jobs a second while work always waits
    bool holds;                // the goal's p99; true where there is none
};
struct tune_report {       // rows[0] is the configuration in force, rows[best] the proposal
    struct tune_row *rows; // owned
    int n_rows, best;      // best is 0 when nothing that was tried is better
    int n_arrivals;        // of the trace, that were simulated
    double load;           // their rate, jobs a second; 0: one alone has none
    bool cut_short;        // by until_ns
};
/* base: the configuration in force and what passes take; class_up_to: as for simulate(). With one
 * bucket (modes `padded`, `none`) or in mode `packed` the bounds stay. Errors: STATUS_INVALID: an
 * empty trace, a length above max_seq_len, mode `none` (nothing to tune), a policy that the queues
 * refuse. */
MUST_CHECK enum status tuner_run(struct tune_report *out, const struct sim_config *base,
                                 const struct trace *trace, const struct tune_goal *goal,
                                 const int *class_up_to, int n_classes, struct error *err);
/* Jobs a second while work always waits, but never more than a full house of it: with a deeper
 * queue every batch could be chosen from hundreds, which no load offers for long. n_arrivals: of
 * the load that it is compared for; some thousand of them are simulated. */
MUST_CHECK enum status tuner_capacity(double *per_s, const struct sim_config *cfg,
                                      const struct lengths *lengths, int n_arrivals,
                                      struct error *err);
void tune_report_finish(struct tune_report *r); // takes a zeroed one
/* Rows that no other beats in both p99 and capacity, by rising p99; their number, at most `max`
 * (the best spread of them by place). */
int tune_report_front(const struct tune_report *r, int *rows, int max);
#endif
