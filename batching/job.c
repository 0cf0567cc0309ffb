/* job.c - names of modes and classes, and the queue that jobs stand in.
 * The links are in the job itself, so a queue of any length allocates nothing and a job in its
 * middle is taken out in constant time. It keeps the order of arrival, which says who has waited
 * for how long; who goes first is another order (order.c). */
#include "batching/job.h"

const char *const batch_mode_names[N_BATCH_MODES] = {
    [BATCH_NONE] = "none",
    [BATCH_PADDED] = "padded",
    [BATCH_BUCKETED] = "bucketed",
    [BATCH_PACKED] = "packed",
};

const char *const priority_names[N_PRIORITIES] = {
    [PRIORITY_NORMAL] = "normal",
    [PRIORITY_HIGH] = "high",
    [PRIORITY_LOW] = "low",
};

void job_queue_push(struct job_queue *q, struct job *job) {
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
