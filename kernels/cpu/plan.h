/* plan.h - how a batch is divided between lanes. Pure.
 * Each axis (a row a token, a row a sequence) is cut by rows, lane i owning [cut[i], cut[i + 1]);
 * or, when it has few rows, by columns: every lane then takes part in all of them. */
#ifndef BERTH_KERNELS_CPU_PLAN_H
#define BERTH_KERNELS_CPU_PLAN_H
#include "kernels/types.h"
#include "model/token_batch.h"
#include <stdbool.h>

enum {
    /* Up to so many rows for each lane, columns are cut. Measured with 2 lanes: columns win at 8
     * and 16 rows, rows at 32. */
    COLUMNS_ROWS_PER_LANE = 12,
};
struct plan {
    int *cut[2];     // by enum row_axis, [n_lanes + 1]; owned by the backend
    bool columns[2]; // by enum row_axis
    bool shared;     // some sequence has tokens of more than one lane
};
/* What a sequence costs: its rows, and its tokens attending to each other. */
struct plan_costs {
    double row, pair;
};
void plan_make(struct plan *p, const struct token_batch *b, int n_lanes,
               const struct plan_costs *costs);
/* Share `i` of n things among n_lanes: [plan_share(n, i), plan_share(n, i + 1)). */
static inline int plan_share(int n, int i, int n_lanes) {
    return (int)((int64_t)n * i / n_lanes);
}
#endif
