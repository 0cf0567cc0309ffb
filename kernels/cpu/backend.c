/* backend.c - the CPU backend's life: ISA, lanes, tensors, workspace, and a pass.
 * batch_submit() runs its program at once, the caller being lane 0. A pass may be submitted in
 * pieces, and the other slot's pass between two of them: the lanes' workspace holds nothing from
 * one piece to the next. Times are taken in ticks of the CPU's counter and turned into nanoseconds
 * by the pass's own length in both, so nothing is calibrated. */
#include "base/timing.h"
#include "kernels/cpu/entries.h"
#include "kernels/cpu/internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cpu_backend *cpu_of(struct backend *be) {
    return (struct cpu_backend *)be;
}

static void free_workspace(struct cpu_lane *ln) {
    cpu_floats_free(ln->packed);
    cpu_floats_free(ln->chunk);
    cpu_floats_free(ln->rows);
    cpu_floats_free(ln->attend);
    cpu_floats_free(ln->residual);
    ln->packed = ln->chunk = ln->rows = ln->attend = ln->residual = NULL;
}

static void destroy(struct backend *be) {
    struct cpu_backend *cpu = cpu_of(be);
    lanes_destroy(cpu->lanes);
    for (int i = 0; cpu->lane && i < be->n_lanes; i++) {
        free_workspace(&cpu->lane[i]);
        free(cpu->lane[i].ticks);
    }
    free(cpu->lane);
    for (int slot = 0; slot < CPU_SLOTS; slot++) {
        free(cpu->pass[slot].plan.cut[AXIS_TOKENS]);
        free(cpu->pass[slot].plan.cut[AXIS_SEQS]);
        free(cpu->pass[slot].op_ticks);
    }
    free(cpu);
}

/* All of 1 / sqrt(head_dim), and log2(e), for softmax works in powers of 2. */
static float query_scale(const struct backend *be, int head_dim) {
    return (float)(M_LOG2E / sqrt((double)head_dim));
}

static enum status tensor_create(struct backend *be, struct tensor *out, enum row_axis axis,
                                 int rows, int cols, bool exact, struct error *err) {
    float *data = cpu_floats((size_t)rows * (size_t)cols + TENSOR_SLACK);
    if (!data) {
        return error_set(err, STATUS_NO_MEMORY, "no memory for %d x %d floats", rows, cols);
    }
    *out = (struct tensor){data, DTYPE_F32, LAYOUT_ROWS, axis, rows, cols, cols};
    return STATUS_OK;
}
static void tensor_destroy(struct backend *be, struct tensor *t) {
    cpu_floats_free(t->data);
    memset(t, 0, sizeof(*t));
}

/* Room for m rows of k values packed: in fp32, the most words that any precision needs, but for
 * what fills up rows and blocks. */
static size_t packed_room(size_t m, size_t k) {
    const size_t rows = m + GEMM_MAX_PAD, blocks = k / GEMM_MIN_KC + 1;
    return rows * (k + blocks * (GEMM_MAX_PAD / 4 + 2 * GEMM_MAX_GROUPS)) + GEMM_SLACK;
}
static enum status make_workspace(const struct cpu_backend *cpu, struct cpu_lane *ln,
                                  struct error *err) {
    const struct pass_limits *l = &cpu->limits;
    const size_t few = (size_t)COLUMNS_ROWS_PER_LANE * (size_t)cpu->base.n_lanes;
    const size_t rows = few > PANEL_ROWS ? few : PANEL_ROWS, hidden = (size_t)l->hidden;
    const size_t widest = hidden > GEMM_MAX_KC ? hidden : GEMM_MAX_KC;
    const size_t inner = (size_t)l->intermediate; // of a few rows, columns cut
    size_t attend = cpu->attention->floats(l->max_seq_len, cpu->max_head_dim);
    const enum status s = cpu->is_separate ? cpu_separate_floats(&attend, cpu, err) : STATUS_OK;
    if (s) {
        return s;
    }
    const size_t packed = packed_room(rows, widest), packed_few = packed_room(few, inner);
    free_workspace(ln);
    ln->packed = cpu_floats(packed > packed_few ? packed : packed_few);
    ln->chunk = cpu_floats(packed_room(PANEL_ROWS, GEMM_MAX_KC));
    ln->rows = cpu_floats((size_t)PANEL_ROWS * GEMM_MAX_KC + TENSOR_SLACK);
    ln->attend = cpu_floats(attend);
    ln->residual = cpu_floats(few * hidden + TENSOR_SLACK);
    if (!ln->packed || !ln->chunk || !ln->rows || !ln->attend || !ln->residual) {
        return error_set(err, STATUS_NO_MEMORY, "no memory for a lane's workspace");
    }
    return STATUS_OK;
}

static size_t n_ticks(const struct cpu_backend *cpu) {
    return ((size_t)cpu->max_layers + 1) * N_OP_STEPS;
}
static void make_ticks(struct cpu_backend *cpu) {
    for (int i = 0; i < cpu->base.n_lanes; i++) {
        free(cpu->lane[i].ticks);
        cpu->lane[i].ticks = xcalloc(n_ticks(cpu), sizeof(*cpu->lane[i].ticks));
    }
    for (int slot = 0; slot < CPU_SLOTS; slot++) {
        free(cpu->pass[slot].op_ticks);
        cpu->pass[slot].op_ticks = xcalloc(n_ticks(cpu), sizeof(*cpu->pass[slot].op_ticks));
    }
}

/* Limits only grow, so that several models can be run by one backend. */
static enum status reserve(struct backend *be, const struct pass_limits *limits,
                           struct error *err) {
    struct cpu_backend *cpu = cpu_of(be);
    struct pass_limits *l = &cpu->limits;
    l->max_seq_len = cpu_max(l->max_seq_len, limits->max_seq_len);
    l->hidden = cpu_max(l->hidden, limits->hidden);
    l->intermediate = cpu_max(l->intermediate, limits->intermediate);
    l->n_heads = cpu_max(l->n_heads, limits->n_heads);
    cpu->max_layers = cpu_max(cpu->max_layers, limits->n_layers);
    make_ticks(cpu);
    cpu->max_head_dim = cpu_max(cpu->max_head_dim, limits->hidden / limits->n_heads);
    /* Multiply-adds of a row's products; those of a pair of tokens, of which softmax makes 30 %
     * more than the two products alone. */
    cpu->costs.row = 4.0 * l->hidden * l->hidden + 2.0 * l->hidden * l->intermediate;
    cpu->costs.pair = 2.6 * l->hidden;
    enum status s = STATUS_OK;
    for (int i = 0; i < be->n_lanes && !s; i++) {
        s = make_workspace(cpu, &cpu->lane[i], err);
    }
    return s;
}

static void batch_begin(struct backend *be, int slot, const struct token_batch *batch) {
    struct cpu_backend *cpu = cpu_of(be);
    struct cpu_pass *pass = &cpu->pass[slot];
    assert(slot >= 0 && slot < CPU_SLOTS && !pass->batch && cpu->limits.hidden > 0);
    pass->batch = batch;
    pass->ticks = 0, pass->ns = 0;
    memset(pass->op_ticks, 0, n_ticks(cpu) * sizeof(*pass->op_ticks));
    plan_make(&pass->plan, batch, be->n_lanes, &cpu->costs);
}

static void run_lane(void *arg, int index) {
    struct cpu_backend *cpu = arg;
    struct cpu_lane *ln = &cpu->lane[index];
    memset(ln->ticks, 0, n_ticks(cpu) * sizeof(*ln->ticks));
    ln->base.layer = 0, ln->base.linear_step = STEP_QKV, ln->base.norm_step = STEP_OUTPUT_NORM;
    ln->unsettled = SETTLED;
    ln->last_tick = cpu_ticks();
    cpu->program(&ln->base, cpu->program_arg);
    lanes_barrier(cpu->lanes); // no mark: past it the caller reads the ticks
}

static void add_ticks(struct cpu_backend *cpu, struct cpu_pass *pass) {
    for (int i = 0; i < cpu->base.n_lanes; i++) {
        for (size_t t = 0; t < n_ticks(cpu); t++) {
            pass->op_ticks[t] += cpu->lane[i].ticks[t];
        }
    }
}

static void batch_submit(struct backend *be, int slot, program_fn *program, const void *arg) {
    struct cpu_backend *cpu = cpu_of(be);
    struct cpu_pass *pass = &cpu->pass[slot];
    assert(slot >= 0 && slot < CPU_SLOTS && pass->batch);
    cpu->plan = pass->plan, cpu->batch = pass->batch;
    cpu->program = program, cpu->program_arg = arg;
    const int64_t start_ns = time_now_ns();
    const uint64_t start = cpu_ticks();
    lanes_run(cpu->lanes, run_lane, cpu);
    pass->ticks += cpu_ticks() - start;
    pass->ns += time_now_ns() - start_ns;
    add_ticks(cpu, pass);
}

/* Of one lane's tick, as a mean over the lanes. */
static double ns_per_tick(const struct cpu_backend *cpu, const struct cpu_pass *pass) {
    return (double)pass->ns / (double)(pass->ticks ? pass->ticks : 1) / cpu->base.n_lanes;
}
/* What a lane did not spend in a step it has waited: for its start, at the last barrier. */
static double other_ticks(const struct cpu_backend *cpu, const struct cpu_pass *pass) {
    double other = (double)pass->ticks * cpu->base.n_lanes;
    for (size_t t = 0; t < n_ticks(cpu); t++) {
        other -= (double)pass->op_ticks[t];
    }
    return other > 0 ? other : 0;
}
static void report_times(const struct cpu_backend *cpu, const struct cpu_pass *pass,
                         struct op_times *times) {
    double ticks[N_OP_KINDS] = {[OP_WAIT] = other_ticks(cpu, pass)};
    for (size_t t = 0; t < n_ticks(cpu); t++) {
        ticks[op_step_kinds[t % N_OP_STEPS]] += (double)pass->op_ticks[t];
    }
    for (int kind = 0; kind < N_OP_KINDS; kind++) {
        times->ns[kind] = (int64_t)(ticks[kind] * ns_per_tick(cpu, pass));
    }
}
static void profile(const struct backend *be, int slot, struct op_profile *sum) {
    const struct cpu_backend *cpu = (const struct cpu_backend *)be;
    const struct cpu_pass *pass = &cpu->pass[slot];
    const double ns = ns_per_tick(cpu, pass);
    assert(slot >= 0 && slot < CPU_SLOTS && !pass->batch);
    for (int layer = 0; layer <= cpu->max_layers; layer++) {
        for (int step = 0; step < N_OP_STEPS; step++) {
            const double ticks = (double)pass->op_ticks[layer * N_OP_STEPS + step];
            op_profile_at(sum, layer, (enum op_step)step)->ns += (int64_t)(ticks * ns);
        }
    }
    op_profile_at(sum, sum->n_layers, STEP_WAIT)->ns += (int64_t)(other_ticks(cpu, pass) * ns);
}

static bool batch_end(struct backend *be, int slot, bool wait, enum status *status,
                      struct op_times *times, struct error *err) {
    struct cpu_backend *cpu = cpu_of(be);
    struct cpu_pass *pass = &cpu->pass[slot];
    assert(slot >= 0 && slot < CPU_SLOTS && pass->batch);
    pass->batch = NULL;
    *status = STATUS_OK;
    if (times) {
        report_times(cpu, pass, times);
    }
    return true;
}

static const struct backend_fn functions = {
    .abi = KERNELS_ABI,
    .struct_size = sizeof(struct backend_fn),
    .destroy = destroy,
    .query_scale = query_scale,
    .tensor_create = tensor_create,
    .tensor_destroy = tensor_destroy,
    .tensor_write = host_tensor_write,
    .tensor_read = host_tensor_read,
    .linear_create = cpu_linear_create,
    .linear_destroy = cpu_linear_destroy,
    .norm_create = cpu_norm_create,
    .norm_destroy = cpu_norm_destroy,
    .table_create = cpu_table_create,
    .table_destroy = cpu_table_destroy,
    .reserve = reserve,
    .warm_up_size = warm_up_size_none,
    .seal = seal_nothing,
    .batch_begin = batch_begin,
    .batch_submit = batch_submit,
    .batch_end = batch_end,
    .profile = profile,
    .barrier = cpu_barrier,
    .embed_layernorm = cpu_embed_layernorm,
    .linear = cpu_linear,
    .layernorm = cpu_layernorm,
    .attention = cpu_attention,
    .layer_rest = cpu_layer_rest,
    .pool = cpu_pool,
    .head = cpu_head,
    .fetch = cpu_fetch,
};

static void make_lanes(struct cpu_backend *cpu, int n_lanes) {
    const size_t bytes = (size_t)n_lanes * sizeof(*cpu->lane);
    cpu->lane = aligned_alloc(_Alignof(struct cpu_lane), bytes);
    if (cpu->lane) {
        memset(cpu->lane, 0, bytes);
        for (int i = 0; i < n_lanes; i++) {
            cpu->lane[i].base = (struct lane){.be = &cpu->base, .index = i};
            cpu->lane[i].cpu = cpu;
        }
    }
    for (int slot = 0; slot < CPU_SLOTS; slot++) {
        for (int axis = 0; axis < 2; axis++) {
            cpu->pass[slot].plan.cut[axis] = xcalloc((size_t)n_lanes + 1, sizeof(int));
        }
    }
}

/* int8 is there on every level; bf16 needs instructions of its own. With AUTO it takes tiles: on
 * vectors it is no faster than fp32 by much. */
static void choose_kernels(struct cpu_backend *cpu, const struct cpu_level *level,
                           enum precision precision) {
    const bool bfloat =
        precision == PRECISION_BFLOAT16 || (precision == PRECISION_AUTO && level->has_tiles);
    cpu->isa = level->isa;
    cpu->gemm = level->isa->gemm, cpu->attention = level->isa->attention;
    if (precision == PRECISION_INT8) {
        cpu->gemm = level->int8;
    } else if (bfloat && level->bfloat16) {
        cpu->gemm = level->bfloat16;
    }
    if (cpu->gemm != level->isa->gemm && level->bfloat16_attention) {
        cpu->attention = level->bfloat16_attention;
    }
    cpu->base.dtype = cpu->gemm->dtype;
}

enum status cpu_backend_create(struct backend **out, const struct cpu_options *opt,
                               struct error *err) {
    if (opt->n_lanes < 1) {
        return error_set(err, STATUS_INVALID, "%d lanes: at least 1 is needed", opt->n_lanes);
    }
    struct cpu_backend *cpu = xcalloc(1, sizeof(*cpu));
    cpu->fn = functions;
    cpu->is_separate = opt->fusion == FUSION_OFF;
    if (cpu->is_separate) {
        cpu_separate_entries(&cpu->fn);
    }
    cpu->base = (struct backend){.fn = &cpu->fn,
                                 .name = "cpu",
                                 .detail = cpu->detail,
                                 .dtype = DTYPE_F32,
                                 .n_lanes = opt->n_lanes,
                                 .n_slots = CPU_SLOTS,
                                 .makes_in_parallel = true};
    make_lanes(cpu, opt->n_lanes);
    enum status s = cpu->lane ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for lanes");
    const struct cpu_level *level = NULL;
    s = s ? s : cpu_level_find(&level, opt->isa ? opt->isa : getenv("BERTH_CPU_ISA"), err);
    s = s ? s : lanes_create(&cpu->lanes, opt->n_lanes, opt->first_core, err);
    if (s) {
        destroy(&cpu->base);
        return s;
    }
    choose_kernels(cpu, level, opt->precision);
    cpu->base.isa = cpu->isa->name;
    snprintf(cpu->detail, sizeof(cpu->detail), "%s, %d lane%s%s", level->name, opt->n_lanes,
             opt->n_lanes == 1 ? "" : "s", cpu->is_separate ? ", fusion off" : "");
    *out = &cpu->base;
    return STATUS_OK;
}
