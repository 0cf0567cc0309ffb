/* internal.h - what the files of the CPU backend share. */
#ifndef BERTH_KERNELS_CPU_INTERNAL_H
#define BERTH_KERNELS_CPU_INTERNAL_H
#include "kernels/cpu/isa.h"
#include "kernels/cpu/lanes.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/plan.h"
#include "kernels/kernels.h"
#include <assert.h>
#ifdef __x86_64__
#include <x86intrin.h>
#else
#include "base/timing.h"
#endif

enum {
    PANEL_ROWS = 144,           // that walk through a layer together, while they are in L2
    TENSOR_SLACK = GEMM_MAX_NR, // floats that may be read, not used, behind a tensor's last
};

/* What other lanes may not rely on, or may still be using, since the last barrier. Every lane runs
 * the same program under the same plan, so all agree without asking. */
enum unsettled {
    SETTLED,
    UNSETTLED_ROWS,    // each lane kept to its own rows
    UNSETTLED_COLUMNS, // lanes read or wrote rows of others
};

struct cpu_lane {
    _Alignas(128) struct lane base;
    struct cpu_backend *cpu;
    enum unsettled unsettled;
    uint64_t *ticks; // [max_layers + 1][N_OP_STEPS], of one program
    uint64_t last_tick;
    /* Workspace, from reserve(). */
    float *packed; // a panel's x, in words of any precision
    float *chunk;  // a panel's piece of the FFN's hidden layer, packed
    float *rows; // the same not packed, [PANEL_ROWS, GEMM_MAX_KC], where the product cannot pack it
    float *attend;   // one head; without fusion the scores of all
    float *residual; // [few rows, hidden]: own copy of x inside layer_rest(), columns cut
};

/* What a slot keeps between batch_begin() and batch_end(). */
struct cpu_pass {
    struct plan plan;
    const struct token_batch *batch; // borrowed; NULL: the slot is free
    uint64_t *op_ticks;              // [max_layers + 1][N_OP_STEPS], of all lanes
    uint64_t ticks;                  // of the caller, in batch_submit()
    int64_t ns;                      // the same in time
};
enum { CPU_SLOTS = 2 }; // the second is for what interrupts the first

struct cpu_backend {
    struct backend base;
    struct backend_fn fn; // this backend's own table
    bool is_separate;     // without fusion
    const struct cpu_isa *isa;
    const struct gemm_kernel *gemm;        // of the backend's precision
    const struct cpu_attention *attention; // likewise
    struct lanes *lanes;
    struct cpu_lane *lane; // [n_lanes]
    struct pass_limits limits;
    struct plan_costs costs;
    int max_head_dim, max_layers;
    struct cpu_pass pass[CPU_SLOTS];
    struct plan plan;                // of the slot whose program runs: copies for the ops
    const struct token_batch *batch; // likewise
    program_fn *program;
    const void *program_arg;
    char detail[64];
};

static inline struct cpu_lane *cpu_lane_of(struct lane *ln) {
    return (struct cpu_lane *)ln; // lanes begin with their public head
}
static inline float *cpu_row(const struct tensor *t, int row) {
    assert(t->dtype == DTYPE_F32 && t->layout == LAYOUT_ROWS);
    return (float *)t->data + row * t->stride;
}
static inline int cpu_rows(const struct cpu_lane *ln, enum row_axis axis) {
    const struct token_batch *b = ln->cpu->batch;
    return axis == AXIS_TOKENS ? b->n_rows : b->n_seqs;
}
static inline int cpu_min(int a, int b) {
    return a < b ? a : b;
}
static inline int cpu_max(int a, int b) {
    return a > b ? a : b;
}

static inline uint64_t cpu_ticks(void) {
#ifdef __x86_64__
    return __rdtsc();
#else
    return (uint64_t)time_now_ns();
#endif
}
/* The time since the lane's last mark goes to `step` of `layer`. */
static inline void cpu_mark_at(struct cpu_lane *ln, int layer, enum op_step step) {
    const uint64_t now = cpu_ticks();
    const int row = layer < ln->cpu->max_layers ? layer : ln->cpu->max_layers;
    ln->ticks[row * N_OP_STEPS + (int)step] += now - ln->last_tick;
    ln->last_tick = now;
}
static inline void cpu_mark(struct cpu_lane *ln, enum op_step step) {
    cpu_mark_at(ln, ln->base.layer, step);
}

/* A lane's share of one op: rows [r0, r1), and of `n` columns (or heads, or panels) a part. */
struct share {
    int r0, r1;
    int lane, n_lanes; // which part of the columns
};
/* Waits for the other lanes if an op that works on `axis` needs it, and says what to do. */
struct share cpu_begin(struct cpu_lane *ln, enum row_axis axis);
/* As cpu_begin(), for ops of one row at a time: rows are divided in either plan. */
struct share cpu_begin_rows(struct cpu_lane *ln, enum row_axis axis);
void cpu_end(struct cpu_lane *ln, enum row_axis axis, enum op_step step);
void cpu_settle(struct cpu_lane *ln); // a barrier, whatever the plan; time goes to STEP_WAIT
#endif
