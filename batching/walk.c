/* walk.c - a merge of the keys' rank orders, each key weighed by what it has had.
 * Cost of a step: the keys there are, and the orders of the key that was stepped. With one key its
 * turn never ends and the merge is that of ranks alone. A round is not given while a key that has
 * credit only has jobs too large for what is left of the batch: the batch ends, and that key begins
 * the next one, else short texts of one key could pass another key's long ones for ever.
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
            w->cursors[key][i] =
                orders >> i & 1 ? w->view->orders[key * n_orders(w) + i].first : NULL;
        }
        find_first(w, key);
    }
}

void walk_start(struct walk *w, const struct policy_config *cfg, const struct policy_view *view,
                uint32_t orders) {
    w->cfg = cfg;
    w->view = view;
    w->n_rounds = w->n_rounds_used = 0;
    w->stepped_over = 0;
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

/* As many rounds as the first key with work needs. False: none may be given. */
static bool give_rounds(struct walk *w) {
    int64_t rounds = INT64_MAX;
    for (int key = 0; key < w->cfg->n_keys; key++) {
        const int64_t quantum = policy_quantum(w->cfg, key);
        if ((w->stepped_over >> key & 1) && w->credit[key] > 0) {
            return false;
        }
        if (w->firsts[key]) {
            const int64_t needed = (quantum - w->credit[key]) / quantum; // to be above zero
            rounds = needed < rounds ? needed : rounds;
        }
    }
    if (rounds == INT64_MAX) {
        return false;
    }
    for (int key = 0; key < w->cfg->n_keys; key++) {
        w->credit[key] += rounds * policy_quantum(w->cfg, key);
    }
    w->n_rounds += (int)rounds;
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
    w->credit[policy_key_of(w->cfg, job)] -= job->n_tokens;
    w->n_rounds_used = w->n_rounds;
}

void walk_stepped_over(struct walk *w, const struct job *job) {
    w->stepped_over |= UINT64_C(1) << policy_key_of(w->cfg, job);
}
