/* main.c - kernel tests; with --accelerator, those of a plugin's backend, and with
 * --bench, their speed instead. */
#include "tests/kernels/accelerator.h"
#include <string.h>

enum { SKIPPED = 77 }; // as meson has it

int main(int argc, char **argv) {
    check_seed_init();
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        return bench();
    }
    if (argc > 1 && !strcmp(argv[1], "--accelerator")) {
        return accelerator_find() ? test_accelerator_ops() + test_accelerator_passes() +
                                        test_accelerator_graphs() + test_accelerator_notes()
                                  : SKIPPED;
    }
    if (argc > 1 && !strcmp(argv[1], "--accelerator-ranges")) {
        return accelerator_find() ? test_accelerator_ranges() : SKIPPED;
    }
    if (argc > 2 && !strcmp(argv[1], "--accelerator-fault")) {
        return test_accelerator_fault(argv[2]);
    }
    return test_ops() + test_packing() + test_precisions() + test_layers() + test_edges() +
           test_lanes();
}
