/* logits.c - every golden model on one backend. usage: golden_logits BACKEND GOLDEN_DIR NAME...
 * Exits with 77 (skipped) where the machine lacks the backend's level. */
#include "tests/golden/logits/golden.h"

#include <limits.h>
#include <stdio.h>

enum { SKIPPED = 77 }; // as meson has it

int main(int argc, char **argv) {
    int failed = argc < 4;
    if (!failed && !golden_can_run(argv[1])) {
        return SKIPPED;
    }
    for (int i = 3; i < argc; i++) {
        char model[PATH_MAX], logits[PATH_MAX];
        snprintf(model, sizeof(model), "%s/models/%s", argv[2], argv[i]);
        snprintf(logits, sizeof(logits), "%s/logits/%s.json", argv[2], argv[i]);
        struct golden g;
        golden_read(&g, logits);
        failed += !golden_check(&g, argv[1], model);
        golden_finish(&g);
    }
    return failed ? 1 : 0;
}
