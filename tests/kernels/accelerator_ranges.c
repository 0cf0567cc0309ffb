/* accelerator_ranges.c - what a profiler is told of passes: three of one small batch, the first
 * launched, the second captured and replayed, the third replayed. */
#include "tests/kernels/accelerator.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { N_PASSES = 3, GRAPH_ROWS = 16 };

#define BEGIN "{ batch of 5 rows, 1 sequences\n( copy in\n)\n"
#define LAYERS "( no layer\n)\n( layer 0\n)\n( layer 1\n)\n( no layer\n( copy out\n)\n)\n"
#define GRAPH "( graph\n)\n"
#define END "}\n"

static void test_ranges(void **unused) {
    const struct accelerator_options opt = {.graph_max_rows = GRAPH_ROWS};
    const int32_t ids[5] = {1, 2, 3, 4, 5}, types[5] = {0}, first[2] = {0, 5}, lens[1] = {5};
    const struct token_batch batch = {.token_ids = ids,
                                      .token_type_ids = types,
                                      .cu_seqlens = first,
                                      .seq_lens = lens,
                                      .n_seqs = 1,
                                      .n_rows = 5,
                                      .max_seq_len = 5};
    struct small_net s;
    float logits[SMALL_LABELS];
    small_net_init(&s, PRECISION_BFLOAT16, &opt);
    const struct net_pass pass = {.net = &s.net, .logits = logits};
    for (int i = 0; i < N_PASSES; i++) {
        check_run(s.pair.dev, &batch, net_program, &pass);
    }
    small_net_finish(&s);
}
static void test_profiler_was_told(void **unused) {
    void *profiler = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
    const char *(*text)(void) = NULL;
    assert_non_null(profiler); // else no range was ever begun
    *(void **)&text = dlsym(profiler, "nvtx_log_text");
    assert_non_null(text);
    assert_string_equal(text(), BEGIN LAYERS END BEGIN LAYERS GRAPH END BEGIN GRAPH END);
}

int test_accelerator_ranges(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_profiler_was_told),
    };
    return cmocka_run_group_tests_name("accelerator ranges", tests, NULL, NULL);
}
