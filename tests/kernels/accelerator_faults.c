/* accelerator_faults.c - the CUDA table on a simulated device with a fault, which the environment
 * plants when the plugin is loaded (kernels/simt/faults.h): so a process has one, and its name is
 * this program's argument. Faults of launches come after some passes; the
 * first has more launches than others, for it chooses algorithms. */
#include "tests/kernels/accelerator.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PASSES = 12 };

/* Passes one after the other: how each ended. */
static void run_passes(enum status ends[N_PASSES], struct error errors[N_PASSES], bool *is_lost) {
    const struct accelerator_options opt = {.pass_timeout_ns = 200000000};
    struct small_net s;
    struct batch b = check_batch(3, 9, 0);
    float logits[SMALL_SEQS * SMALL_LABELS];
    small_net_init(&s, PRECISION_FLOAT32, &opt);
    struct backend *dev = s.pair.dev;
    const struct net_pass pass = {.net = &s.net, .logits = logits};
    for (int i = 0; i < N_PASSES; i++) {
        errors[i].text[0] = '\0';
        dev->fn->batch_begin(dev, 0, &b.b);
        dev->fn->batch_submit(dev, 0, net_program, &pass);
        assert_true(dev->fn->batch_end(dev, 0, true, &ends[i], NULL, &errors[i]));
    }
    *is_lost = dev->is_lost;
    check_batch_free(&b);
    small_net_finish(&s);
}
static int first_failure(const enum status ends[N_PASSES]) {
    int i = 0;
    while (i < N_PASSES && !ends[i]) {
        i++;
    }
    if (i == 0 || i >= N_PASSES - 1) { // some before it, some after
        fail_msg("the first pass to fail is %d", i);
        return 0;
    }
    return i;
}

/* A launch that is refused costs its pass alone. */
static void test_launch(void **unused) {
    enum status ends[N_PASSES];
    struct error errors[N_PASSES];
    bool is_lost = true;
    run_passes(ends, errors, &is_lost);
    const int bad = first_failure(ends);
    assert_int_equal(ends[bad], STATUS_BACKEND);
    assert_non_null(strstr(errors[bad].text, "cudaErrorLaunchOutOfResources"));
    for (int i = bad + 1; i < N_PASSES; i++) {
        assert_int_equal(ends[i], STATUS_OK);
    }
    assert_false(is_lost);
}
/* An error of a kernel, or one that never ends, and the device is lost: every pass says why. */
static void check_loss(const char *reason) {
    enum status ends[N_PASSES];
    struct error errors[N_PASSES];
    bool is_lost = false;
    run_passes(ends, errors, &is_lost);
    for (int i = first_failure(ends); i < N_PASSES; i++) {
        assert_int_equal(ends[i], STATUS_BACKEND);
        assert_non_null(strstr(errors[i].text, reason));
    }
    assert_true(is_lost);
}
static void test_sticky(void **unused) {
    check_loss("cudaErrorIllegalAddress");
}
static void test_hang(void **unused) {
    check_loss("did not end within 200 ms");
}

static void test_no_driver(void **unused) {
    const struct accelerator *a = NULL;
    struct error err = {.text = ""};
    int n = 0;
    assert_int_equal(plugin_open(&a, "simt", &err), STATUS_OK);
    assert_int_equal(a->count(&n, &err), STATUS_UNAVAILABLE);
    assert_true(err.text[0] != '\0');
    struct backend *be = NULL;
    const struct accelerator_options opt = {.device = 0};
    assert_int_equal(a->create(&be, &opt, &err), STATUS_UNAVAILABLE);
    assert_null(be);
}
static void test_memory(void **unused) {
    const struct accelerator_options opt = {.device = 0, .pass_timeout_ns = 1};
    const struct pass_limits much = {1 << 16, 64, 512, 1024, 4096, 16, 2};
    struct backend *be = NULL;
    struct error err = {.text = ""};
    assert_int_equal(accelerator_find()->create(&be, &opt, &err), STATUS_OK);
    struct tensor t = {.data = NULL};
    assert_int_equal(be->fn->tensor_create(be, &t, AXIS_TOKENS, much.max_rows, 4096, false, &err),
                     STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "MiB"));
    assert_int_equal(be->fn->tensor_create(be, &t, AXIS_TOKENS, 16, 64, false, &err), STATUS_OK);
    be->fn->tensor_destroy(be, &t);
    backend_destroy(be);
}

int test_accelerator_fault(const char *name) {
    const struct CMUnitTest tests[] = {
        {"launch", test_launch, NULL, NULL, NULL}, {"sticky", test_sticky, NULL, NULL, NULL},
        {"hang", test_hang, NULL, NULL, NULL},     {"no_driver", test_no_driver, NULL, NULL, NULL},
        {"memory", test_memory, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < N_ITEMS(tests); i++) {
        const struct CMUnitTest one[] = {tests[i]};
        if (!strcmp(name, tests[i].name)) {
            return cmocka_run_group_tests_name("accelerator faults", one, NULL, NULL);
        }
    }
    fprintf(stderr, "%s is no fault\n", name);
    return 1;
}
