/* interrupt.c - what may run at a layer border of a long batch. */
#include "batching/queues_internal.h"

struct decision queues_interrupt(struct queues *q, int worker, int left, int n_layers,
                                 int64_t now_ns, struct job **chosen, int max_chosen) {
    return (struct decision){.kind = DECIDE_IDLE, .bucket = -1};
}
