/* due.c - a binary heap of the jobs that have a deadline, smallest start_ns on top.
 * Each job knows its place, so that one which is chosen or cancelled leaves from the middle. */
#include "batching/due.h"

#include <assert.h>
#include <stdlib.h>

void due_heap_init(struct due_heap *h, int capacity) {
    *h = (struct due_heap){.jobs = xcalloc((size_t)capacity, sizeof(struct job *)),
                           .capacity = capacity};
}

void due_heap_finish(struct due_heap *h) {
    free(h->jobs);
    *h = (struct due_heap){.n = 0};
}

static void put(struct due_heap *h, int place, struct job *job) {
    h->jobs[place] = job;
    job->due_place = place + 1;
}

static void rise(struct due_heap *h, int place, struct job *job) {
    while (place > 0 && h->jobs[(place - 1) / 2]->start_ns > job->start_ns) {
        put(h, place, h->jobs[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(h, place, job);
}

static void sink(struct due_heap *h, int place, struct job *job) {
    for (;;) {
        int child = 2 * place + 1;
        if (child + 1 < h->n && h->jobs[child + 1]->start_ns < h->jobs[child]->start_ns) {
            child++;
        }
        if (child >= h->n || h->jobs[child]->start_ns >= job->start_ns) {
            break;
        }
        put(h, place, h->jobs[child]);
        place = child;
    }
    put(h, place, job);
}

void due_heap_insert(struct due_heap *h, struct job *job) {
    assert(h->n < h->capacity);
    rise(h, h->n++, job);
}

void due_heap_remove(struct due_heap *h, struct job *job) {
    if (!job->due_place) {
        return;
    }
    const int place = job->due_place - 1;
    struct job *last = h->jobs[--h->n];
    job->due_place = 0;
    if (last == job) {
        return;
    }
    if (place > 0 && h->jobs[(place - 1) / 2]->start_ns > last->start_ns) {
        rise(h, place, last);
    } else {
        sink(h, place, last);
    }
}

int64_t due_heap_first_ns(const struct due_heap *h) {
    return h->n > 0 ? h->jobs[0]->start_ns : INT64_MAX;
}
