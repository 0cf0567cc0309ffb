/* timing.c - the clock, and stages that add up.
 * A stage is stored as the instant of its end, never as a duration: whatever is ended late, twice
 * or not at all, the durations are differences of one rising sequence and their sum is the total.
 */
#include "base/timing.h"

#include <time.h>

const char *const stage_names[N_STAGES] = {
    [STAGE_READ] = "read",   [STAGE_PARSE] = "parse", [STAGE_TOKENIZE] = "tokenize",
    [STAGE_QUEUE] = "queue", [STAGE_FORM] = "form",   [STAGE_INFER] = "infer",
    [STAGE_POST] = "post",   [STAGE_WRITE] = "write",
};

int64_t time_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

void stage_clock_start(struct stage_clock *c, int64_t now_ns) {
    c->start_ns = now_ns;
    for (int s = 0; s < N_STAGES; s++) {
        c->ends_ns[s] = now_ns;
    }
}

void stage_clock_end(struct stage_clock *c, enum stage s, int64_t now_ns) {
    const int64_t before = s ? c->ends_ns[s - 1] : c->start_ns;
    const int64_t end = now_ns > before ? now_ns : before;
    for (int i = (int)s; i < N_STAGES; i++) {
        c->ends_ns[i] = end;
    }
}

int64_t stage_clock_ns(const struct stage_clock *c, enum stage s) {
    return c->ends_ns[s] - (s ? c->ends_ns[s - 1] : c->start_ns);
}

int64_t stage_clock_total_ns(const struct stage_clock *c) {
    return c->ends_ns[N_STAGES - 1] - c->start_ns;
}
