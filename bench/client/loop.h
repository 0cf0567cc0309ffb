/* loop.h - one thread of the load: its share of the schedule, its connections, its record. */
#ifndef BERTH_BENCH_CLIENT_LOOP_H
#define BERTH_BENCH_CLIENT_LOOP_H
#include "bench/client/plan.h"
#include "bench/client/record.h"

/* Runs until the schedule is done and every answer has come, or timed out, or plan->stop is set.
 * `thread` of plan->n_threads; `r` was begun. STATUS_IO: no epoll or timer. */
MUST_CHECK enum status loop_run(struct plan *p, int thread, struct record *r, struct error *err);
#endif
