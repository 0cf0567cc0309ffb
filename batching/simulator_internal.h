/* simulator_internal.h - what the parts of the simulator share. */
#ifndef BERTH_BATCHING_SIMULATOR_INTERNAL_H
#define BERTH_BATCHING_SIMULATOR_INTERNAL_H
#include "batching/simulator.h"

/* The scheduler to compare with (simulator_dp.c): jobs wait, a plan is made of all of them when the
 * last plan has been run, and is followed to its end. */
struct dp_scheduler;
struct dp_scheduler *dp_create(const struct queues_config *cfg, const double coef[COST_TERMS]);
void dp_destroy(struct dp_scheduler *dp); // takes NULL
bool dp_admit(const struct dp_scheduler *dp);
void dp_push(struct dp_scheduler *dp, struct job *job);
bool dp_remove(struct dp_scheduler *dp, struct job *job);
int dp_expire(struct dp_scheduler *dp, int64_t now_ns, struct job **expired, int max);
int dp_choose(struct dp_scheduler *dp, struct job **chosen, int max_chosen); // 0: nothing waits

/* Latencies as they come, and the figures made of them (simulator_report.c). */
struct sim_answers { // zeroed is empty
    int64_t *latency_ns;
    int *n_tokens;
    int n, capacity;
};
void sim_answers_init(struct sim_answers *a, int capacity);
void sim_answers_finish(struct sim_answers *a);
void sim_answers_add(struct sim_answers *a, int n_tokens, int64_t latency_ns);
/* out->all and out->classes. */
void sim_answers_report(const struct sim_answers *a, struct sim_result *out, const int *class_up_to,
                        int n_classes);
#endif
