/* plan.c - where to cut a batch. The cut wanted for lane i lies where i / n_lanes of the cost is
 * done. The nearest border between sequences is taken when it is no more than 3 % of a lane's work
 * away: then no lane needs another's keys and values, and lanes never wait for each other. Else the
 * sequence is cut inside. A sequence belongs, as a row of the other axis, to who has its first
 * token. */
#include "kernels/cpu/plan.h"

static const double border_tolerance = 0.03; // of a lane's share

static double seq_cost(const struct token_batch *b, int s, const struct plan_costs *c) {
    const double rows = b->cu_seqlens[s + 1] - b->cu_seqlens[s], len = b->seq_lens[s];
    return rows * c->row + len * len * c->pair;
}

/* The row to cut at so that `want` lies before it; `done` lies before sequence s, which is the one
 * that reaches it. */
static int cut_at(const struct token_batch *b, int s, double done, double cost, double want,
                  double tolerance) {
    const int begin = b->cu_seqlens[s], end = b->cu_seqlens[s + 1];
    const double before = want - done, after = done + cost - want;
    if (before <= tolerance || after <= tolerance) {
        return before < after ? begin : end;
    }
    const int inside = (int)(before / cost * (end - begin) + 0.5);
    return begin + inside;
}

static void cut_tokens(struct plan *p, const struct token_batch *b, int n_lanes,
                       const struct plan_costs *costs) {
    int *cut = p->cut[AXIS_TOKENS];
    double total = 0, done = 0;
    for (int s = 0; s < b->n_seqs; s++) {
        total += seq_cost(b, s, costs);
    }
    cut[0] = 0;
    for (int i = 1, s = 0; i < n_lanes; i++) {
        const double want = total * i / n_lanes;
        while (s + 1 < b->n_seqs && done + seq_cost(b, s, costs) < want) {
            done += seq_cost(b, s++, costs);
        }
        const int row =
            cut_at(b, s, done, seq_cost(b, s, costs), want, border_tolerance * total / n_lanes);
        cut[i] = row > cut[i - 1] ? row : cut[i - 1];
    }
    cut[n_lanes] = b->n_rows;
}

/* Which sequences begin in each lane's rows; whether any goes on in another's. */
static void cut_seqs(struct plan *p, const struct token_batch *b, int n_lanes) {
    const int *rows = p->cut[AXIS_TOKENS];
    int *cut = p->cut[AXIS_SEQS];
    p->shared = false;
    cut[0] = 0;
    for (int i = 1, s = 0; i <= n_lanes; i++) {
        while (s < b->n_seqs && b->cu_seqlens[s] < rows[i]) {
            s++;
        }
        cut[i] = s;
        p->shared |= b->cu_seqlens[s] != rows[i];
    }
}

void plan_make(struct plan *p, const struct token_batch *b, int n_lanes,
               const struct plan_costs *costs) {
    const int few = n_lanes > 1 ? COLUMNS_ROWS_PER_LANE * n_lanes : 0;
    p->columns[AXIS_TOKENS] = b->n_rows <= few;
    p->columns[AXIS_SEQS] = b->n_seqs <= few;
    cut_tokens(p, b, n_lanes, costs);
    cut_seqs(p, b, n_lanes);
}
