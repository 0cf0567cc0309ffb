/* isa.h - the seam between instruction sets. The fp32 kernels (gemm.c, attention.c, rowwise.c) are
 * compiled once for each vector width, the products of other precisions (gemm.c, gemm_amx.c) once
 * for each instruction that makes them fast, all with CPU_ISA as their suffix. A level joins what
 * goes together on one CPU; a new one is a row in meson.build and in isa.c. */
#ifndef BERTH_KERNELS_CPU_ISA_H
#define BERTH_KERNELS_CPU_ISA_H
#include "base/status.h"
#include "kernels/cpu/gemm.h"

struct norm_weight {
    float *gamma; // owns gamma and, behind it, beta: [n] each
    const float *beta;
    int n;
    float eps;
};
struct table_weight {
    const float *data; // [rows, cols]
    float *owned;      // data, when it had to be converted; NULL: borrowed
    int rows, cols;
};

/* One head of one sequence, queries [q0, q1) of it. The pointers are the head's first column in the
 * sequence's first row; `ctx` that of query q0's result. */
struct attend {
    const float *q, *k, *v;
    float *ctx;
    int64_t ld, ld_ctx;
    int len, q0, q1, head_dim;
    int v_room;  // floats that may be read from `v` on in each row; at least head_dim
    float *work; // cpu_attention.floats() of them, 64-byte aligned
};

/* Rows of token embeddings: y[r] = LayerNorm(word + position + type). */
struct embed {
    float *y;
    int64_t ldy;
    const int32_t *token_ids, *token_type_ids; // of these rows
    int position;                              // of the first row; the others follow
    int rows;
    const struct table_weight *words, *positions, *types;
    const struct norm_weight *norm;
};

struct cpu_passes { // over whole rows in memory, for separate.c
    void (*scale)(float *x, size_t n, float by);
    void (*add)(float *y, const float *x, size_t n); // y += x
    void (*activate)(float *x, size_t n, enum activation activation);
    void (*softmax)(float *x, int rows, int cols); // dense rows
};
struct cpu_attention { // one precision's
    size_t (*floats)(int len, int head_dim);
    void (*attend)(const struct attend *a);
};
struct cpu_isa {      // what is computed in fp32, whatever the precision of products
    const char *name; // of the vectors: "avx2"
    const struct gemm_kernel *gemm;
    const struct cpu_attention *attention;
    void (*embed)(const struct embed *e);
    /* y may be x. */
    void (*layernorm)(float *y, int64_t ldy, const float *x, int64_t ldx,
                      const struct norm_weight *w, int rows);
    void (*mean)(float *out, const float *x, int64_t ldx, int rows, int cols);
    const struct cpu_passes *passes;
};
struct cpu_level {
    const char *name;
    bool has_tiles;    // AMX: bf16 is much faster than fp32
    bool by_name_only; // emulated, for tests: never chosen, and not told
    bool (*is_supported)(void);
    const struct cpu_isa *isa;
    const struct gemm_kernel *int8, *bfloat16;      // bfloat16 NULL: not here
    const struct cpu_attention *bfloat16_attention; // likewise; int8 takes it too
};

/* `name`, or the best that this CPU has when it is NULL. Errors: STATUS_INVALID, naming what there
 * is. */
MUST_CHECK enum status cpu_level_find(const struct cpu_level **out, const char *name,
                                      struct error *err);

/* Inside the per-ISA sources: ISA(gemm) is gemm_avx2 and so on. */
#ifdef CPU_ISA
#define ISA_JOIN_(name, suffix) name##_##suffix
#define ISA_JOIN(name, suffix) ISA_JOIN_(name, suffix)
#define ISA(name) ISA_JOIN(name, CPU_ISA)
void ISA(pack_panel_float32)(struct linear_weight *w, const float *rows, int n);
void ISA(pack_panel_bfloat16)(struct linear_weight *w, const float *rows, int n);
void ISA(pack_panel_int8)(struct linear_weight *w, const float *rows, int n);
/* gemm.c for attention.c, of either precision: keys packed like any x, and the bare tile: y
 * [rows][NR] = x [words][rows] times w [words][NR]. */
void ISA(pack_rows_float32)(void *out, const float *x, int64_t ldx, int m, int k);
void ISA(pack_rows_bfloat16)(void *out, const float *x, int64_t ldx, int m, int k);
void ISA(gemm_tile_float32)(float *y, const float *x, const float *w, int rows, int words);
void ISA(gemm_tile_bfloat16)(float *y, const float *x, const float *w, int rows, int words);
void ISA(embed)(const struct embed *e);
void ISA(layernorm)(float *y, int64_t ldy, const float *x, int64_t ldx, const struct norm_weight *w,
                    int rows);
void ISA(mean)(float *out, const float *x, int64_t ldx, int rows, int cols);
#endif
#endif
