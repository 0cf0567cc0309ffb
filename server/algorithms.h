/* algorithms.h - which algorithm each of a GPU's products is the fastest with, kept in the tuning
 * cache: what one start has timed, the next need not.
 * Threads: notes are read and taken by any thread; the rest is the main thread's. */
#ifndef BERTH_SERVER_ALGORITHMS_H
#define BERTH_SERVER_ALGORITHMS_H
#include "kernels/plugin.h"
#include "server/tuning.h"

struct algorithms;                                      // opaque
struct algorithms *algorithms_create(struct tuning *t); // borrows `t` until destroy
void algorithms_destroy(struct algorithms *a);          // takes NULL
/* For accelerator_options; lives as long as `a`. */
const struct choice_notes *algorithms_notes(const struct algorithms *a);
struct algorithms_count {
    int known; // taken from the cache
    int timed; // not in it, or of no use
    int stale; // of those: an entry was there, and the device's library knows it no more
};
struct algorithms_count algorithms_counted(struct algorithms *a);
/* The event `algorithms`, when a device has asked for any. */
void algorithms_log(struct algorithms *a);
#endif
