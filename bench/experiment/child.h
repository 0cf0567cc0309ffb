/* child.h - a server of this very program as a child process: loopback, a free port, stopped by its
 * pid. It stands in a process group of its own, so that Ctrl-C reaches the bench alone, and ends
 * with the bench however that ends. */
#ifndef BERTH_BENCH_EXPERIMENT_CHILD_H
#define BERTH_BENCH_EXPERIMENT_CHILD_H
#include "base/status.h"
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>

enum { CHILD_MAX_WORDS = 24 };
struct child {
    pid_t pid; // 0: none
    int port;
    FILE *log;           // what it wrote to stderr
    struct rusage usage; // once it has ended
};
/* `words`: the options after "berth serve", NULL at the end. Returns when it is ready, or at
 * `end_by_ns` (monotonic) at the latest. *interrupted (may not be NULL) when SIGINT or SIGTERM,
 * which the caller has blocked, came first. STATUS_IO with what it said when it did not start. */
MUST_CHECK enum status child_start(struct child *c, const char *const *words, int64_t end_by_ns,
                                   bool *interrupted, struct error *err);
/* SIGTERM and no more: several servers may end side by side before child_stop() waits for each. */
void child_ask_to_end(const struct child *c);
/* SIGTERM, then SIGKILL to what does not end; takes one that never ran. */
void child_stop(struct child *c);
bool child_is_alive(struct child *c);
double child_cpu_s(const struct child *c); // of all its threads, until now; 0 when it has ended
/* SIGINT or SIGTERM is waiting: takes it. */
bool signal_is_pending(void);
#endif
