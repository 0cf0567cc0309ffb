/* simt.c - the simulated device: what is right computes right, and what is wrong is found. A fault
 * that ends the process is planted in a child, and its last words are read. */
#include "kernels/simt/cublaslt.h"
#include "kernels/simt/faults.h"
#include "kernels/simt/words.h"
#include "tests/simt/kernels.h"
#include "tests/unit/test.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void ok(cudaError_t e) {
    assert_string_equal(cudaGetErrorName(e), "cudaSuccess");
}
static void *on_device(const void *from, size_t bytes) {
    void *data = NULL;
    ok(cudaMalloc(&data, bytes));
    if (from) {
        ok(cudaMemcpy(data, from, bytes, cudaMemcpyHostToDevice));
    }
    return data;
}
static void fetch(void *to, const void *from, size_t bytes) {
    ok(cudaDeviceSynchronize());
    ok(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}
static int reset(void **state) {
    return !simt_reset("seed=7");
}
static int reset_to_seed(int seed) {
    char text[32];
    snprintf(text, sizeof(text), "seed=%d", seed);
    return simt_reset(text);
}

/* The status that a child ends with, and its words on stderr. */
static int last_words(char out[4096], void (*run)(void)) {
    int ends[2], status = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        run();
        _exit(0);
    }
    (void)close(ends[1]);
    for (ssize_t got = 1; got > 0 && n<4095; n += got> 0 ? (size_t)got : 0) {
        got = read(ends[0], out + n, 4095 - n);
    }
    out[n] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}
/* `plant` ends its process with these words; `right`, the same without the fault, does not. */
static void expect_words(void (*plant)(void), void (*right)(void), const char *words) {
    char said[4096];
    const int status = last_words(said, right);
    if (status || *said) {
        fail_msg("without a fault: status %d: %s", status, said);
    }
    assert_int_not_equal(last_words(said, plant), 0);
    if (!strstr(said, words)) {
        fail_msg("\"%s\" is not in: %s", words, said);
    }
}

static float numbers[N_THREADS];
static void make_numbers(void) {
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = (float)(i * i);
    }
}
static int n_wrong_reversed(int with_barrier) {
    float got[N_THREADS];
    int n = 0;
    make_numbers();
    float *in = on_device(numbers, sizeof(numbers)), *out = on_device(NULL, sizeof(got));
    ok(launch_reverse(NULL, out, in, with_barrier));
    fetch(got, out, sizeof(got));
    for (int i = 0; i < N_THREADS; i++) {
        n += got[i] != numbers[N_THREADS - 1 - i];
    }
    ok(cudaFree(in)), ok(cudaFree(out));
    return n;
}
static void test_barrier(void **state) {
    for (int seed = 1; seed <= 20; seed++) {
        assert_true(reset_to_seed(seed));
        assert_int_equal(n_wrong_reversed(1), 0);
        assert_true(n_wrong_reversed(0) > 0); // no barrier: seen at every seed
    }
}
static void test_shuffle(void **state) {
    float got[32], sum = 0;
    make_numbers();
    float *in = on_device(numbers, sizeof(numbers)), *out = on_device(NULL, sizeof(got));
    ok(launch_warp_sum(NULL, out, in));
    fetch(got, out, sizeof(got));
    for (int i = 0; i < 32; i++) {
        sum += numbers[i];
    }
    for (int i = 0; i < 32; i++) {
        assert_true(got[i] == sum);
    }
    ok(cudaFree(in)), ok(cudaFree(out));
}

static double tile_error(int plant) {
    uint16_t a[16 * 16 + 8], b[8 * 16];
    float got[16 * 8];
    double worst = 0;
    for (int i = 0; i < 16 * 16 + 8; i++) {
        a[i] = simt_to_bf16((float)(i % 37) / 16 - 1);
    }
    for (int i = 0; i < 8 * 16; i++) {
        b[i] = simt_to_bf16((float)(i % 29) / 8 - 2);
    }
    uint16_t *da = on_device(a, sizeof(a)), *db = on_device(b, sizeof(b));
    float *d = on_device(NULL, sizeof(got));
    ok(launch_tile(NULL, d, da, db, plant));
    fetch(got, d, sizeof(got));
    for (int i = 0; i < 16 * 8; i++) {
        double want = 0;
        for (int k = 0; k < 16; k++) {
            want += (double)simt_from_bf16(a[i / 8 * 16 + k]) * simt_from_bf16(b[i % 8 * 16 + k]);
        }
        const double off = fabs(got[i] - want);
        worst = off <= worst ? worst : off; // NaN counts
    }
    ok(cudaFree(da)), ok(cudaFree(db)), ok(cudaFree(d));
    return worst;
}
static void test_tile(void **state) {
    assert_true(tile_error(PLANT_NOTHING) < 1e-5);
    assert_false(tile_error(PLANT_NO_WAIT) < 1);
}
static void test_transposed(void **state) {
    uint16_t in[4 * 64];
    uint32_t got[4 * 32];
    for (int i = 0; i < 4 * 64; i++) {
        in[i] = (uint16_t)(i * 3);
    }
    uint16_t *from = on_device(in, sizeof(in));
    uint32_t *out = on_device(NULL, sizeof(got));
    ok(launch_transposed(NULL, out, from));
    fetch(got, out, sizeof(got));
    for (int i = 0; i < 4 * 32; i++) {
        const uint16_t *m = in + i / 32 * 64;
        const int column = i % 32 / 4, row = i % 4 * 2;
        assert_int_equal(got[i], m[row * 8 + column] | (uint32_t)m[(row + 1) * 8 + column] << 16);
    }
    ok(cudaFree(from)), ok(cudaFree(out));
}

static void plant_tile(int plant) {
    (void)tile_error(plant);
}
static void right_tile(void) {
    plant_tile(PLANT_NOTHING);
}
static void misaligned_ldmatrix(void) {
    plant_tile(PLANT_LDMATRIX);
}
static void misaligned_copy(void) {
    plant_tile(PLANT_COPY);
}
static void beyond_shared(void) {
    plant_tile(PLANT_SHARED);
}
static void left_copies(void) {
    plant_tile(PLANT_LEFT);
}
static void run_add(int n, int bytes) {
    float *in = on_device(numbers, sizeof(numbers)), *out = on_device(NULL, (size_t)bytes);
    (void)launch_add_one(NULL, out, in, n, 1);
    (void)cudaDeviceSynchronize();
}
static void right_add(void) {
    run_add(0, 40);
}
static void one_beyond(void) { // within what alignment leaves
    run_add(10, 40);
}
static void far_beyond(void) {
    run_add(64, 256);
}
static void right_warp(void) {
    float *out = on_device(numbers, sizeof(numbers));
    ok(launch_warp_sum(NULL, out, out));
    ok(cudaDeviceSynchronize());
}
static void ragged(void) {
    float *out = on_device(numbers, sizeof(numbers));
    (void)launch_ragged_shuffle(NULL, out, out);
    (void)cudaDeviceSynchronize();
}
static void lost_lane(void) {
    (void)launch_lost_lane(NULL, on_device(NULL, sizeof(numbers)));
    (void)cudaDeviceSynchronize();
}
static void host_fetches(void) {
    float got = 0;
    float *data = on_device(numbers, sizeof(numbers));
    fetch(&got, data, sizeof(got));
    fprintf(stderr, "got %g\n", (double)got);
}
static void host_reads(void) {
    volatile float *data = on_device(numbers, sizeof(numbers));
    fprintf(stderr, "before the read\n");
    fprintf(stderr, "got %g\n", (double)data[0]);
}
#if defined(__SANITIZE_ADDRESS__) // it speaks first, and leaves a bad access to the signal
static const char past_end[] = "AddressSanitizer: use-after-poison", not_there[] = "";
#else
static const char past_end[] = "past the end", not_there[] = "memory that is not there";
#endif
static void test_planted(void **state) {
    expect_words(misaligned_ldmatrix, right_tile, "no multiple of 16");
    expect_words(misaligned_copy, right_tile, "not aligned");
    expect_words(beyond_shared, right_tile, "outside shared memory");
    expect_words(left_copies, right_tile, "copies under way");
    expect_words(one_beyond, right_add, past_end);
    expect_words(far_beyond, right_add, not_there);
    expect_words(ragged, right_warp, "nobody can go on");
    expect_words(lost_lane, right_warp, "nobody can go on");
}
static void test_host_access(void **state) {
    char said[4096];
    assert_int_equal(last_words(said, host_fetches), 0);
    assert_non_null(strstr(said, "got 0"));
    const int status = last_words(said, host_reads);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_string_equal(said, "before the read\n");
}

/* b = a + 1 in one stream, c = b + 1 in another. */
static bool two_streams(bool with_event) {
    float *a = on_device(numbers, sizeof(numbers)), *b = on_device(numbers, sizeof(numbers));
    float *c = on_device(numbers, sizeof(numbers)), got[2];
    cudaStream_t s, t;
    cudaEvent_t event;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    ok(cudaEventCreate(&event));
    ok(launch_add_one(s, b, a, 0, 2));
    ok(cudaEventRecord(event, s));
    if (with_event) {
        ok(cudaStreamWaitEvent(t, event, 0));
    }
    ok(launch_add_one(t, c, b, 0, 2));
    fetch(got, c, sizeof(got));
    ok(cudaEventDestroy(event)), ok(cudaStreamDestroy(s)), ok(cudaStreamDestroy(t));
    ok(cudaFree(a)), ok(cudaFree(b)), ok(cudaFree(c));
    return got[1] == numbers[1] + 2;
}
static void test_streams(void **state) {
    int n_right = 0;
    make_numbers();
    for (int seed = 1; seed <= 20; seed++) {
        assert_true(reset_to_seed(seed));
        assert_true(two_streams(true));
        n_right += two_streams(false);
    }
    assert_in_range(n_right, 1, 19); // without an event it is luck
}
static void test_copies_are_late(void **state) {
    float *device = on_device(NULL, 4), got = 0;
    void *pinned = NULL;
    cudaStream_t s;
    ok(cudaMallocHost(&pinned, 4));
    ok(cudaStreamCreate(&s));
    *(float *)pinned = 1;
    ok(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, s));
    *(float *)pinned = 2; // too early
    fetch(&got, device, 4);
    assert_true(got == 2);
    assert_int_equal(cudaMemcpyAsync(device, &got, 4, cudaMemcpyHostToDevice, s),
                     cudaErrorInvalidValue); // not pinned
    assert_int_equal(cudaMemcpyAsync(device, pinned, 8, cudaMemcpyHostToDevice, s),
                     cudaErrorInvalidValue); // too long
    ok(cudaStreamDestroy(s)), ok(cudaFreeHost(pinned)), ok(cudaFree(device));
}

static void test_graph(void **state) {
    float *a = on_device(numbers, sizeof(numbers)), got[2];
    cudaStream_t s;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec;
    ok(cudaMemset(a, 0, sizeof(numbers)));
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    ok(launch_add_one(s, a, a, 0, 2));
    ok(launch_add_one(s, a, a, 0, 2));
    ok(cudaStreamEndCapture(s, &graph));
    ok(cudaGraphInstantiate(&exec, graph, 0));
    ok(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        ok(cudaGraphLaunch(exec, s));
    }
    fetch(got, a, sizeof(got));
    assert_true(got[0] == 6 && got[1] == 6); // nothing ran while it was captured
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    void *data = NULL;
    assert_int_equal(cudaMalloc(&data, 16), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    ok(cudaGraphExecDestroy(exec)), ok(cudaStreamDestroy(s)), ok(cudaFree(a));
}
static void test_limits(void **state) {
    assert_int_equal(launch_of_size(NULL, 1, 1025, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_of_size(NULL, 1, 0, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_of_size(NULL, 65536, 32, 0), cudaErrorInvalidConfiguration);
    assert_int_equal(launch_of_size(NULL, 1, 32, 48 * 1024 + 1), cudaErrorInvalidValue);
    ok(launch_of_size(NULL, 2, 1024, 48 * 1024));
    ok(cudaDeviceSynchronize());
}

static void test_faults(void **state) {
    int n = 0;
    void *data = NULL;
    assert_false(simt_reset("seed=1,frogs=2"));
    assert_true(simt_reset("no_driver"));
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
    assert_true(simt_reset("devices=0"));
    assert_int_equal(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    assert_true(simt_reset("memory=1"));
    assert_int_equal(cudaMalloc(&data, (1 << 20) + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    ok(cudaGetLastError()); // said once
    assert_true(simt_reset("launch=2"));
    ok(launch_of_size(NULL, 1, 32, 0));
    assert_int_equal(launch_of_size(NULL, 1, 32, 0), cudaErrorLaunchOutOfResources);
    ok(launch_of_size(NULL, 1, 32, 0));
    ok(cudaDeviceSynchronize());
    assert_true(simt_reset("sticky=1"));
    ok(launch_of_size(NULL, 1, 32, 0)); // the launch itself is right
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc(&data, 16), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress); // for ever
}
static void test_hang(void **state) {
    cudaStream_t s;
    cudaEvent_t event;
    assert_true(simt_reset("hang=1"));
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    ok(cudaEventCreate(&event));
    ok(launch_of_size(s, 1, 32, 0));
    ok(cudaEventRecord(event, s));
    for (int i = 0; i < 50; i++) {
        assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    }
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchTimeout);
    ok(cudaStreamDestroy(s));
    ok(cudaEventDestroy(event));
}

struct product {
    int m, n, k, ld;
    cublasLtEpilogue_t epilogue;
    float beta;
    int c_rows; // of C as it is told
};
/* y = epilogue(w x + bias) + beta y in fp32; y is 1 at first, w and x are small numbers. */
static cublasStatus_t multiply(float *y, const struct product *p, const float *w, const float *x,
                               const float *bias, int algorithm) {
    const float one = 1;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    const size_t workspace_bytes = 1 << 16;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t lw, lx, ly, lc;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found[8];
    int n_found = 0;
    void *workspace = on_device(NULL, workspace_bytes);
    assert_int_equal(cublasLtCreate(&handle), 0);
    assert_int_equal(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4), 0);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, 4), 0);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, 8), 0);
    assert_int_equal(
        cublasLtMatrixLayoutCreate(&lw, CUDA_R_32F, (uint64_t)p->k, (uint64_t)p->m, p->k), 0);
    assert_int_equal(
        cublasLtMatrixLayoutCreate(&lx, CUDA_R_32F, (uint64_t)p->k, (uint64_t)p->n, p->k), 0);
    assert_int_equal(
        cublasLtMatrixLayoutCreate(&ly, CUDA_R_32F, (uint64_t)p->m, (uint64_t)p->n, p->ld), 0);
    assert_int_equal(
        cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, (uint64_t)p->c_rows, (uint64_t)p->n, p->ld), 0);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&preference), 0);
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(
                         preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, 8),
                     0);
    cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(handle, desc, lw, lx, lc, ly, preference, 8,
                                                      found, &n_found);
    assert_true(s || n_found == 3);
    s = s ? s
          : cublasLtMatmul(handle, desc, &one, w, lw, x, lx, &p->beta, y, lc, y, ly,
                           &found[algorithm].algo, workspace, workspace_bytes, NULL);
    ok(cudaFree(workspace)); // waits
    (void)cublasLtMatmulPreferenceDestroy(preference), (void)cublasLtMatmulDescDestroy(desc);
    (void)cublasLtMatrixLayoutDestroy(lw), (void)cublasLtMatrixLayoutDestroy(lx);
    (void)cublasLtMatrixLayoutDestroy(ly), (void)cublasLtMatrixLayoutDestroy(lc);
    (void)cublasLtDestroy(handle);
    return s;
}
static void test_products(void **state) {
    float w[8 * 12], x[4 * 12], ones[64], bias[8], got[4 * 8];
    for (int i = 0; i < 8 * 12; i++) {
        w[i] = (float)(i % 7) / 4 - 1;
    }
    for (int i = 0; i < 4 * 12; i++) {
        x[i] = (float)(i % 5) / 4 - 0.25f;
    }
    for (int i = 0; i < 64; i++) {
        ones[i] = 1;
        bias[i % 8] = (float)(i % 8) - 3;
    }
    const struct product cases[] = {{8, 4, 12, 8, CUBLASLT_EPILOGUE_BIAS, 1, 8},
                                    {8, 4, 12, 8, CUBLASLT_EPILOGUE_BIAS, 0, 8},
                                    {8, 4, 12, 8, CUBLASLT_EPILOGUE_GELU_BIAS, 0, 8},
                                    {8, 4, 12, 8, CUBLASLT_EPILOGUE_DEFAULT, 2, 8}};
    float *dw = on_device(w, sizeof(w)), *dx = on_device(x, sizeof(x));
    float *db = on_device(bias, sizeof(bias)), *dy = on_device(NULL, sizeof(ones));
    for (size_t i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
        const struct product *p = &cases[i / 3];
        ok(cudaMemcpy(dy, ones, sizeof(ones), cudaMemcpyHostToDevice));
        assert_int_equal(multiply(dy, p, dw, dx, db, (int)(i % 3)), CUBLAS_STATUS_SUCCESS);
        fetch(got, dy, sizeof(got));
        for (int at = 0; at < 4 * 8; at++) {
            double want = p->beta + (p->epilogue & CUBLASLT_EPILOGUE_BIAS ? bias[at % 8] : 0);
            for (int k = 0; k < 12; k++) {
                want += (double)w[at % 8 * 12 + k] * x[at / 8 * 12 + k];
            }
            if (p->epilogue & CUBLASLT_EPILOGUE_GELU) {
                want *= 0.5 * (1 + tanh(0.7978845608 * (want + 0.044715 * want * want * want)));
            }
            assert_float_equal(got[at], want, 1e-4);
        }
    }
    const struct product wrong[] = {{8, 4, 12, 8, CUBLASLT_EPILOGUE_BIAS, 1, 4},  // C's shape
                                    {8, 4, 12, 9, CUBLASLT_EPILOGUE_BIAS, 1, 8},  // not aligned
                                    {8, 4, 12, 4, CUBLASLT_EPILOGUE_BIAS, 1, 8},  // overlapping
                                    {8, 8, 12, 8, CUBLASLT_EPILOGUE_BIAS, 1, 8}}; // x is shorter
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(multiply(dy, &wrong[i], dw, dx, db, 0), CUBLAS_STATUS_INVALID_VALUE);
    }
    assert_int_equal(multiply(dy, &cases[0], dw, dx, bias, 0),
                     CUBLAS_STATUS_INVALID_VALUE); // the host's bias
    assert_int_equal(multiply(dy + 1, &cases[0], dw, dx, db, 0), CUBLAS_STATUS_INVALID_VALUE);
    ok(cudaFree(dw)), ok(cudaFree(dx)), ok(cudaFree(db)), ok(cudaFree(dy));
}

static void test_words(void **state) {
    assert_int_equal(simt_to_f16(65519.0f), 0x7bff);
    assert_int_equal(simt_to_f16(65520.0f), 0x7c00);
    assert_int_equal(simt_to_f16(0x1p-24f), 1);
    assert_int_equal(simt_to_f16(0x1p-25f), 0);          // a tie, to even
    assert_int_equal(simt_to_f16(1 + 0x1p-11f), 0x3c00); // a tie, to even
    assert_int_equal(simt_to_f16(1 + 3 * 0x1p-11f), 0x3c02);
    assert_int_equal(simt_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(simt_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
    for (unsigned w = 0; w < 0x7c00; w++) {
        assert_int_equal(simt_to_f16(simt_from_f16((uint16_t)w)), w);
        assert_int_equal(simt_to_f16(-simt_from_f16((uint16_t)w)), w | 0x8000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_words, reset),
        cmocka_unit_test_setup(test_barrier, reset),
        cmocka_unit_test_setup(test_shuffle, reset),
        cmocka_unit_test_setup(test_tile, reset),
        cmocka_unit_test_setup(test_transposed, reset),
        cmocka_unit_test_setup(test_planted, reset),
        cmocka_unit_test_setup(test_host_access, reset),
        cmocka_unit_test_setup(test_streams, reset),
        cmocka_unit_test_setup(test_copies_are_late, reset),
        cmocka_unit_test_setup(test_graph, reset),
        cmocka_unit_test_setup(test_products, reset),
        cmocka_unit_test_setup(test_limits, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_hang, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
