/* fill.h - a batch in the making: what it may hold, and what it is predicted to take. For policy.c
 * and interrupt.c. */
#ifndef BERTH_BATCHING_FILL_H
#define BERTH_BATCHING_FILL_H
#include "batching/walk.h"

struct caps {
    int64_t max_rows, max_ns; // of the pass
    int max_jobs, max_skipped;
    bool padded;      // a row for every place up to the longest
    int64_t begin_ns; // of the pass: nobody rides who would be late at its end, or make others
                      // late; 0: deadlines play no part
    /* Who may ride: urgent short ones, in an interruption; anybody, in a batch of its own. */
    int64_t max_rank, max_job_ns, least_start_ns;
};
/* Of a batch whose anchor stands in `bucket`. */
struct caps caps_of(const struct policy_config *cfg, int bucket, int max_chosen, int64_t now_ns);
bool caps_let_ride(const struct caps *caps, const struct job *job);

struct load { // zeroed is empty
    int n_jobs, longest, n_skipped;
    int64_t cost_ns;
    int64_t due_ns; // the earliest deadline that it is to keep; 0: none
    struct cost_shape shape;
};
bool load_is_full(const struct load *l, const struct caps *caps);
/* Takes what fits, as the walk brings it; the first job of a batch in any case. */
void fill(struct load *l, struct walk *w, const struct caps *caps, struct job **chosen);
/* Padded by buckets: jobs of buckets other than the anchor's, while computing them here costs less
 * than a batch for each of those buckets would. */
void fill_from_others(struct load *l, struct walk *w, const struct caps *caps, int anchor_bucket,
                      struct job **chosen);
/* What is worth running first although another batch is due, or runs: DECIDE_RUN, or DECIDE_IDLE
 * and `chosen` holds nothing of use. In interrupt.c. */
struct decision urgent_before(const struct policy_config *cfg, const struct policy_view *view,
                              const struct outer_batch *outer, int64_t now_ns, struct job **chosen,
                              int max_chosen);
#endif
