/* accelerator.c - the plugin under test, and matrices that stand on both sides. */
#include "tests/kernels/accelerator.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum precision accelerator_precisions[3] = {PRECISION_FLOAT32, PRECISION_FLOAT16,
                                                  PRECISION_BFLOAT16};

enum { SEQS_A_BUCKET = 64 };

static const char *name_of_plugin(void) {
    const char *name = getenv("BERTH_ACCELERATOR");
    return name ? name : "simt";
}
bool accelerator_is_simulated(void) {
    return !strcmp(name_of_plugin(), "simt");
}
unsigned long accelerator_count(const char *name) {
    unsigned long (*count)(void) = NULL;
    char path[512];
    const char *folder = getenv("BERTH_PLUGIN_DIR");
    if (!accelerator_is_simulated() || !folder) {
        return 0;
    }
    snprintf(path, sizeof(path), "%s/berth_simt.so", folder);
    void *plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(plugin);
    *(void **)&count = dlsym(plugin, name);
    assert_non_null(count);
    const unsigned long n = count();
    assert_int_equal(dlclose(plugin), 0); // it stays open: the program has it
    return n;
}
const struct accelerator *accelerator_find(void) {
    static const struct accelerator *found;
    static bool was_sought;
    struct error err = {.text = ""};
    int n = 0;
    if (!was_sought) {
        was_sought = true;
        if (plugin_open(&found, name_of_plugin(), &err) || found->count(&n, &err)) {
            fprintf(stderr, "skipped: %s: %s\n", name_of_plugin(), err.text);
            found = NULL;
        }
    }
    return found;
}

struct pair accelerator_pair(enum precision precision, const struct accelerator_options *opt,
                             const struct pass_limits *limits) {
    struct pair p = {0};
    struct accelerator_options mine = *opt;
    struct error err;
    mine.precision = precision;
    mine.pass_timeout_ns = mine.pass_timeout_ns ? mine.pass_timeout_ns : INT64_C(600000000000);
    if (reference_backend_create(&p.ref, &err) || accelerator_find()->create(&p.dev, &mine, &err) ||
        p.ref->fn->reserve(p.ref, limits, &err) || p.dev->fn->reserve(p.dev, limits, &err)) {
        fail_msg("%s", err.text);
    }
    return p;
}
double accelerator_rounding(const struct backend *be) {
    return be->dtype == DTYPE_BF16 ? 0x1p-8 : be->dtype == DTYPE_F16 ? 0x1p-11 : 0;
}

struct matrix matrix_empty(const struct pair *p, enum row_axis axis, int rows, int cols,
                           bool exact) {
    if (axis == AXIS_SEQS) { // a graph computes its bucket's rows
        rows = (rows + SEQS_A_BUCKET - 1) / SEQS_A_BUCKET * SEQS_A_BUCKET;
    }
    struct matrix m = {.host = xcalloc((size_t)rows * (size_t)cols, sizeof(float))};
    struct error err;
    m.ref = (struct tensor){m.host, DTYPE_F32, LAYOUT_ROWS, axis, rows, cols, cols};
    assert_int_equal(p->dev->fn->tensor_create(p->dev, &m.dev, axis, rows, cols, exact, &err),
                     STATUS_OK);
    return m;
}
void matrix_settle(const struct pair *p, struct matrix *m) {
    struct error err;
    assert_int_equal(p->dev->fn->tensor_write(p->dev, &m->dev, m->host, &err), STATUS_OK);
    assert_int_equal(p->dev->fn->tensor_read(p->dev, m->host, &m->dev, &err), STATUS_OK);
}
/* Rows of AXIS_SEQS are fp32, but a product may read no more of them than this. */
static float tf32_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    bits &= 0xffffe000u;
    memcpy(&v, &bits, sizeof(v));
    return v;
}
struct matrix matrix_random(const struct pair *p, enum row_axis axis, int rows, int cols) {
    struct matrix m = matrix_empty(p, axis, rows, cols, false);
    for (size_t i = 0; i < (size_t)rows * (size_t)cols; i++) {
        m.host[i] = axis == AXIS_SEQS ? tf32_of(check_normal()) : check_normal();
    }
    matrix_settle(p, &m);
    return m;
}
void matrix_compare(const struct pair *p, const struct matrix *m, int rows, double absolute,
                    double relative) {
    const int cols = m->dev.cols;
    float *got = xcalloc((size_t)m->dev.rows * (size_t)cols, sizeof(*got));
    struct error err;
    assert_int_equal(p->dev->fn->tensor_read(p->dev, got, &m->dev, &err), STATUS_OK);
    for (int i = 0; i < rows * cols; i++) {
        const double want = m->host[i], off = fabs(got[i] - want);
        if (!(off <= absolute + relative * fabs(want))) {
            check_fail("[%d, %d] is %.9g, the reference says %.9g", i / cols, i % cols, got[i],
                       want);
        }
    }
    free(got);
}
void matrix_free(const struct pair *p, struct matrix *m) {
    p->dev->fn->tensor_destroy(p->dev, &m->dev);
    free(m->host);
}

void small_net_init(struct small_net *s, enum precision precision,
                    const struct accelerator_options *opt) {
    static const struct net_shape shape = {
        .n_heads = 1, .head_dim = 32, .intermediate = 64, .n_layers = 2, .n_labels = SMALL_LABELS};
    static const struct pass_limits limits = {SMALL_ROWS, SMALL_SEQS, SMALL_LEN, 32, 64, 1, 2};
    s->pair = accelerator_pair(precision, opt, &limits);
    net_host_init(&s->host, &shape);
    net_weights_make(&s->weights, s->pair.dev, &s->host);
    net_init(&s->net, s->pair.dev, &s->host, &s->weights, SMALL_ROWS, SMALL_SEQS, SMALL_LEN);
}
void small_net_finish(struct small_net *s) {
    net_finish(&s->net);
    net_weights_finish(&s->weights, s->pair.dev, s->host.shape.n_layers);
    net_host_finish(&s->host);
    check_pair_finish(&s->pair);
}
