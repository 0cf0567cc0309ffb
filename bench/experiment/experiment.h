/* experiment.h - load tests that start their servers themselves: `--experiment padding` and
 * `--sweep` (docs/BENCH.md). */
#ifndef BERTH_BENCH_EXPERIMENT_EXPERIMENT_H
#define BERTH_BENCH_EXPERIMENT_EXPERIMENT_H
#include "bench/client/bench.h"

enum { EXPERIMENT_MAX_ROUNDS = 20 };
/* As bench_run(): results on stdout and into the files, progress and faults on stderr. */
enum bench_exit experiment_padding(const struct bench_config *cfg);
enum bench_exit experiment_sweep(const struct bench_config *cfg);
#endif
