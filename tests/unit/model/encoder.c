#include "kernels/kernels.h"
#include "model/encoder.h"
#include "tests/unit/test.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 64, MAX_SEQS = 4, MAX_LABELS = 8, MAX_HIDDEN = 64 };
struct fixture {
    struct backend *be;
    struct model_config cfg;
    struct model_weights w;
    struct encoder *e;
};
static const struct encoder_limits limits = {MAX_ROWS, MAX_SEQS, 32, 0};

static struct backend *make_reference(void) {
    struct backend *be = NULL;
    struct error err;
    assert_int_equal(reference_backend_create(&be, &err), STATUS_OK);
    return be;
}
static struct backend *make_cpu(int n_lanes) {
    struct backend *be = NULL;
    struct error err;
    const struct cpu_options opt = {.n_lanes = n_lanes, .first_core = -1};
    assert_int_equal(cpu_backend_create(&be, &opt, &err), STATUS_OK);
    return be;
}
static void init_on(struct fixture *f, const char *name, struct backend *be) {
    const char *models = getenv("GOLDEN_MODELS");
    char dir[PATH_MAX];
    struct error err;
    assert_non_null(models);
    snprintf(dir, sizeof(dir), "%s/%s", models, name);
    f->be = be;
    assert_int_equal(model_config_read(&f->cfg, dir, &err), STATUS_OK);
    assert_int_equal(model_weights_load(&f->w, f->be, &f->cfg, dir, NULL, &err), STATUS_OK);
    assert_int_equal(encoder_create(&f->e, f->be, &f->cfg, &f->w, &limits, &err), STATUS_OK);
}
static void init(struct fixture *f, const char *name) {
    init_on(f, name, make_reference());
}
static void finish(struct fixture *f) {
    encoder_destroy(f->e);
    model_weights_finish(&f->w);
    model_config_finish(&f->cfg);
    backend_destroy(f->be);
}

static const int32_t ids[] = {2, 50, 60, 3, 2, 70, 3}, types[] = {0, 0, 1, 1, 0, 0, 0};
static const int32_t cu_seqlens[] = {0, 4, 7}, seq_lens[] = {4, 3};
static const struct token_batch two = {ids, types, cu_seqlens, seq_lens, 2, 7, 4};

/* Every row of every layer, as one would write it down first, without the saving. */
struct plain {
    struct fixture *f;
    struct tensor qkv[2], logits, pooled, scratch;
    struct layer_buffers b;
    float *out, *hidden; // logits; every row after the last layer
};
static void plain_program(struct lane *ln, const void *arg) {
    const struct plain *p = arg;
    const struct backend_fn *fn = ln->be->fn;
    const struct model_weights *w = &p->f->w;
    struct layer_buffers b = p->b;
    fn->embed_layernorm(ln, &b.x, &w->embedding);
    fn->linear(ln, &p->qkv[0], &b.x, w->layers[0].qkv, ACT_NONE, NULL);
    for (int i = 0; i < w->n_layers; i++) {
        b.qkv_next = p->qkv[(i + 1) & 1];
        fn->barrier(ln);
        fn->attention(ln, &b.ctx, &p->qkv[i & 1], p->f->cfg.n_heads);
        fn->layer_rest(ln, &b, &w->layers[i], i + 1 < w->n_layers ? w->layers[i + 1].qkv : NULL);
    }
    fn->barrier(ln);
    fn->pool(ln, &p->pooled, &b.x, POOL_FIRST);
    fn->head(ln, &p->logits, &p->pooled, &p->scratch, &w->head);
    fn->fetch(ln, p->out, &p->logits);
    fn->fetch(ln, p->hidden, &b.x);
}
static void make(struct fixture *f, struct tensor *t, enum row_axis axis, int rows, int cols) {
    struct error err;
    assert_int_equal(f->be->fn->tensor_create(f->be, t, axis, rows, cols, false, &err), STATUS_OK);
}
static void run_plain(struct fixture *f, const struct token_batch *batch, float *out,
                      float *hidden_out) {
    struct plain p = {.f = f, .out = out, .hidden = hidden_out};
    const int hidden = f->cfg.hidden;
    struct tensor *const by_token[] = {&p.b.x, &p.b.ctx, &p.b.y, &p.b.ffn, &p.qkv[0], &p.qkv[1]};
    const int cols[] = {hidden, hidden, hidden, f->cfg.intermediate, 3 * hidden, 3 * hidden};
    for (size_t i = 0; i < N_ITEMS(by_token); i++) {
        make(f, by_token[i], AXIS_TOKENS, MAX_ROWS, cols[i]);
    }
    make(f, &p.pooled, AXIS_SEQS, MAX_SEQS, hidden);
    make(f, &p.scratch, AXIS_SEQS, MAX_SEQS, hidden);
    make(f, &p.logits, AXIS_SEQS, MAX_SEQS, f->cfg.n_labels);
    enum status s;
    struct error err;
    f->be->fn->batch_begin(f->be, 0, batch);
    f->be->fn->batch_submit(f->be, 0, plain_program, &p);
    assert_true(f->be->fn->batch_end(f->be, 0, true, &s, NULL, &err));
    assert_int_equal(s, STATUS_OK);
    for (size_t i = 0; i < N_ITEMS(by_token); i++) {
        f->be->fn->tensor_destroy(f->be, by_token[i]);
    }
    f->be->fn->tensor_destroy(f->be, &p.pooled);
    f->be->fn->tensor_destroy(f->be, &p.scratch);
    f->be->fn->tensor_destroy(f->be, &p.logits);
}

static void saving_rows_changes_nothing(void **state) {
    static const char *const models[] = {"base", "one_layer", "three_layers", "five_labels"};
    for (size_t i = 0; i < N_ITEMS(models); i++) {
        struct fixture f;
        struct error err;
        float got[MAX_SEQS * MAX_LABELS] = {0}, want[MAX_SEQS * MAX_LABELS] = {0};
        float hidden[MAX_ROWS * MAX_HIDDEN], got_hidden[MAX_ROWS * MAX_HIDDEN];
        init(&f, models[i]);
        run_plain(&f, &two, want, hidden);
        assert_int_equal(encoder_forward(f.e, got, &two, NULL, &err), STATUS_OK);
        assert_memory_equal(got, want,
                            sizeof(got)); // the reference works row by row: the same bits
        assert_true(got[0] != got[f.cfg.n_labels]);
        assert_true(got[2 * f.cfg.n_labels] == 0); // nothing beyond [n_seqs, n_labels]
        assert_int_equal(encoder_hidden(f.e, got_hidden, &two, NULL, &err), STATUS_OK);
        assert_memory_equal(got_hidden, hidden,
                            (size_t)two.n_rows * (size_t)f.cfg.hidden * sizeof(float));
        finish(&f);
    }
}

static void a_pass_leaves_nothing_behind(void **state) {
    struct fixture f;
    struct error err;
    float first[4], again[4], other[2];
    const int32_t one_cu[] = {0, 4}, one_len[] = {4};
    const struct token_batch one = {ids, types, one_cu, one_len, 1, 4, 4};
    init(&f, "base");
    assert_int_equal(encoder_forward(f.e, first, &two, NULL, &err), STATUS_OK);
    assert_int_equal(encoder_forward(f.e, other, &one, NULL, &err), STATUS_OK);
    assert_int_equal(encoder_forward(f.e, again, &two, NULL, &err), STATUS_OK);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_equal(first, other, sizeof(other));
    finish(&f);
}

struct between { // a pass of another encoder at each border
    struct encoder *e;
    const float *want;
    size_t bytes;
    int calls, layers_seen;
};
static void run_other(void *arg, int layers_left, int n_layers) {
    struct between *b = arg;
    struct error err;
    struct op_times times;
    float got[MAX_SEQS * MAX_LABELS];
    assert_in_range(layers_left, 1, n_layers - 1);
    assert_int_equal(encoder_forward(b->e, got, &two, &times, &err), STATUS_OK);
    assert_memory_equal(got, b->want, b->bytes);
    assert_true(times.ns[OP_GEMM] > 0);
    b->calls++;
    b->layers_seen = n_layers;
}
static void check_steps(struct backend *be) {
    struct fixture f;
    struct error err;
    float want[MAX_SEQS * MAX_LABELS], one[MAX_SEQS * MAX_LABELS], got[MAX_SEQS * MAX_LABELS];
    const int32_t long_ids[20] = {2, 9, 8, 7, 6, 5, 4}, zeros[20] = {0}, cu[] = {0, 20};
    const struct token_batch outer = {long_ids, zeros, cu, cu + 1, 1, 20, 20};
    struct between b = {.want = want};
    struct encoder_limits second = limits;
    struct op_times times;
    init_on(&f, "three_layers", be);
    second.slot = 1;
    b.bytes = 2 * (size_t)f.cfg.n_labels * sizeof(float);
    assert_int_equal(encoder_create(&b.e, f.be, &f.cfg, &f.w, &second, &err), STATUS_OK);
    assert_int_equal(encoder_forward(f.e, want, &two, NULL, &err), STATUS_OK);
    assert_int_equal(encoder_forward(f.e, one, &outer, NULL, &err), STATUS_OK);
    assert_int_equal(encoder_forward_in_steps(f.e, got, &outer, run_other, &b, &times, &err),
                     STATUS_OK);
    assert_memory_equal(got, one, (size_t)f.cfg.n_labels * sizeof(float));
    assert_int_equal(b.calls, 2);
    assert_int_equal(b.layers_seen, 3);
    assert_true(times.ns[OP_GEMM] > 0 && times.ns[OP_HEAD] > 0);
    encoder_destroy(b.e);
    finish(&f);
}
static void borders_change_nothing(void **state) {
    check_steps(make_reference());
    for (int n_lanes = 1; n_lanes <= 3; n_lanes++) {
        check_steps(make_cpu(n_lanes));
    }
}

static void tells_time_by_op(void **state) {
    struct fixture f;
    struct error err;
    float logits[4];
    struct op_times times;
    memset(&times, 0xff, sizeof(times));
    init(&f, "base");
    assert_int_equal(encoder_forward(f.e, logits, &two, &times, &err), STATUS_OK);
    assert_true(times.ns[OP_GEMM] > 0 && times.ns[OP_ATTENTION] > 0 && times.ns[OP_LAYERNORM] > 0);
    assert_true(times.ns[OP_EMBED] > 0 && times.ns[OP_HEAD] > 0 && times.ns[OP_WAIT] == 0);
    finish(&f);
}

static double flops_by_hand(const struct model_config *c) { // of `two`: 4 and 3 tokens
    const double h = c->hidden, i = c->intermediate, whole = c->n_layers - 1;
    return whole * (7 * (8 * h * h + 4 * h * i) + 4 * (16 + 9) * h)  // every row
           + 7 * 6 * h * h + 4 * 7 * h + 2 * (2 * h * h + 4 * h * i) // the last layer
           + 2 * (2 * h * h + 2 * h * c->n_labels)                   // the head
           + (whole * 7 + 2) * 2 * 8 * h + 7 * 10 * h;               // LayerNorms, embed
}
static void check_profile(struct backend *be, const char *model) {
    struct fixture f;
    struct error err;
    struct op_profile p;
    struct op_times times;
    float logits[MAX_SEQS * MAX_LABELS];
    double flops = 0;
    int64_t ns[N_OP_KINDS] = {0};
    init_on(&f, model, be);
    op_profile_init(&p, f.cfg.n_layers);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(encoder_forward(f.e, logits, &two, &times, &err), STATUS_OK);
        encoder_profile(f.e, &p);
    }
    for (int k = 0; k < (f.cfg.n_layers + 1) * N_OP_STEPS; k++) {
        flops += p.of[k].flops;
        ns[op_step_kinds[k % N_OP_STEPS]] += p.of[k].ns;
    }
    assert_int_equal(p.n_passes, 2);
    assert_float_equal(flops, 2 * flops_by_hand(&f.cfg), 1);
    for (int layer = 0; layer < f.cfg.n_layers; layer++) {
        const int rows = layer == f.cfg.n_layers - 1 ? 2 : 7;
        for (int step = STEP_QKV; step <= STEP_OUTPUT_NORM; step++) {
            const struct op_figures *o = op_profile_at(&p, layer, (enum op_step)step);
            assert_int_equal(o->calls, 2);
            assert_int_equal(o->rows, 2 * (step == STEP_QKV ? 7 : rows));
            assert_true(o->ns > 0 && o->bytes > 0);
        }
        assert_int_equal(op_profile_at(&p, layer, STEP_HEAD)->ns, 0);
    }
    assert_true(op_profile_at(&p, f.cfg.n_layers, STEP_EMBED)->ns > 0);
    assert_true(op_profile_at(&p, f.cfg.n_layers, STEP_HEAD)->ns > 0);
    for (int kind = 0; kind < N_OP_KINDS; kind++) { // the latest pass is part of the sum
        assert_true(ns[kind] + f.cfg.n_layers * N_OP_STEPS >= times.ns[kind]);
    }
    op_profile_finish(&p);
    finish(&f);
}
static void tells_time_and_work_by_layer(void **state) {
    static const char *const models[] = {"base", "one_layer", "three_layers", "five_labels"};
    for (size_t i = 0; i < N_ITEMS(models); i++) {
        check_profile(make_reference(), models[i]);
        check_profile(make_cpu(1), models[i]);
        check_profile(make_cpu(2), models[i]);
    }
}

static void refuses_more_positions_than_there_are(void **state) {
    struct fixture f;
    struct error err;
    struct encoder *e = NULL;
    const struct encoder_limits too_long = {100, 2, 65, 0}, none = {0, 1, 1, 0};
    init(&f, "base");
    assert_int_equal(encoder_create(&e, f.be, &f.cfg, &f.w, &too_long, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "65 tokens each: the model has 64 positions"));
    assert_int_equal(encoder_create(&e, f.be, &f.cfg, &f.w, &none, &err), STATUS_INVALID);
    assert_null(e);
    finish(&f);
}

static int tensors_left;
static const struct backend_fn *real;
static enum status tensor_create(struct backend *be, struct tensor *out, enum row_axis axis,
                                 int rows, int cols, bool exact, struct error *err) {
    return tensors_left-- > 0 ? real->tensor_create(be, out, axis, rows, cols, exact, err)
                              : error_set(err, STATUS_NO_MEMORY, "no memory");
}
static bool failing_end(struct backend *be, int slot, bool wait, enum status *status,
                        struct op_times *times, struct error *err) {
    const bool over = real->batch_end(be, slot, wait, status, times, err);
    *status = error_set(err, STATUS_BACKEND, "the device fell off");
    return over;
}
static void passes_a_failure_on(void **state) {
    struct fixture f;
    struct error err;
    struct encoder *e = NULL;
    float logits[4];
    init(&f, "base");
    real = f.be->fn;
    struct backend_fn fn = *real;
    fn.tensor_create = tensor_create;
    fn.batch_end = failing_end;
    f.be->fn = &fn;
    for (int n = 0; n < 11; n++) {
        tensors_left = n;
        assert_int_equal(encoder_create(&e, f.be, &f.cfg, &f.w, &limits, &err), STATUS_NO_MEMORY);
        assert_null(e);
    }
    assert_int_equal(encoder_forward(f.e, logits, &two, NULL, &err), STATUS_BACKEND);
    assert_string_equal(err.text, "the device fell off");
    f.be->fn = real;
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saving_rows_changes_nothing),
        cmocka_unit_test(a_pass_leaves_nothing_behind),
        cmocka_unit_test(borders_change_nothing),
        cmocka_unit_test(tells_time_by_op),
        cmocka_unit_test(tells_time_and_work_by_layer),
        cmocka_unit_test(refuses_more_positions_than_there_are),
        cmocka_unit_test(passes_a_failure_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
