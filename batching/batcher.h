/* batcher.h - holds tokenized jobs back until they make a good batch.
 * Threads: submit and cancel from any thread, next from any worker thread. One lock, never held
 *          during a forward pass, a copy of tokens or a callback.
 * Memory:  everything is made in batcher_create(); submit and next never allocate. */
#ifndef BERTH_BATCHING_BATCHER_H
#define BERTH_BATCHING_BATCHER_H
#include "batching/pack.h"
#include "batching/policy.h"

struct batcher; // opaque: the fields are in batcher.c
struct batcher_config {
    struct policy_config policy;
    int max_seq_len;           // tokens of the longest job
    int max_queued_jobs;       // waiting, not running
    int64_t max_queued_tokens; // once so many wait, no more come in; the last to come may pass it
    int32_t pad_token_id;      // what rows of padding hold
};
MUST_CHECK enum status batcher_create(struct batcher **out, const struct batcher_config *cfg,
                                      struct error *err);
void batcher_destroy(struct batcher *b); // takes NULL; no job may be queued and no worker inside
/* The batch that holds the largest thing the policy may choose: for batch_init(). */
struct batch_limits batcher_batch_limits(const struct batcher *b);
/* Queues all `n` jobs, each in the smallest bucket that holds it, or none of them; the batcher
 * borrows them. Errors: STATUS_TOO_LONG (longer than max_seq_len), STATUS_OVERLOADED (a queue cap;
 * more than max_queued_jobs at once always are), STATUS_UNAVAILABLE (closed). */
MUST_CHECK enum status batcher_submit(struct batcher *b, struct job *const *jobs, int n);
/* Blocks until the policy says run, then fills `out` (a batch of this worker's own, reset here)
 * with packed rows. STATUS_UNAVAILABLE: closed and empty, the worker may go. */
MUST_CHECK enum status batcher_next(struct batcher *b, struct batch *out);
/* Takes a job that still waits out of its queue: true, and the job is the caller's, `done` is not
 * called. False: it is not queued (running, done or never submitted). */
bool batcher_cancel(struct batcher *b, struct job *job);
/* From now on submit refuses; next goes on until the queues are empty. */
void batcher_close(struct batcher *b);

struct batcher_stats {
    int n_queued[POLICY_MAX_BUCKETS]; // jobs
    int64_t queued_tokens;
    int n_waiting_workers;
};
void batcher_get_stats(struct batcher *b, struct batcher_stats *out);
#endif
