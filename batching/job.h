/* job.h - one sequence (or pair) on its way: what the queue holds and a batch carries.
 * Owner: the request. Batcher and worker borrow a job from batcher_submit() until its `done` is
 * called or batcher_cancel() gives it back. */
#ifndef BERTH_BATCHING_JOB_H
#define BERTH_BATCHING_JOB_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum batch_mode {
    BATCH_NONE,     // one job a pass
    BATCH_PADDED,   // arrival order, padded to the longest: what naive servers do
    BATCH_BUCKETED, // length buckets, padded to the batch's longest
    BATCH_PACKED,   // length buckets, no padding
    N_BATCH_MODES,
};
extern const char *const batch_mode_names[N_BATCH_MODES]; // "none", "padded", ...

/* Which jobs go first where ranks are compared; the default is zero, so a zeroed job has it. */
enum priority { PRIORITY_NORMAL, PRIORITY_HIGH, PRIORITY_LOW, N_PRIORITIES };
extern const char *const priority_names[N_PRIORITIES]; // "normal", "high", "low"

/* Kinds of op a pass's time is divided into: as many as kernels.h has (a static assert in
 * worker.c). */
enum { JOB_OP_KINDS = 6 };

/* The batch that a job rode in, for its response's headers. The same for all jobs of one batch. */
struct ride {
    int64_t batch_id; // counts from 1; tells two batches apart
    int n_requests, n_jobs, n_tokens, n_rows, longest;
    int bucket_up_to; // of the batch's anchor; 0 where the mode has no buckets
    enum batch_mode mode;
    int64_t op_ns[JOB_OP_KINDS];
    int64_t launches; // on a device that is sent its work
};

struct job;
/* Called on a worker thread when `status` and everything else below is set; the job is the owner's
 * again from the moment of the call. Must not block. */
typedef void job_done_fn(struct job *job);

struct job {
    /* Set by the owner before batcher_submit(), in a job that was zeroed. */
    const int32_t *token_ids, *token_type_ids; // [n_tokens], borrowed from the request's arena
    int n_tokens;                              // at least 1
    float *logits;                             // [n_outputs], where the result goes
    job_done_fn *done;
    void *owner;         // the request; jobs with one owner count as one request
    int64_t deadline_ns; // monotonic: an answer after it is worth nothing; 0: none. It decides
                         // refusal and expiry.
    bool wants_deadline; // the deadline is the client's own: it tightens the rank too
    enum priority priority;
    int64_t *profile_ns; // where the times of its batch's ops go, as many as the worker has
                         // (worker_profile_size()); NULL: not wanted. Zeroed by the owner.
    int key;             // the API key's index in policy_config.key_weights; 0 where there are none

    /* Set on the way. */
    enum status status;
    int64_t queued_ns; // batcher_submit()
    int64_t chosen_ns; // the policy took it
    int64_t infer_ns;  // its batch was packed, the forward pass began
    int64_t done_ns;   // the logits were there
    struct ride ride;

    /* The batcher's own. */
    int64_t rank;            // ns, smallest first: policy_rank(); equal ranks go by `number`
    uint64_t number;         // of submission, from 1 on
    bool follows;            // another of its request, after which it is ranked
    int64_t cost_ns;         // what it adds to a batch, by the cost model, when it was queued
    int64_t start_ns;        // a pass that begins later is too late for it; INT64_MAX: no deadline
    struct job *prev, *next; // in its bucket's queue
    struct job *parent, *left, *right; // in its rank order
    int64_t order_sum_ns;              // cost of the job and all below it there
    int due_place;                     // in the heap of deadlines, from 1 on; 0: in none
    int bucket;                        // stays after the job was taken out, for metrics
};

struct job_queue { // in order of arrival; zeroed is empty
    struct job *head, *tail;
    int n_jobs;
    int64_t n_tokens;
};
void job_queue_push(struct job_queue *q, struct job *job); // it came last
void job_queue_remove(struct job_queue *q, struct job *job);
/* For a job that was zeroed before its first use. */
bool job_queue_holds(const struct job_queue *q, const struct job *job);
#endif
