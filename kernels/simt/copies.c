/* copies.c - cp.async: what was begun lands when the thread waits for its group, never before, so
 * that a wait that is missing shows as NaNs. What is read is what is there at that time. */
#include "kernels/simt/internal.h"
#include "kernels/simt/memory.h"

#include <stdlib.h>
#include <string.h>

static void check(const void *to, const void *from, int bytes) {
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        simt_fail("cp.async of %d bytes: 4, 8 or 16 can be copied", bytes);
    }
    if ((uintptr_t)to % (unsigned)bytes || (uintptr_t)from % (unsigned)bytes) {
        simt_fail("cp.async of %d bytes is not aligned: from %p to %p", bytes, from, to);
    }
    if (!memory_has(from, (size_t)bytes)) {
        simt_fail("cp.async reads outside device memory, at %p", from);
    }
    if (memory_has(to, 1) || simt_beyond_shared(to, (size_t)bytes)) {
        simt_fail("cp.async writes outside shared memory, at %p", to);
    }
}
void simt_cp_async(void *to, const void *from, int bytes) {
    struct thread *me = simt_me();
    check(to, from, bytes);
    if (me->n_copies == me->max_copies) {
        me->max_copies = me->max_copies ? 2 * me->max_copies : 16;
        me->copies = realloc(me->copies, (size_t)me->max_copies * sizeof(*me->copies));
        if (!me->copies) {
            simt_fail("no memory for %d copies", me->max_copies);
        }
    }
    me->copies[me->n_copies++] = (struct copy){to, from, bytes, me->group};
}
void simt_cp_async_commit(void) {
    simt_me()->group++;
}
void simt_cp_async_wait(int n_latest) {
    struct thread *me = simt_me();
    int n = 0;
    while (n < me->n_copies && me->copies[n].group + (unsigned)n_latest < me->group) {
        const struct copy *c = &me->copies[n++];
        race_reads(c->from, (size_t)c->bytes);
        race_writes(c->to, (size_t)c->bytes);
        memcpy(c->to, c->from, (size_t)c->bytes);
    }
    me->n_copies -= n;
    if (n && me->n_copies) {
        memmove(me->copies, me->copies + n, (size_t)me->n_copies * sizeof(*me->copies));
    }
}
void simt_copies_finish(struct thread *t) {
    if (t->n_copies) {
        simt_fail("the thread ends with %d copies under way", t->n_copies);
    }
}
