/* sweep.h - latency against throughput over rates and batch budgets, as its reports see it. */
#ifndef BERTH_BENCH_EXPERIMENT_SWEEP_H
#define BERTH_BENCH_EXPERIMENT_SWEEP_H
#include "bench/experiment/way.h"

enum { SWEEP_MAX_WAYS = 8, SWEEP_GRID = 6, SWEEP_POINTS = SWEEP_GRID + 1 };
enum { SWEEP_CLOSED = 0 }; // cell of the closed loop; those of the points follow
struct sweep_point {
    struct figures f;
    bool holds; // the goal; with no goal: has a steady state
};
struct sweep_curve {                         // of one way
    struct sweep_point points[SWEEP_POINTS]; // by rising rate
    int n;
    int knee;      // -1: none
    int best;      // the highest rate up to which all hold; -1: none
    double cost_s; // core-seconds of the machine for 1,000 requests at `best`
};
struct sweep {
    struct runner runner;
    struct way ways[SWEEP_MAX_WAYS];
    int n_ways;
    bool has_goal;
    struct criterion goal;
    struct sweep_curve curves[SWEEP_MAX_WAYS]; // once all has run
    int cheapest;                              // way; -1: none holds
    char started[32];
    double took_s;
};
void sweep_text(FILE *out, const void *sweep);
void sweep_json(FILE *out, const void *sweep);
void sweep_csv(FILE *out, const void *sweep);
void sweep_html(FILE *out, const void *sweep);
#endif
