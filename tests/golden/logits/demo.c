/* demo.c - 200 sentences on the demo model. usage: golden_demo BACKEND DEMO_LOGITS MODEL_DIR
 * Exits with 77 (skipped) where the model is not there, or the machine lacks the backend's level;
 * BERTH_DEMO_MODEL names another place. */
#include "tests/golden/logits/golden.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: golden_demo BACKEND DEMO_LOGITS MODEL_DIR\n");
        return 2;
    }
    const char *env = getenv("BERTH_DEMO_MODEL");
    const char *dir = env && *env ? env : argv[3];
    char file[PATH_MAX];
    snprintf(file, sizeof(file), "%s/model.safetensors", dir);
    if (access(file, R_OK)) {
        printf("skipped: no demo model in %s\n", dir);
        return 77;
    }
    if (!golden_can_run(argv[1])) {
        return 77;
    }
    struct golden g;
    golden_read(&g, argv[2]);
    if (!strcmp(argv[1], "reference")) {
        golden_keep(&g, 24, 10); // a token takes it some 20 ms
    }
    const int ok = golden_check(&g, argv[1], dir);
    golden_finish(&g);
    return ok ? 0 : 1;
}
