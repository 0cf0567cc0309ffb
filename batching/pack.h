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
    struct ride ride; // what the jobs will be told, op times still to come
    enum release_reason reason;
    int bucket;
};
MUST_CHECK enum status batch_init(struct batch *b, struct batch_limits limits, struct error *err);
void batch_finish(struct batch *b); // takes a zeroed batch
/* b->jobs[0 .. n_jobs) to b->tokens and b->ride. Padded modes pad every sequence to the longest
 * with `pad_id`, type 0. Never fails: n_jobs and their rows are within the limits (asserted). */
void batch_pack(struct batch *b, int n_jobs, enum batch_mode mode, int32_t pad_id);
/* Tells every job of the batch its ride, times and status, and calls its `done`. logits: [n_jobs,
 * n_outputs], copied to each job's place unless status says the pass failed. */
void batch_complete(struct batch *b, enum status status, const float *logits, int n_outputs,
                    int64_t infer_ns, int64_t done_ns);
#endif
