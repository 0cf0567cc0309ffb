/* token_batch.h - the struct everything turns around: what batching gives and a forward pass eats.
 */
#ifndef BERTH_MODEL_TOKEN_BATCH_H
#define BERTH_MODEL_TOKEN_BATCH_H
#include <stdint.h>

/* Sequence i has seq_lens[i] tokens from row cu_seqlens[i] on; rows up to cu_seqlens[i + 1] beyond
 * them are padding (none when packed): they hold a valid token id and are computed, but no token
 * attends to them. Every sequence has at least one token. Borrows from the batch's arena. */
struct token_batch {
    const int32_t *token_ids, *token_type_ids; // [n_rows]
    const int32_t *cu_seqlens;                 // [n_seqs + 1], rows, starts at 0
    const int32_t *seq_lens;                   // [n_seqs], tokens
    int n_seqs, n_rows, max_seq_len;
};
#endif
