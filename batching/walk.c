/* walk.c - a merge of the keys' rank orders, each key weighed by what it has had.
 * With one key its turn never ends and the merge is that of ranks alone. With several, a batch goes
 * on when no key in reach has credit left, so that it is as full as it can be; but while a key out
 * of reach (its texts do not fit, or are of another bucket) is owed something, no round is given
 * for it: what is taken then is owed, and the next batch begins with that key. Else short texts of
 * one key could pass another's long ones for ever.
 * Source: Shreedhar and Varghese 1995, Efficient fair queueing using deficit round robin. */
#include "batching/walk.h"

static int n_orders(const struct walk *w) {
    return policy_n_orders(w->cfg);
}

static void find_first(struct walk *w, int key) {
    struct job *first = NULL;
    for (int i = 0; i < n_orders(w); i++) {
        struct job *job = w->cursors[key][i];
        if (job && (!first || job_before(job, first))) {
            first = job;
        }
    }
    w->firsts[key] = first;
}

void walk_restart(struct walk *w, uint32_t orders) {
    for (int key = 0; key < w->cfg->n_keys; key++) {
        for (int i = 0; i < n_orders(w); i++) {
            struct job *first = w->view->orders[key * n_orders(w) + i].first;
            const bool wanted = orders >> i & 1;
            w->cursors[key][i] = wanted ? first : NULL;
            if (first && !wanted) {
                w->out_of_reach |= UINT64_C(1) << key;
            }
        }
        find_first(w, key);
    }
}

void walk_start(struct walk *w, const struct policy_config *cfg, const struct policy_view *view,
                uint32_t orders) {
    w->cfg = cfg;
    w->view = view;
    w->n_rounds = w->n_rounds_used = 0;
    w->out_of_reach = 0;
    w->overdrawn = false;
    policy_quanta(cfg, w->quanta);
    for (int key = 0; key < cfg->n_keys; key++) {
        w->credit[key] = view->deficits[key];
    }
    walk_restart(w, orders);
}

static bool has_turn(const struct walk *w, int key) {
    return w->cfg->n_keys == 1 || w->credit[key] > 0;
}

static int first_key(const struct walk *w) {
    int first = -1;
    for (int key = 0; key < w->cfg->n_keys; key++) {
        if (w->firsts[key] && has_turn(w, key) &&
            (first < 0 || job_before(w->firsts[key], w->firsts[first]))) {
            first = key;
        }
    }
    return first;
}

/* Rounds that the key needs to have a turn. */
static int64_t rounds_to(const struct walk *w, int key) {
    const int64_t credit = w->credit[key], quantum = w->quanta[key];
    if (credit > -quantum) { // the rule; a division less
        return credit <= 0;
    }
    return (quantum - credit) / quantum;
}

/* As many rounds as the first key with work in reach needs. False: none has work. */
static bool give_rounds(struct walk *w) {
    int64_t rounds = INT64_MAX, out_of_reach = INT64_MAX;
    for (int key = 0; key < w->cfg->n_keys; key++) {
        const int64_t needed = rounds_to(w, key);
        if (w->firsts[key]) {
            rounds = needed < rounds ? needed : rounds;
        } else if (w->out_of_reach >> key & 1) {
            out_of_reach = needed < out_of_reach ? needed : out_of_reach;
        }
    }
    if (rounds == INT64_MAX) {
        return false;
    }
    w->overdrawn = w->overdrawn || out_of_reach < rounds;
    for (int key = 0; key < w->cfg->n_keys; key++) {
        w->credit[key] += rounds * w->quanta[key];
    }
    w->n_rounds += w->overdrawn ? 0 : (int)rounds;
    return true;
}

struct job *walk_next(struct walk *w) {
    int key = first_key(w);
    if (key < 0 && give_rounds(w)) {
        key = first_key(w);
    }
    if (key < 0) {
        return NULL;
    }
    struct job *job = w->firsts[key];
    w->cursors[key][policy_order_of(w->cfg, job->bucket)] = job_order_next(job);
    find_first(w, key);
    return job;
}

void walk_took(struct walk *w, const struct job *job) {
    w->credit[policy_key_of(w->cfg, job)] -= (int64_t)job->n_tokens * POLICY_CREDIT;
    w->n_rounds_used = w->n_rounds;
}

void walk_stepped_over(struct walk *w, const struct job *job) {
    w->out_of_reach |= UINT64_C(1) << policy_key_of(w->cfg, job);
}
