/* algorithms.c - the notes of a backend's choices, in the tuning cache.
 * A backend asks for a note, and gives one when it had to time; a note given where there was one
 * tells that the old one was stale, and takes its place. A backend that is not sealed times a
 * size at its first batch, on a worker's thread, so there is a lock; the cache is written at the
 * end of the start, and again when it is closed. */
#include "server/algorithms.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

struct algorithms {
    struct choice_notes notes;
    struct tuning *tuning;
    pthread_mutex_t lock;
    struct algorithms_count n;
};

static bool get(void *arg, const char *key, double *values, int n) {
    struct algorithms *a = arg;
    pthread_mutex_lock(&a->lock);
    const bool is_there = tuning_get(a->tuning, key, values, n);
    a->n.known += is_there;
    pthread_mutex_unlock(&a->lock);
    return is_there;
}
static void set(void *arg, const char *key, const double *values, int n) {
    struct algorithms *a = arg;
    double old[TUNING_MAX_VALUES];
    pthread_mutex_lock(&a->lock);
    a->n.timed++;
    a->n.stale += tuning_has(a->tuning, key);
    a->n.known -= tuning_get(a->tuning, key, old, n); // it was counted when it was asked for
    tuning_set(a->tuning, key, values, n);
    pthread_mutex_unlock(&a->lock);
}

struct algorithms *algorithms_create(struct tuning *t) {
    struct algorithms *a = xcalloc(1, sizeof(*a));
    a->notes = (struct choice_notes){a, get, set};
    a->tuning = t;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}
void algorithms_destroy(struct algorithms *a) {
    if (a) {
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}
const struct choice_notes *algorithms_notes(const struct algorithms *a) {
    return &a->notes;
}
struct algorithms_count algorithms_counted(struct algorithms *a) {
    pthread_mutex_lock(&a->lock);
    const struct algorithms_count n = a->n;
    pthread_mutex_unlock(&a->lock);
    return n;
}
void algorithms_log(struct algorithms *a) {
    const struct algorithms_count n = algorithms_counted(a);
    if (n.known + n.timed > 0) {
        log_event(n.stale ? LOG_WARN : LOG_INFO, "algorithms", LOG_INT("known", n.known),
                  LOG_INT("timed", n.timed), LOG_INT("stale", n.stale));
    }
}
