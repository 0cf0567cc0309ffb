/* golden.h - golden cases, run through a backend alone, packed and padded, and compared. */
#ifndef BERTH_TESTS_GOLDEN_H
#define BERTH_TESTS_GOLDEN_H
#include <stdbool.h>
#include <stdint.h>

struct golden_case {
    int32_t *token_ids, *token_type_ids; // [n_tokens]
    float *logits;                       // [n_labels], what is expected
    int n_tokens;
};
struct golden {
    struct golden_case *cases;
    int n_cases, n_labels;
};
/* Every file of the tests must be there and well-formed: these end the process when it is not. */
void golden_read(struct golden *g, const char *path);
void golden_finish(struct golden *g);
/* Keeps the cases of at most max_tokens tokens, every `step`-th of them. */
void golden_keep(struct golden *g, int max_tokens, int step);
/* backend: "reference", or "cpu-LEVEL-LANES", such as "cpu-baseline-2", or "cpu-best-1-int8";
 * `best` is this machine's best level (kernels/cpu/isa.c); or "cuda-PRECISION" or "simt-PRECISION".
 * False, with a line, when the level, the plugin or its device is not there. */
bool golden_can_run(const char *backend);
/* Prints a line; false when a logit is off by more than 1e-4 (in fp32), or alone, packed and padded
 * differ by more than 1e-5 (other precisions: at all). On accelerators in 16 bits: when the cosine
 * of all logits with the golden ones, or with those alone, is below 0.9999; in bf16, whose rounding
 * shows in models this narrow, 0.9998. */
bool golden_check(const struct golden *g, const char *backend, const char *model_dir);
#endif
