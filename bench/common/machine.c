/* machine.c - peaks, in short chunks whose median is taken, so that being interrupted costs a chunk
 * and not the figure. The threads of one measurement run together: cores that share power or a
 * clock are asked for all they have at once, as a forward pass asks them. */
#include "bench/common/machine.h"

#include "base/status.h"
#include "base/timing.h"
#include "bench/common/timed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, N_CHUNKS = 51, ROUNDS = 200000, N_COPIES = 9, COPY_BYTES = 64 << 20 };

typedef double peak_fn(int rounds, float *sink);
#define DECLARE(isa) double peak_flops_##isa(int rounds, float *sink);
PEAK_ISAS(DECLARE)

static peak_fn *find_peak(const char *isa) {
    static const struct {
        const char *name;
        peak_fn *fn;
    } known[] = {
#define ENTRY(isa) {#isa, peak_flops_##isa},
        PEAK_ISAS(ENTRY)};
    for (size_t i = 0; i < N_ITEMS(known); i++) {
        if (!strcmp(known[i].name, isa)) {
            return known[i].fn;
        }
    }
    fprintf(stderr, "bench: no peak is known for the isa %s\n", isa);
    exit(1);
}

struct peak_thread {
    pthread_t thread;
    peak_fn *fn;
    double gflops;
};
static void *run_peak(void *arg) {
    struct peak_thread *t = arg;
    float sink[3] = {0.999f, 0.001f, 0};
    double gflops[N_CHUNKS];
    for (int i = 0; i < N_CHUNKS; i++) {
        const int64_t start = time_now_ns();
        const double flops = t->fn(ROUNDS, sink);
        gflops[i] = flops / (double)(time_now_ns() - start);
    }
    t->gflops = median_of(gflops, N_CHUNKS);
    return NULL;
}

double machine_peak_gflops(const char *isa, int n_threads) {
    struct peak_thread threads[MAX_THREADS];
    peak_fn *fn = find_peak(isa);
    double sum = 0;
    int n = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    for (int i = 0; i < n; i++) {
        threads[i].fn = fn;
        if (pthread_create(&threads[i].thread, NULL, run_peak, &threads[i])) {
            fprintf(stderr, "bench: %d threads could not be started\n", n);
            exit(1);
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i].thread, NULL);
        sum += threads[i].gflops;
    }
    return sum;
}

double machine_copy_gbs(void) {
    char *block = xcalloc(2, COPY_BYTES);
    double gbs[N_COPIES];
    memset(block, 1, (size_t)2 * COPY_BYTES);
    for (int i = 0; i < N_COPIES; i++) {
        const int64_t start = time_now_ns();
        memcpy(block, block + COPY_BYTES, COPY_BYTES);
        gbs[i] = 2.0 * COPY_BYTES / (double)(time_now_ns() - start);
    }
    free(block);
    return median_of(gbs, N_COPIES);
}
