/* pack.c - chosen jobs to rows, and results back to jobs.
 * Sequence i begins at row cu_seqlens[i]; when padded, it is followed by rows of the pad token up
 * to the longest's length. Everything that the pass reads is carved from the batch's arena, which
 * is sized once for the largest batch the policy may choose. Distinct requests are counted with a
 * hash set in the same arena, because the jobs of one request need not be neighbours. */
#include "batching/pack.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t owner_set_size(int n_jobs) { // a power of two, at most half full
    size_t n = 2;
    while (n < 2 * (size_t)n_jobs) {
        n *= 2;
    }
    return n;
}

static size_t arena_bytes(struct batch_limits l) {
    const size_t rows = (size_t)l.max_rows, jobs = (size_t)l.max_jobs;
    const size_t ids = 2 * rows * sizeof(int32_t), lens = (2 * jobs + 1) * sizeof(int32_t);
    return ids + lens + owner_set_size(l.max_jobs) * sizeof(void *) + 8 * ARENA_ALIGN;
}

enum status batch_init(struct batch *b, struct batch_limits limits, struct error *err) {
    assert(limits.max_jobs >= 1 && limits.max_rows >= 1);
    memset(b, 0, sizeof(*b));
    const enum status s = arena_init(&b->arena, arena_bytes(limits), err);
    if (s) {
        return s;
    }
    b->jobs = xcalloc((size_t)limits.max_jobs, sizeof(struct job *));
    b->limits = limits;
    return STATUS_OK;
}

void batch_finish(struct batch *b) {
    arena_finish(&b->arena);
    free(b->jobs);
    memset(b, 0, sizeof(*b));
}

static void *must_alloc(struct batch *b, size_t n, size_t size) {
    void *p = arena_alloc(&b->arena, n, size);
    assert(p); // arena_bytes() counted it
    return p;
}

static int count_owners(struct batch *b) {
    const size_t size = owner_set_size(b->n_jobs);
    const void **set = must_alloc(b, size, sizeof(*set));
    memset(set, 0, size * sizeof(*set));
    int n = 0;
    bool seen_null = false; // NULL marks a free place
    for (int i = 0; i < b->n_jobs; i++) {
        const void *owner = b->jobs[i]->owner;
        if (!owner) {
            n += !seen_null;
            seen_null = true;
            continue;
        }
        size_t at = (size_t)(((uintptr_t)owner >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
        at &= size - 1;
        while (set[at] && set[at] != owner) {
            at = (at + 1) & (size - 1);
        }
        n += !set[at];
        set[at] = owner;
    }
    return n;
}

static struct ride measure(const struct batch *b, enum batch_mode mode) {
    struct ride r = {.n_jobs = b->n_jobs, .mode = mode};
    for (int i = 0; i < b->n_jobs; i++) {
        const int n = b->jobs[i]->n_tokens;
        r.n_tokens += n;
        r.longest = n > r.longest ? n : r.longest;
    }
    const bool padded = mode == BATCH_PADDED || mode == BATCH_BUCKETED;
    r.n_rows = padded ? r.longest * r.n_jobs : r.n_tokens;
    return r;
}

/* One sequence to `places` rows of its own. */
static void put_rows(int32_t *ids, int32_t *types, const struct job *job, int places,
                     int32_t pad_id) {
    const size_t bytes = (size_t)job->n_tokens * sizeof(*ids);
    memcpy(ids, job->token_ids, bytes);
    memcpy(types, job->token_type_ids, bytes);
    for (int i = job->n_tokens; i < places; i++) {
        ids[i] = pad_id;
        types[i] = 0;
    }
}

void batch_pack(struct batch *b, int n_jobs, enum batch_mode mode, int32_t pad_id) {
    assert(n_jobs >= 1 && n_jobs <= b->limits.max_jobs);
    arena_reset(&b->arena);
    b->n_jobs = n_jobs;
    b->ride = measure(b, mode);
    assert(b->ride.n_rows <= b->limits.max_rows);
    b->ride.n_requests = count_owners(b);
    const size_t n_rows = (size_t)b->ride.n_rows;
    int32_t *ids = must_alloc(b, n_rows, sizeof(*ids));
    int32_t *types = must_alloc(b, n_rows, sizeof(*types));
    int32_t *cu_seqlens = must_alloc(b, (size_t)n_jobs + 1, sizeof(*cu_seqlens));
    int32_t *seq_lens = must_alloc(b, (size_t)n_jobs, sizeof(*seq_lens));
    const bool padded = b->ride.n_rows > b->ride.n_tokens;
    cu_seqlens[0] = 0;
    for (int i = 0; i < n_jobs; i++) {
        const int places = padded ? b->ride.longest : b->jobs[i]->n_tokens, row = cu_seqlens[i];
        put_rows(ids + row, types + row, b->jobs[i], places, pad_id);
        seq_lens[i] = b->jobs[i]->n_tokens;
        cu_seqlens[i + 1] = row + places;
    }
    b->tokens = (struct token_batch){
        .token_ids = ids,
        .token_type_ids = types,
        .cu_seqlens = cu_seqlens,
        .seq_lens = seq_lens,
        .n_seqs = n_jobs,
        .n_rows = b->ride.n_rows,
        .max_seq_len = b->ride.longest,
    };
}

static bool all_finite(const float *x, int n) {
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}

int batch_settle(struct batch *b, enum status status, const float *logits, int n_outputs,
                 int64_t infer_ns, int64_t done_ns) {
    int n_good = 0;
    for (int i = 0; i < b->n_jobs; i++) {
        struct job *job = b->jobs[i];
        job->ride = b->ride;
        job->infer_ns = infer_ns;
        job->done_ns = done_ns;
        job->status = status;
        if (status) {
            continue;
        }
        const float *own = logits + (size_t)i * (size_t)n_outputs;
        if (!all_finite(own, n_outputs)) {
            job->status = STATUS_RESULT;
            continue;
        }
        memcpy(job->logits, own, (size_t)n_outputs * sizeof(*own));
        n_good++;
    }
    return n_good;
}

void batch_complete(struct batch *b) {
    const int n_jobs = b->n_jobs;
    b->n_jobs = 0;
    for (int i = 0; i < n_jobs; i++) {
        b->jobs[i]->done(b->jobs[i]);
    }
}
