/* due.h - which waiting job has to start first: a heap by job->start_ns.
 * Insert and remove in O(log n), the first in O(1). The places are allocated once. */
#ifndef BERTH_BATCHING_DUE_H
#define BERTH_BATCHING_DUE_H
#include "batching/job.h"

struct due_heap {
    struct job **jobs; // [capacity], owned; jobs[i]->due_place is i + 1
    int n, capacity;
};
void due_heap_init(struct due_heap *h, int capacity);
void due_heap_finish(struct due_heap *h); // takes a zeroed one
void due_heap_insert(struct due_heap *h, struct job *job);
void due_heap_remove(struct due_heap *h, struct job *job); // nothing, when it is not inside
int64_t due_heap_first_ns(const struct due_heap *h);       // INT64_MAX: empty
#endif
