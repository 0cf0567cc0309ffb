/* machine.h - what this machine could do at best, measured beside the figures that it bounds.
 * Threads: each call starts its own and waits for them. */
#ifndef BERTH_BENCH_COMMON_MACHINE_H
#define BERTH_BENCH_COMMON_MACHINE_H

/* GFLOP/s of multiply-adds in registers, `n_threads` at once, all together; some 20 ms. `isa` is
 * the name of one that this build and CPU have. */
double machine_peak_gflops(const char *isa, int n_threads);
/* GB/s, read and written both counted, of copying far more than the caches hold; one thread. */
double machine_copy_gbs(void);
#endif
