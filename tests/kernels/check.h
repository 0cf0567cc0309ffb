/* check.h - what a kernel test needs: one input in the reference's and the device's memory, outputs
 * with NaN inside and canaries around, a program of one op, and comparison.
 * Buffers are host memory: for the backends whose tensors are (the CPU's). A failure prints the
 * seed; BERTH_TEST_SEED=n runs with it again. */
#ifndef BERTH_TESTS_KERNELS_CHECK_H
#define BERTH_TESTS_KERNELS_CHECK_H
#include "kernels/kernels.h"
#include "tests/unit/test.h"
#include <stdbool.h>

/* Random numbers, the same for the same seed. */
void check_seed_init(void);
int check_rand(int low, int high); // both included
float check_normal(void);          // mean 0, variance 1, nearly

/* The device under test, and the reference beside it. */
struct pair {
    struct backend *ref, *dev;
};
/* BERTH_TEST_FUSION=off: of devices without fusion. */
struct pair check_pair(const char *isa, int n_lanes);
struct pair check_pair_in(const char *isa, int n_lanes, enum precision precision);
void check_pair_finish(struct pair *p);
/* Every ISA this machine has, NULL at the end; what it lacks is said once. */
const char *const *check_isas(void);
/* Every precision but fp32 that an ISA of this machine has, or that is emulated; NULL at the end.
 */
struct kind {
    const char *isa;
    enum precision precision;
};
const struct kind *check_kinds(void);
/* Names the case that a failure prints. */
void check_case(const struct pair *p, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Ends the test with the case's name and the seed. */
void check_fail(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* One matrix, twice. Rows stand apart by a few floats more than there are columns. */
struct buf {
    struct tensor ref, dev;
    float *memory[2]; // with the canaries
    size_t floats;    // of one memory
};
struct buf check_input(enum row_axis axis, int rows, int cols);
struct buf check_output(enum row_axis axis, int rows, int cols);
/* The same numbers where `from` has them; its own canaries. */
struct buf check_copy(const struct buf *from);
void check_free(struct buf *b);
/* Every written element within `tolerance`; nothing written outside rows x cols. */
void check_close(const struct buf *y, int rows, double tolerance);
void check_same_bits(const float *a, const float *b, size_t n, const char *what);

/* A batch of random lengths (or `lens`); padded: gaps of up to `padding` rows. */
struct batch {
    struct token_batch b;
    int32_t *ids, *types, *cu, *lens;
};
struct batch check_batch(int n_seqs, int max_len, int padding);
struct batch check_batch_of(const int *lens, int n_seqs, int padding);
void check_batch_free(struct batch *b);

/* Runs `program` on one backend. */
void check_run(struct backend *be, const struct token_batch *b, program_fn *program,
               const void *arg);

/* Host tensors of random numbers with this spread, in any storage type. */
struct host_tensor check_host(int rows, int cols, float spread, enum dtype dtype);
void check_host_free(struct host_tensor *t);
/* Of a row of a with the same row of b, the least; both [rows, cols]. */
double check_worst_cosine(const float *a, const float *b, int rows, int cols);

int test_edges(void);      // edges.c
int test_ops(void);        // ops.c
int test_layers(void);     // layers.c
int test_lanes(void);      // lanes.c
int test_packing(void);    // packing.c
int test_precisions(void); // precisions.c
int bench(void);           // bench.c
#endif
