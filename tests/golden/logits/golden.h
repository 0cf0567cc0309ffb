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
/* backend: "reference", or "cpu-ISA-LANES", such as "cpu-baseline-2"; `best` for an ISA is this
 * machine's best; or "cuda-PRECISION" or "simt-PRECISION". Prints a line; false when a logit is off
 * by more than 1e-4, or alone, packed and padded differ by more than 1e-5; in 16 bits, when the
 * cosine of all logits with the golden ones, or with those alone, is below 0.9999; in bf16, whose
 * rounding shows in models this narrow, 0.9998. */
/* False, and said, when there is no plugin or no device for it. */
bool golden_backend_is_there(const char *backend);
bool golden_check(const struct golden *g, const char *backend, const char *model_dir);
#endif
