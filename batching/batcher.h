/* batcher.h - holds tokenized jobs back until they make a good batch.
 * Threads: submit and cancel from any thread, next from any worker thread. One lock, never held
 *          during a forward pass, a copy of tokens or a callback.
 * Memory:  everything is made in batcher_create(); submit and next never allocate. */
#ifndef BERTH_BATCHING_BATCHER_H
#define BERTH_BATCHING_BATCHER_H
#include "batching/pack.h"
#include "batching/queues.h"

struct batcher; // opaque: the fields are in batcher.c
struct batcher_config {
    struct queues_config queues;
    struct cost_model cost;           // what is known at start
    int reserve_tokens, reserve_jobs; // a later configuration may ask for batches so large; 0: as
                                      // large as this one's
    int32_t pad_token_id;             // what rows of padding hold
};
MUST_CHECK enum status batcher_create(struct batcher **out, const struct batcher_config *cfg,
                                      struct error *err);
void batcher_destroy(struct batcher *b); // takes NULL; no job may be queued and no worker inside
/* What batcher_batch_limits() will say: devices are made, and timed, before the batcher. */
struct batch_limits batcher_limits(const struct batcher_config *cfg);
/* The batch that holds the largest thing the policy may choose: for batch_init(). */
struct batch_limits batcher_batch_limits(const struct batcher *b);
/* Queues all `n` jobs, each in the smallest bucket that holds it, or none of them; the batcher
 * borrows them. *why (may be NULL) is what admission said. Errors: STATUS_TOO_LONG (longer than
 * max_seq_len), STATUS_OVERLOADED (a queue cap; more than max_queued_jobs at once always are),
 * STATUS_TIMEOUT (predicted to be late; never while a device is idle), STATUS_UNAVAILABLE (closed).
 */
MUST_CHECK enum status batcher_submit(struct batcher *b, struct job *const *jobs, int n,
                                      struct admission *why);
/* Called by a worker that is about to choose among what waits, once a batch, without the lock: the
 * last moment for batcher_cancel(). Set before the first job; it has to be callable until the
 * workers have ended. */
typedef void batcher_look_fn(void *arg);
void batcher_set_look(struct batcher *b, batcher_look_fn *look, void *arg);
/* Blocks until the policy says run, then fills `out` (a batch of this worker's own, reset here)
 * with packed rows. Jobs whose deadline has passed are never among them: they are done with
 * STATUS_TIMEOUT, on this thread, without the lock. STATUS_UNAVAILABLE: closed and empty, the
 * worker may go. worker: 0 <= worker < n_workers. */
MUST_CHECK enum status batcher_next(struct batcher *b, int worker, struct batch *out);
/* Whether the policy in force lets batches be interrupted. */
bool batcher_interrupts(struct batcher *b);
/* At a layer border: true when something urgent should run first; it is then in `out`. */
bool batcher_interrupt(struct batcher *b, int worker, int layers_left, int n_layers,
                       struct batch *out);
/* What the worker's last batch took, from forward to logits, without what ran at its borders;
 * ns < 0: it failed. Corrects the cost model. Before batch_complete(). */
void batcher_ran(struct batcher *b, int worker, const struct batch *batch, int64_t ns);
/* A worker other than the last is not coming back for a batch. Any thread, after its latest
 * batch_complete(). */
void batcher_worker_left(struct batcher *b);
/* Another policy, without losing a job. STATUS_INVALID: refused, with the fix in the text, and the
 * old one stays (a batch larger than what was reserved at start is such a fault). */
MUST_CHECK enum status batcher_configure(struct batcher *b, const struct policy_config *policy,
                                         struct error *err);
void batcher_get_policy(struct batcher *b, struct policy_config *out);
/* Takes a job that still waits out of its queue: true, and the job is the caller's, `done` is not
 * called. False: it is not queued (running, done or never submitted). */
bool batcher_cancel(struct batcher *b, struct job *job);
/* From now on submit refuses; next goes on until the queues are empty. */
void batcher_close(struct batcher *b);

struct batcher_stats {
    struct queues_stats queues;
    struct cost_model cost;
    int64_t expired; // jobs
    int n_waiting_workers;
};
void batcher_get_stats(struct batcher *b, struct batcher_stats *out);
#endif
