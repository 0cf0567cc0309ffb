/* job.c - names of the modes, and the queue that jobs stand in.
 * The links are in the job itself, so a queue of any length allocates nothing and a job in its
 * middle is taken out in constant time. Rank order is kept by pushing at the tail alone: ranks are
 * given out in the order of submission, under the batcher's lock. */
#include "batching/job.h"

#include <assert.h>

const char *const batch_mode_names[N_BATCH_MODES] = {
    [BATCH_NONE] = "none",
    [BATCH_PADDED] = "padded",
    [BATCH_BUCKETED] = "bucketed",
    [BATCH_PACKED] = "packed",
};

void job_queue_push(struct job_queue *q, struct job *job) {
    assert(!q->tail || q->tail->rank < job->rank);
    job->prev = q->tail;
    job->next = NULL;
    if (q->tail) {
        q->tail->next = job;
    } else {
        q->head = job;
    }
    q->tail = job;
    q->n_jobs++;
    q->n_tokens += job->n_tokens;
}

void job_queue_remove(struct job_queue *q, struct job *job) {
    if (job->prev) {
        job->prev->next = job->next;
    } else {
        q->head = job->next;
    }
    if (job->next) {
        job->next->prev = job->prev;
    } else {
        q->tail = job->prev;
    }
    job->prev = job->next = NULL;
    q->n_jobs--;
    q->n_tokens -= job->n_tokens;
}

bool job_queue_holds(const struct job_queue *q, const struct job *job) {
    return job->prev || q->head == job;
}
