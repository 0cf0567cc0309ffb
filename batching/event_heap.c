/* event_heap.c - a binary heap in an array. */
#include "batching/event_heap.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

void event_heap_finish(struct event_heap *h) {
    free(h->events);
    *h = (struct event_heap){0};
}

static bool comes_before(const struct event *a, const struct event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void grow(struct event_heap *h) {
    const int capacity = h->capacity ? 2 * h->capacity : 256;
    struct event *grown = xcalloc((size_t)capacity, sizeof(*grown));
    if (h->n > 0) {
        memcpy(grown, h->events, (size_t)h->n * sizeof(*grown));
    }
    free(h->events);
    h->events = grown;
    h->capacity = capacity;
}

void event_heap_push(struct event_heap *h, const struct event *e) {
    if (h->n == h->capacity) {
        grow(h);
    }
    struct event added = *e;
    added.order = h->n_pushed++;
    int at = h->n++;
    for (int parent; at > 0; at = parent) {
        parent = (at - 1) / 2;
        if (!comes_before(&added, &h->events[parent])) {
            break;
        }
        h->events[at] = h->events[parent];
    }
    h->events[at] = added;
}

bool event_heap_pop(struct event_heap *h, struct event *out) {
    if (h->n == 0) {
        return false;
    }
    *out = h->events[0];
    const struct event moved = h->events[--h->n];
    int at = 0;
    for (int child = 1; child < h->n; child = 2 * at + 1) {
        if (child + 1 < h->n && comes_before(&h->events[child + 1], &h->events[child])) {
            child++;
        }
        if (!comes_before(&h->events[child], &moved)) {
            break;
        }
        h->events[at] = h->events[child];
        at = child;
    }
    h->events[at] = moved;
    return true;
}
