/* walk.h - waiting jobs in the order in which a batch takes them: by rank, among the API keys whose
 * turn it is. For policy.c and interrupt.c. */
#ifndef BERTH_BATCHING_WALK_H
#define BERTH_BATCHING_WALK_H
#include "batching/policy.h"

/* Deficit round robin in tokens: a key is stepped over once it has used up its credit while another
 * one with credit has work; when none has, a round gives each key its quantum. */
struct walk {
    const struct policy_config *cfg;
    const struct policy_view *view;
    int64_t credit[POLICY_MAX_KEYS], quanta[POLICY_MAX_KEYS];
    int n_rounds, n_rounds_used; // given in this walk; until the last job that was taken
    uint64_t out_of_reach;       // keys with a job that did not fit, or stands in another order
    bool overdrawn;              // such a key has credit: what others take now, they owe
    struct job *firsts[POLICY_MAX_KEYS]; // each key's next
    struct job *cursors[POLICY_MAX_KEYS][POLICY_MAX_BUCKETS];
};
#define WALK_ALL UINT32_MAX
/* orders: a bit for each of a key's orders that the walk goes through. */
void walk_start(struct walk *w, const struct policy_config *cfg, const struct policy_view *view,
                uint32_t orders);
/* From the beginning again, through other orders; credits stay as the jobs taken left them. */
void walk_restart(struct walk *w, uint32_t orders);
struct job *walk_next(struct walk *w); // NULL: no more
void walk_took(struct walk *w, const struct job *job);
void walk_stepped_over(struct walk *w, const struct job *job);
#endif
