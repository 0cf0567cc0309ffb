/* timing.h - the monotonic clock, and the stages that a request's time is divided into. */
#ifndef BERTH_BASE_TIMING_H
#define BERTH_BASE_TIMING_H
#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

int64_t time_now_ns(void); // CLOCK_MONOTONIC

/* In the order a request passes them. Headers, metrics and docs follow this enum. */
enum stage {
    STAGE_READ,     // headers to last body byte
    STAGE_PARSE,    // bytes to texts
    STAGE_TOKENIZE, // texts to token ids
    STAGE_QUEUE,    // until the last of its jobs was chosen
    STAGE_FORM,     // choose and pack, host to device
    STAGE_INFER,    // forward pass
    STAGE_POST,     // wake-up of the connection, logits to labels
    STAGE_WRITE,    // labels to body bytes
    N_STAGES,
};
extern const char *const stage_names[N_STAGES];

/* One request's instants. ends[s] is when stage s ended; it began when the stage before it ended,
 * so the stages add up to the total by construction. */
struct stage_clock {
    int64_t start_ns;
    int64_t ends_ns[N_STAGES];
};
void stage_clock_start(struct stage_clock *c, int64_t now_ns);
/* Ends stage `s` at `now_ns`; stages before it that were never ended take no time. An instant
 * before the previous stage's end counts as that end. */
void stage_clock_end(struct stage_clock *c, enum stage s, int64_t now_ns);
int64_t stage_clock_ns(const struct stage_clock *c, enum stage s);
int64_t stage_clock_total_ns(const struct stage_clock *c); // to the last stage that ended
#endif
