/* experiments.h - what the scheduling has to reach, as simulations that give figures and bounds.
 * The unit tests run them short with fixed seeds; bench_policy runs them long with several. */
#ifndef BERTH_BENCH_POLICY_EXPERIMENTS_H
#define BERTH_BENCH_POLICY_EXPERIMENTS_H
#include "batching/simulator.h"

struct setup {
    struct queues_config ours; // the policy that is judged; its interrupt is switched as needed
    double coef[COST_TERMS];   // of the device
    double noise;
    int n_layers;
    int64_t overhead_ns;
    uint64_t seed;
    double length; // of the runs: 1 is minutes to hours of simulated time
};
struct finding {
    char name[96];
    double figure, bound;
    bool at_least;  // else at most
    double context; // ms or answers a second: what a ratio is a ratio of; 0: nothing
};
enum { MAX_FINDINGS = 32 };
struct findings {
    struct finding rows[MAX_FINDINGS];
    int n;
};
bool finding_holds(const struct finding *f);

/* Each adds its findings. STATUS_INVALID comes from a wrong setup. */
typedef enum status experiment_fn(struct findings *out, const struct setup *s, struct error *err);
experiment_fn experiment_beside;   // short texts at 20/s beside long ones at 80 % load
experiment_fn experiment_mixed;    // the mixed load against packed FIFO
experiment_fn experiment_padded;   // the mixed load against padded FIFO
experiment_fn experiment_overload; // three times what the device can do
experiment_fn experiment_hang_ups; // half of the clients leave

struct experiment {
    const char *name, *what;
    experiment_fn *run;
};
enum { N_EXPERIMENTS = 5 };
extern const struct experiment experiments[N_EXPERIMENTS];
#endif
