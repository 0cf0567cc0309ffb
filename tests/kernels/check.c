/* check.c - random inputs, guarded buffers, comparison. Numbers come from one xorshift generator,
 * so a seed names a whole run. Canaries and the gaps between rows hold a NaN of their own bits,
 * which no kernel makes. */
#include "tests/kernels/check.h"
#include "base/timing.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 }; // floats at both ends
static const uint32_t canary_bits = 0x7fc0beef;

static uint64_t seed, state;
static char case_name[256];

void check_seed_init(void) {
    const char *s = getenv("BERTH_TEST_SEED");
    seed = s ? strtoull(s, NULL, 10) : (uint64_t)time_now_ns();
    state = seed * 2654435769u + 88172645463325252u;
    fprintf(stderr, "BERTH_TEST_SEED=%llu\n", (unsigned long long)seed);
}
static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
int check_rand(int low, int high) {
    return low + (int)((next_random() >> 16) % (uint64_t)(high - low + 1));
}
float check_normal(void) { // the sum of 4 uniform numbers, scaled
    double s = 0;
    for (int i = 0; i < 4; i++) {
        s += (double)(next_random() >> 11) * 0x1p-53 - 0.5;
    }
    return (float)(s * sqrt(3.0));
}

struct pair check_pair(const char *isa, int n_lanes) {
    return check_pair_in(isa, n_lanes, PRECISION_FLOAT32);
}
struct pair check_pair_in(const char *isa, int n_lanes, enum precision precision) {
    struct pair p = {0};
    struct error err;
    const char *fusion = getenv("BERTH_TEST_FUSION");
    const bool is_separate = fusion && !strcmp(fusion, "off");
    const struct cpu_options opt = {.n_lanes = n_lanes,
                                    .first_core = -1,
                                    .isa = isa,
                                    .precision = precision,
                                    .fusion = is_separate ? FUSION_OFF : FUSION_ON};
    if (reference_backend_create(&p.ref, &err) || cpu_backend_create(&p.dev, &opt, &err)) {
        fail_msg("%s", err.text);
    }
    return p;
}
void check_pair_finish(struct pair *p) {
    backend_destroy(p->ref);
    backend_destroy(p->dev);
}

const char *const *check_isas(void) {
    static const char *const names[] = {"baseline", "avx2", "avx512", "wide"};
    static const char *found[N_ITEMS(names) + 1];
    for (size_t i = 0, n = 0; i < N_ITEMS(names) && !found[n]; i++) {
        struct backend *be = NULL;
        struct error err;
        const struct cpu_options opt = {.n_lanes = 1, .first_core = -1, .isa = names[i]};
        if (cpu_backend_create(&be, &opt, &err)) {
            fprintf(stderr, "skipped: %s\n", err.text);
        } else {
            found[n++] = names[i];
        }
        backend_destroy(be);
    }
    return found;
}

const struct kind *check_kinds(void) {
    static const char *const names[] = {"baseline",   "avx2", "avxvnni", "avx512", "avx512vnni",
                                        "avx512bf16", "amx",  "wide",    "tiles"};
    static struct kind found[2 * N_ITEMS(names) + 1];
    for (size_t i = 0, n = 0; i < N_ITEMS(names) && !found[n].isa; i++) {
        for (enum precision p = PRECISION_BFLOAT16; p <= PRECISION_INT8; p++) {
            struct backend *be = NULL;
            struct error err;
            const struct cpu_options opt = {
                .n_lanes = 1, .first_core = -1, .isa = names[i], .precision = p};
            if (!cpu_backend_create(&be, &opt, &err) && be->dtype != DTYPE_F32) {
                found[n++] = (struct kind){names[i], p};
            } else {
                fprintf(stderr, "skipped: %s on %s\n", precision_names[p], names[i]);
            }
            backend_destroy(be);
        }
    }
    return found;
}

void check_case(const struct pair *p, const char *fmt, ...) {
    const int n = snprintf(case_name, sizeof(case_name), "%s, %s: ", p->dev->detail,
                           dtype_name(p->dev->dtype));
    va_list args;
    va_start(args, fmt);
    vsnprintf(case_name + n, sizeof(case_name) - (size_t)n, fmt, args);
    va_end(args);
}

void check_fail(const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fail_msg("%s: %s (seed %llu)", case_name, text, (unsigned long long)seed);
}

static struct buf make_buf(enum row_axis axis, int rows, int cols) {
    const int stride = cols + (check_rand(0, 1) ? 3 : 0);
    struct buf b = {.floats = (size_t)rows * (size_t)stride + 2 * GUARD};
    for (int m = 0; m < 2; m++) {
        b.memory[m] = xcalloc(b.floats, sizeof(float));
        for (size_t i = 0; i < b.floats; i++) {
            memcpy(&b.memory[m][i], &canary_bits, sizeof(float));
        }
    }
    b.ref = (struct tensor){b.memory[0] + GUARD, DTYPE_F32, LAYOUT_ROWS, axis, rows, cols, stride};
    b.dev = b.ref;
    b.dev.data = b.memory[1] + GUARD;
    return b;
}
struct buf check_input(enum row_axis axis, int rows, int cols) {
    struct buf b = make_buf(axis, rows, cols);
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < cols; i++) {
            b.memory[0][GUARD + r * b.ref.stride + i] = check_normal();
        }
    }
    memcpy(b.memory[1], b.memory[0], b.floats * sizeof(float));
    return b;
}
struct buf check_output(enum row_axis axis, int rows, int cols) {
    return make_buf(axis, rows, cols);
}
struct buf check_copy(const struct buf *from) {
    struct buf b = *from;
    for (int m = 0; m < 2; m++) {
        b.memory[m] = xcalloc(b.floats, sizeof(float));
        memcpy(b.memory[m], from->memory[m], b.floats * sizeof(float));
    }
    b.ref.data = b.memory[0] + GUARD, b.dev.data = b.memory[1] + GUARD;
    return b;
}
void check_free(struct buf *b) {
    free(b->memory[0]);
    free(b->memory[1]);
}

static bool is_inside(const struct buf *y, size_t at, int rows) {
    const int64_t i = (int64_t)at - GUARD;
    return i >= 0 && i / y->dev.stride < rows && i % y->dev.stride < y->dev.cols;
}
void check_close(const struct buf *y, int rows, double tolerance) {
    for (size_t i = 0; i < y->floats; i++) {
        const float want = y->memory[0][i], got = y->memory[1][i];
        if (!is_inside(y, i, rows)) {
            if (memcmp(&got, &canary_bits, sizeof(got))) {
                fail_msg("%s: wrote outside, at float %zd (seed %llu)", case_name,
                         (ptrdiff_t)i - GUARD, (unsigned long long)seed);
            }
        } else if (!(fabs((double)want - got) <= tolerance)) {
            const int64_t at = (int64_t)i - GUARD;
            fail_msg("%s: [%lld, %lld] is %.9g, the reference says %.9g (seed %llu)", case_name,
                     (long long)(at / y->dev.stride), (long long)(at % y->dev.stride), got, want,
                     (unsigned long long)seed);
        }
    }
}
void check_same_bits(const float *a, const float *b, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof(*a))) {
            fail_msg("%s: %s: float %zu is %.9g and %.9g (seed %llu)", case_name, what, i, a[i],
                     b[i], (unsigned long long)seed);
        }
    }
}

struct batch check_batch_of(const int *lens, int n_seqs, int padding) {
    struct batch b = {.cu = xcalloc((size_t)n_seqs + 1, sizeof(int32_t)),
                      .lens = xcalloc((size_t)n_seqs, sizeof(int32_t))};
    for (int s = 0; s < n_seqs; s++) {
        b.lens[s] = lens[s];
        b.cu[s + 1] = b.cu[s] + lens[s] + (padding ? check_rand(0, padding) : 0);
        b.b.max_seq_len = lens[s] > b.b.max_seq_len ? lens[s] : b.b.max_seq_len;
    }
    b.b.n_seqs = n_seqs, b.b.n_rows = b.cu[n_seqs];
    b.ids = xcalloc((size_t)b.b.n_rows, sizeof(int32_t));
    b.types = xcalloc((size_t)b.b.n_rows, sizeof(int32_t));
    for (int r = 0; r < b.b.n_rows; r++) {
        b.ids[r] = check_rand(0, 49), b.types[r] = check_rand(0, 1);
    }
    b.b.token_ids = b.ids, b.b.token_type_ids = b.types;
    b.b.cu_seqlens = b.cu, b.b.seq_lens = b.lens;
    return b;
}
struct batch check_batch(int n_seqs, int max_len, int padding) {
    int *lens = xcalloc((size_t)n_seqs, sizeof(*lens));
    for (int s = 0; s < n_seqs; s++) {
        lens[s] = check_rand(1, max_len);
    }
    const struct batch b = check_batch_of(lens, n_seqs, padding);
    free(lens);
    return b;
}
void check_batch_free(struct batch *b) {
    free(b->ids);
    free(b->types);
    free(b->cu);
    free(b->lens);
}

void check_run(struct backend *be, const struct token_batch *b, program_fn *program,
               const void *arg) {
    struct error err;
    enum status s = STATUS_OK;
    be->fn->batch_begin(be, 0, b);
    be->fn->batch_submit(be, 0, program, arg);
    assert_true(be->fn->batch_end(be, 0, true, &s, NULL, &err));
    assert_int_equal(s, STATUS_OK);
}

static uint16_t to_bfloat(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)(bits >> 16);
}
static uint16_t to_half(float f) { // of normal numbers, cut off
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    const int exponent = (int)(bits >> 23 & 255) - 112;
    const uint32_t magnitude = exponent <= 0 ? 0 : (uint32_t)exponent << 10 | (bits >> 13 & 1023);
    return (uint16_t)((bits >> 16 & 0x8000) | magnitude);
}
struct host_tensor check_host(int rows, int cols, float spread, enum dtype dtype) {
    const size_t n = (size_t)rows * (size_t)cols;
    void *data = xcalloc(n, dtype_size(dtype));
    for (size_t i = 0; i < n; i++) {
        const float f = spread * check_normal();
        if (dtype == DTYPE_F32) {
            ((float *)data)[i] = f;
        } else {
            ((uint16_t *)data)[i] = dtype == DTYPE_F16 ? to_half(f) : to_bfloat(f);
        }
    }
    return (struct host_tensor){data, dtype, rows, cols};
}
void check_host_free(struct host_tensor *t) {
    free((void *)(uintptr_t)t->data);
}

double check_worst_cosine(const float *a, const float *b, int rows, int cols) {
    double worst = 1;
    for (int r = 0; r < rows; r++, a += cols, b += cols) {
        double ab = 0, aa = 0, bb = 0;
        for (int i = 0; i < cols; i++) {
            ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
        }
        const double cosine = ab / sqrt(aa * bb);
        worst = cosine < worst ? cosine : worst;
    }
    return worst;
}
