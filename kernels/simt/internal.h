/* internal.h - a block that runs, as the files of this folder share it. */
#ifndef BERTH_KERNELS_SIMT_INTERNAL_H
#define BERTH_KERNELS_SIMT_INTERNAL_H
#include "kernels/simt/fiber.h"
#include "kernels/simt/simt.h"
#include <stdbool.h>
#include <stdint.h>

enum thread_state { THREAD_READY, THREAD_AT_BARRIER, THREAD_IN_WARP, THREAD_ENDED };
struct copy { // of cp.async
    void *to;
    const void *from;
    int bytes;
    unsigned group;
};
struct thread {
    struct fiber fiber;
    struct simt_place place;
    enum thread_state state;
    int number; // in its block
    struct copy *copies;
    int n_copies, max_copies;
    unsigned group; // of the copies that begin now
};
enum warp_op { WARP_BARRIER, WARP_SHUFFLE, WARP_LDMATRIX, WARP_MMA };
/* What a lane brings to an operation, and where it wants the result. */
struct lane_operands {
    uint64_t brought, taken; // by a shuffle
    int from;                // whose is taken
    const uint32_t *a, *b;
    const float *c;
    float *d;
    const void *row;
    uint32_t *out;
};
struct warp {
    uint32_t arrived, mask; // of the lanes that wait; of those that have to come
    enum warp_op op;
    int parameter; // of the op: all lanes bring the same
    struct lane_operands lanes[SIMT_LANES];
};

struct thread *simt_me(void);
struct warp *simt_my_warp(void);
static inline int simt_lane(const struct thread *t) {
    return t->number % SIMT_LANES;
}
/* Waits until all lanes of `mask` came to the same op; the last one does finish(warp) (may be NULL)
 * for all. */
void simt_meet(uint32_t mask, enum warp_op op, int parameter, void (*finish)(struct warp *w));
/* Ends the process: a kernel is wrong, and here is where. */
_Noreturn void simt_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Whether an address is beyond the block's dynamic shared memory, or just below it. */
bool simt_beyond_shared(const void *data, size_t bytes);
void simt_copies_finish(struct thread *t); // at a thread's end

static inline uint64_t simt_random(uint64_t *state) { // splitmix64; Steele et al. 2014
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
#endif
