/* pack.h - chosen jobs to the rows of one forward pass.
 * Packed and padded are one layout with other offsets (model/token_batch.h). */
#ifndef BERTH_BATCHING_PACK_H
#define BERTH_BATCHING_PACK_H
#include "base/arena.h"
#include "batching/policy.h"
#include "model/token_batch.h"

struct batch_limits {
    int max_jobs, max_rows; // padding included
};
/* One worker's batch: made once, filled again and again. */
struct batch {
    struct arena arena; // owns what `tokens` borrows; reset by batch_pack()
    struct batch_limits limits;
    struct job **jobs; // [max_jobs], owned; the jobs are borrowed
    struct token_batch tokens;
    int n_jobs;
    struct ride ride; // what the jobs will be told; the worker adds op times
    enum release_reason reason;
    int bucket;
};
MUST_CHECK enum status batch_init(struct batch *b, struct batch_limits limits, struct error *err);
void batch_finish(struct batch *b); // takes a zeroed batch
/* b->jobs[0 .. n_jobs) to b->tokens and b->ride (the batch's id and bucket are the batcher's to
 * add). Padded modes pad every sequence to the longest with `pad_id`, type 0. Never fails: n_jobs
 * and their rows are within the limits (asserted). */
void batch_pack(struct batch *b, int n_jobs, enum batch_mode mode, int32_t pad_id);
/* Writes ride, times, status and logits into every job and gives the number of those that went
 * well. `status` is the pass's; logits: [n_jobs, n_outputs], copied to each job's place. A job one
 * of whose logits is not finite gets STATUS_RESULT, its mates do not. */
int batch_settle(struct batch *b, enum status status, const float *logits, int n_outputs,
                 int64_t infer_ns, int64_t done_ns);
/* Calls every job's `done`, which gives it back to its owner: the batch is empty after it. Apart
 * from batch_settle() so that counters can be right before a client has its answer. */
void batch_complete(struct batch *b);
#endif
