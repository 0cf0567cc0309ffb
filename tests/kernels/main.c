/* main.c - kernel tests; with --bench, their speed instead. */
#include "tests/kernels/check.h"
#include <string.h>

int main(int argc, char **argv) {
    check_seed_init();
    if (argc > 1 && !strcmp(argv[1], "--bench")) {
        return bench();
    }
    return test_ops() + test_precisions() + test_layers() + test_lanes();
}
