/* order.h - waiting jobs by rank, whatever order they came in.
 * Smallest first in O(1); insert, remove and the work ahead of a rank in O(log n), expected; a step
 * to the next in O(1) on average. The links are in the jobs: nothing is allocated. */
#ifndef BERTH_BATCHING_ORDER_H
#define BERTH_BATCHING_ORDER_H
#include "batching/job.h"

struct job_order { // zeroed is empty
    struct job *root, *first;
};
/* By job->rank, then job->number; both, and cost_ns, stay as they are while it is inside. */
void job_order_insert(struct job_order *o, struct job *job);
void job_order_remove(struct job_order *o, struct job *job);
struct job *job_order_next(const struct job *job); // NULL: it was the last
bool job_before(const struct job *a, const struct job *b);
/* The sum of cost_ns of the jobs whose rank is at most `rank`: those that a newcomer of this rank
 * would find before it. */
int64_t job_order_ahead_ns(const struct job_order *o, int64_t rank);
int64_t job_order_total_ns(const struct job_order *o);
#endif
