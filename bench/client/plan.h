/* plan.h - one load, made ready: where to, what is sent, when. Read-only while it runs, except for
 * the progress counters and the stop word. */
#ifndef BERTH_BENCH_CLIENT_PLAN_H
#define BERTH_BENCH_CLIENT_PLAN_H
#include "bench/client/answer.h"
#include "bench/client/schedule.h"
#include "bench/client/texts.h"
#include "bench/client/url.h"

enum { PLAN_HEAD_BYTES = 16384, STOP_REASON_BYTES = 300 };
enum stop { STOP_NOT, STOP_SIGNAL, STOP_SERVER_LOST, STOP_TIME_UP };

struct progress {
    atomic_llong n_sent, n_ok, n_failed;
    atomic_int n_in_flight;
};
struct plan {
    struct address address;
    char head[PLAN_HEAD_BYTES]; // request line and headers, all but the length
    size_t n_head;
    bool has_body;
    char before[256], after[8]; // the JSON around a text
    struct answer_rules rules;
    const struct texts *texts; // borrowed

    bool is_closed_loop;
    enum arrival_kind kind;
    struct rate_plan rate;
    const struct trace *trace; // borrowed; NULL: none
    double speed;
    uint64_t seed;
    double warmup_s;
    int64_t window_ns;    // of the measurement; INT64_MAX: until max_requests
    int64_t max_requests; // recorded ones; INT64_MAX: until the window's end
    int n_connections;    // closed loop: all the time; open loop: at most. All threads together
    int n_threads;
    int64_t timeout_ns, spin_ns, give_up_ns; // give_up 0: never
    int64_t offset_ns;                       // of this round in the series over time
    int64_t end_by_ns;                       // the round is stopped then, done or not; 0: never

    int64_t start_ns;        // when the warm-up begins
    atomic_llong next_index; // closed loop: of the next recorded request
    atomic_llong next_warm;
    struct progress progress;
    atomic_int stop; // enum stop
    pthread_mutex_t reason_lock;
    char reason[STOP_REASON_BYTES]; // of the first that stopped
};
/* The first reason stays. */
void plan_stop(struct plan *p, enum stop why, const char *reason);
static inline int64_t plan_window_begin(const struct plan *p) {
    return p->start_ns + (int64_t)(p->warmup_s * 1e9);
}
#endif
