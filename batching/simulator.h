/* simulator.h - discrete events over the real queues and policy: what a load would do to a policy.
 * A pass takes what the cost table says, times a log-normal factor (`noise`), so the policy's own
 * model, which starts from the same table, is wrong as in life and corrects itself as in life.
 * Deterministic by seed. Allocates; for tools and tests only. */
#ifndef BERTH_BATCHING_SIMULATOR_H
#define BERTH_BATCHING_SIMULATOR_H
#include "batching/queues.h"
#include "batching/trace.h"

enum sim_kind {
    SIM_QUEUES, // the real thing, as configured; FIFO is rank_cost_factor 0 in mode packed or
                // padded
    SIM_DP, // TurboTransformers' scheduler: whatever waits is sorted by length and cut into padded
            // batches of least total cost by dynamic programming (Fang et al. 2021, PPoPP, alg. 3);
            // of the policy, only the first bucket's max_batch_requests and the queue's cap count
};
/* What became of an arrival: called once for each, in order of time. */
struct sim_end {
    const struct arrival *arrival;
    enum status status; // OK; OVERLOADED, TIMEOUT, TOO_LONG (refused, or TIMEOUT: expired);
                        // CANCELLED: the client had gone
    int64_t begun_ns;   // its pass; 0: never computed
    int64_t end_ns;
};
typedef void sim_end_fn(void *arg, const struct sim_end *end);

struct sim_config {
    enum sim_kind kind;
    struct queues_config queues;
    double coef[COST_TERMS]; // what passes really take
    double noise;            // sigma of ln(time); 0: none
    int n_layers;            // a batch may be interrupted at the borders between them; 0: as one
    double hang_up_share;    // of the clients leave, after an exponential time
    int64_t hang_up_ns;      // its mean; the server notices SIM_NOTICE_NS later
    int64_t overhead_ns;     // between two passes of a worker
    int64_t timeout_ns;      // deadline of arrivals that bring none of their own; 0: none
    uint64_t seed;
    sim_end_fn *on_end; // may be NULL
    void *arg;
};
#define SIM_NOTICE_NS INT64_C(50000000)
enum { SIM_CLASSES = 8 };
struct sim_class { // of lengths, (up_to of the one before, up_to]
    int up_to;
    int64_t n_done;
    int64_t mean_ns, p50_ns, p95_ns, p99_ns, max_ns; // arrival to answer
};
struct sim_result {
    struct sim_class classes[SIM_CLASSES]; // as asked for
    struct sim_class all;
    int64_t n_arrived, n_done, n_refused, n_expired, n_cancelled; // arrived is the others' sum
    int64_t n_late;                                               // answered after their deadline
    int64_t n_good;        // answered within good_ns of arrival
    int64_t n_expired_run; // begun after their deadline: computed for nothing, by fault
    int64_t wasted_ns;     // computed for jobs whose client had gone or that came too late
    int64_t busy_ns;       // of all workers
    int64_t end_ns;        // when the last arrival was answered
    int64_t longest_batch_ns;
    int64_t n_batches, n_interruptions, rows, tokens;
    double padding_ratio;
    int64_t max_over_deadline_ns; // the longest that anything was answered after its deadline
};
/* class_up_to: [n_classes] rising, at most SIM_CLASSES; longer texts count in `all` alone. good_ns:
 * what counts as good. Errors: STATUS_INVALID, from the queues' configuration. */
MUST_CHECK enum status simulate(struct sim_result *out, const struct sim_config *cfg,
                                const struct trace *trace, const int *class_up_to, int n_classes,
                                int64_t good_ns, struct error *err);
/* Jobs a second when there is always work, lengths drawn from `lengths`: n of them are there at
 * once, in random order, and none hangs up or expires. For FIFO this is the capacity that loads are
 * shares of. */
MUST_CHECK enum status sim_capacity(double *per_s, const struct sim_config *cfg,
                                    const struct lengths *lengths, int n, struct error *err);
#endif
