/* metrics_buckets.c - which place of the counters belongs to which bound.
 * Places are handed out by bound and kept: a bound that comes back after a reload goes on counting
 * where it was. Whoever counts asks by length or bound, never by a bucket's index, which means
 * something else after a reload. When a process has seen more bounds than there are places, one
 * that is not in force is emptied. */
#include "server/metrics.h"

static void empty(struct bucket_metrics *b) {
    counter *const counts[] = {&b->jobs, &b->batches,    &b->tokens,  &b->rows,
                               &b->room, &b->wait.count, &b->wait.sum};
    for (size_t i = 0; i < N_ITEMS(counts); i++) {
        atomic_store(counts[i], 0);
    }
    for (int i = 0; i < N_RELEASE_REASONS; i++) {
        atomic_store(&b->reasons[i], 0);
    }
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        atomic_store(&b->wait.bins[i], 0);
    }
}
static bool is_wanted(const struct policy_config *p, int up_to) {
    for (int i = 0; i < p->n_buckets; i++) {
        if (p->buckets[i].up_to == up_to) {
            return true;
        }
    }
    return false;
}
/* The place that has this bound, else a free one, else one that `p` does not want. */
static int place_for(const struct metrics *m, const struct policy_config *p, int up_to) {
    int spare = 0;
    for (int i = METRIC_MAX_BUCKETS - 1; i >= 0; i--) {
        const int has = atomic_load(&m->buckets[i].up_to);
        if (has == up_to) {
            return i;
        }
        if (!has || (!is_wanted(p, has) && atomic_load(&m->buckets[spare].up_to))) {
            spare = i;
        }
    }
    return spare;
}
void metrics_set_buckets(struct metrics *m, const struct policy_config *p) {
    for (int i = 0; i < p->n_buckets; i++) {
        const int up_to = p->buckets[i].up_to, place = place_for(m, p, up_to);
        struct bucket_metrics *b = &m->buckets[place];
        if (atomic_load(&b->up_to) != up_to) {
            empty(b);
            atomic_store(&b->up_to, up_to);
        }
        atomic_store(&b->max_rows, p->buckets[i].max_batch_tokens);
        atomic_store(&m->bucket_in_force[i], place);
    }
    atomic_store(&m->n_buckets_in_force, p->n_buckets);
}
struct bucket_metrics *metrics_bucket_of(struct metrics *m, int n_tokens) {
    const int n = atomic_load(&m->n_buckets_in_force);
    struct bucket_metrics *b = &m->buckets[0];
    for (int i = 0; i < n; i++) {
        b = &m->buckets[atomic_load(&m->bucket_in_force[i])];
        if (n_tokens <= atomic_load(&b->up_to)) {
            return b;
        }
    }
    return b;
}
struct bucket_metrics *metrics_bucket_at(struct metrics *m, int up_to) {
    for (int i = 0; up_to > 0 && i < METRIC_MAX_BUCKETS; i++) {
        if (atomic_load(&m->buckets[i].up_to) == up_to) {
            return &m->buckets[i];
        }
    }
    return metrics_bucket_of(m, INT32_MAX);
}

void metrics_reset_key(struct metrics *m, int index) {
    struct key_metrics *k = &m->keys[index];
    counter *const counts[] = {&k->answered, &k->refused, &k->cancelled,
                               &k->expired,  &k->limited, &k->tokens};
    for (size_t i = 0; i < N_ITEMS(counts); i++) {
        atomic_store(counts[i], 0);
    }
}
