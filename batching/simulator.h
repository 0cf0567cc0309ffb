/* simulator.h - discrete events over the real queues and policy: what a load would do to a policy.
 * A pass takes what the cost table says, times a log-normal factor (`noise`), so the policy's own
 * model is wrong as in life. Deterministic by seed. Allocates; for tools and tests only. */
#ifndef BERTH_BATCHING_SIMULATOR_H
#define BERTH_BATCHING_SIMULATOR_H
#include "batching/queues.h"
#include "batching/trace.h"

enum sim_kind {
    SIM_QUEUES, // the real thing, as configured; FIFO is rank_cost_factor 0 in mode packed or
                // padded
    SIM_DP, // TurboTransformers' scheduler: whatever waits is sorted by length and cut into padded
            // batches of least total cost by dynamic programming (Fang et al. 2021, PPoPP, alg. 3)
};
struct sim_config {
    enum sim_kind kind;
    struct queues_config queues;
    double coef[COST_TERMS]; // what passes really take
    double noise;            // sigma of ln(time); 0: none
    int n_layers;            // borders at which a batch may be interrupted
    double hang_up_share;    // of the clients leave, after a wait drawn from hang_up_ns
    int64_t hang_up_ns;      // mean
    int64_t overhead_ns;     // between two passes of a worker
    uint64_t seed;
};
enum { SIM_CLASSES = 8 };
struct sim_class { // of lengths, (up_to of the one before, up_to]
    int up_to;
    int64_t n_done;
    int64_t p50_ns, p95_ns, p99_ns, max_ns; // arrival to answer
};
struct sim_result {
    struct sim_class classes[SIM_CLASSES]; // as asked for
    struct sim_class all;
    int64_t n_arrived, n_done, n_refused, n_expired, n_cancelled;
    int64_t n_late;          // answered after their deadline
    int64_t n_good;          // answered within good_ns of arrival
    int64_t wasted_ns;       // computed for jobs whose client had gone or whose deadline had passed
    int64_t busy_ns, end_ns; // of all workers; when the last event was
    int64_t n_batches, n_interruptions, rows, tokens;
    double padding_ratio;
    int64_t max_over_deadline_ns; // the longest that anything was answered after its deadline
};
/* class_up_to: [n_classes] rising, at most SIM_CLASSES; good_ns: what counts as good. */
MUST_CHECK enum status simulate(struct sim_result *out, const struct sim_config *cfg,
                                const struct trace *trace, const int *class_up_to, int n_classes,
                                int64_t good_ns, struct error *err);
#endif
