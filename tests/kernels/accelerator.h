/* accelerator.h - tests of backends whose tensors are not host memory: the CUDA table, on the
 * simulated device, or on a real one with BERTH_ACCELERATOR=cuda. */
#ifndef BERTH_TESTS_KERNELS_ACCELERATOR_H
#define BERTH_TESTS_KERNELS_ACCELERATOR_H
#include "kernels/kernels.h"
#include "kernels/plugin.h"
#include "tests/kernels/check.h"
#include "tests/kernels/net.h"

/* The plugin under test; NULL, and said so once, where there is none or no device. */
const struct accelerator *accelerator_find(void);
bool accelerator_is_simulated(void);
/* A counter that the simulated device exports; 0 on a real one. */
unsigned long accelerator_count(const char *name);
/* A backend of it and the reference beside it; both reserve room for `limits`. */
struct pair accelerator_pair(enum precision precision, const struct accelerator_options *opt,
                             const struct pass_limits *limits);
/* Every precision that it has, for loops: precisions[i], i < 3. */
extern const enum precision accelerator_precisions[3];
/* What a value of the type is off by at most, as a part of it: 2^-8 in bf16; 0 in fp32. */
double accelerator_rounding(const struct backend *be);

/* A small network on the device, for what is asked of whole passes beside their numbers. */
enum { SMALL_ROWS = 64, SMALL_SEQS = 8, SMALL_LEN = 20, SMALL_LABELS = 2 };
struct small_net {
    struct pair pair;
    struct net_host host;
    struct net_weights weights;
    struct net net;
};
void small_net_init(struct small_net *s, enum precision precision,
                    const struct accelerator_options *opt);
void small_net_finish(struct small_net *s);

/* One matrix on both sides, with the same numbers: those that the device's type can hold. */
struct matrix {
    struct tensor ref, dev;
    float *host; // ref's memory, dense
};
struct matrix matrix_random(const struct pair *p, enum row_axis axis, int rows, int cols);
struct matrix matrix_empty(const struct pair *p, enum row_axis axis, int rows, int cols,
                           bool exact);
/* host, changed, to the device, and what it holds then back to host. */
void matrix_settle(const struct pair *p, struct matrix *m);
/* The first `rows` rows: |got - want| <= absolute + relative * |want|. */
void matrix_compare(const struct pair *p, const struct matrix *m, int rows, double absolute,
                    double relative);
void matrix_free(const struct pair *p, struct matrix *m);

int test_accelerator_fault(const char *name); // accelerator_faults.c
int test_accelerator_graphs(void);            // accelerator_graphs.c
int test_accelerator_notes(void);             // accelerator_notes.c
int test_accelerator_ops(void);               // accelerator_ops.c
int test_accelerator_ranges(void);            // accelerator_ranges.c; with nvtx_log.c
int test_accelerator_passes(void);            // accelerator_passes.c
#endif
