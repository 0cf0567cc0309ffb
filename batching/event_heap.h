/* event_heap.h - what is to happen when, soonest first: the simulator's clock. Allocates. */
#ifndef BERTH_BATCHING_EVENT_HEAP_H
#define BERTH_BATCHING_EVENT_HEAP_H
#include <stdbool.h>
#include <stdint.h>

struct event {
    int64_t at_ns;
    int kind, subject, arrival; // the heap does not look at them
    uint64_t order;             // events of one instant come in the order they were pushed
};
struct event_heap { // owns `events`; zeroed is empty
    struct event *events;
    int n, capacity;
    uint64_t n_pushed;
};
void event_heap_finish(struct event_heap *h); // takes a zeroed one
void event_heap_push(struct event_heap *h, const struct event *e);
bool event_heap_pop(struct event_heap *h, struct event *out); // false: empty
#endif
