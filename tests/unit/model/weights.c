#include "kernels/kernels.h"
#include "model/weights.h"
#include "tests/unit/model/folder.h"
#include "tests/unit/test.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct folder folder; // a copy of the golden model `base`
    struct backend *be;
    struct model_config cfg;
};

static void golden_dir(char out[PATH_MAX], const char *name) {
    const char *models = getenv("GOLDEN_MODELS");
    assert_non_null(models);
    snprintf(out, PATH_MAX, "%s/%s", models, name);
}
static void init(struct fixture *f) {
    char dir[PATH_MAX];
    struct error err;
    golden_dir(dir, "base");
    folder_init(&f->folder);
    folder_copy(&f->folder, dir, "model.safetensors");
    assert_int_equal(reference_backend_create(&f->be, &err), STATUS_OK);
    assert_int_equal(model_config_read(&f->cfg, dir, &err), STATUS_OK);
}
static void finish(struct fixture *f) {
    model_config_finish(&f->cfg);
    backend_destroy(f->be);
    folder_finish(&f->folder);
}

static void loads_every_way_of_naming(void **state) {
    static const char *const models[] = {"base", "no_prefix", "gamma_beta", "sharded", "float16"};
    for (size_t i = 0; i < N_ITEMS(models); i++) {
        char dir[PATH_MAX];
        struct backend *be;
        struct model_config cfg;
        struct model_weights w;
        struct load_times times = {-1, -1, -1};
        struct error err = {""};
        golden_dir(dir, models[i]);
        assert_int_equal(reference_backend_create(&be, &err), STATUS_OK);
        assert_int_equal(model_config_read(&cfg, dir, &err), STATUS_OK);
        if (model_weights_load(&w, be, &cfg, dir, &times, &err)) {
            fail_msg("%s", err.text);
        }
        assert_int_equal(w.n_layers, cfg.n_layers);
        assert_non_null(w.head.dense);
        assert_true(times.map_ms > 0 && times.check_ms >= 0 && times.convert_ms >= 0);
        model_weights_finish(&w);
        model_weights_finish(&w); // takes a finished one
        model_config_finish(&cfg);
        backend_destroy(be);
    }
}

static void assert_not_loaded(const struct fixture *f, enum status status, const char *message) {
    struct model_weights w;
    struct error err = {""};
    memset(&w, 0, sizeof(w));
    assert_int_equal(model_weights_load(&w, f->be, &f->cfg, f->folder.path, NULL, &err), status);
    assert_null(w.file);
    if (!strstr(err.text, message)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, message);
    }
}

static void names_a_missing_tensor(void **state) {
    struct fixture f;
    init(&f);
    folder_patch(&f.folder, "model.safetensors", "bert.pooler.dense.weight",
                 "bert.pooler.dense.weighX");
    assert_not_loaded(
        &f, STATUS_INVALID,
        "tensor bert.pooler.dense.weight is missing, expected with the shape [32, 32]");
    folder_patch(&f.folder, "model.safetensors", "bert.encoder.layer.1.output.LayerNorm.bias",
                 "bert.encoder.layer.1.output.LayerNorm.biaX");
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor bert.encoder.layer.1.output.LayerNorm.bias is missing, expected with "
                      "the shape [32]");
    folder_patch(&f.folder, "model.safetensors", "bert.embeddings.word_embeddings.weight",
                 "bert.embeddings.word_embeddings.weighX");
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor bert.embeddings.word_embeddings.weight is missing, expected with the "
                      "shape [214, 32]");
    finish(&f);
}
static void names_a_missing_classifier(void **state) {
    struct fixture f;
    init(&f);
    folder_patch(&f.folder, "model.safetensors", "\"classifier.bias\"", "\"classifier.biaX\"");
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor classifier.bias is missing, expected with the shape [2]");
    finish(&f);
}

static void names_a_tensor_of_another_shape(void **state) {
    struct fixture f;
    init(&f);
    f.cfg.n_labels = 3; // the labels themselves stay two
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor classifier.weight has the shape [2, 32], expected [3, 32]");
    f.cfg.n_labels = 2;
    f.cfg.vocab_size = 215;
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor bert.embeddings.word_embeddings.weight has the shape [214, 32], "
                      "expected [215, 32]");
    f.cfg.vocab_size = 214;
    f.cfg.n_layers = 3;
    assert_not_loaded(&f, STATUS_INVALID,
                      "tensor bert.encoder.layer.2.attention.self.query.weight is missing");
    finish(&f);
}

/* A backend whose n-th maker fails: what was made before it must be given back (under the address
 * sanitizer, leaks are errors). */
static int makers_left;
static const struct backend_fn *real;
static enum status failing(struct error *err) {
    return makers_left-- > 0 ? STATUS_OK : error_set(err, STATUS_BACKEND, "no more memory there");
}
static enum status linear_create(struct backend *be, struct linear_weight **out,
                                 const struct linear_part *parts, int n_parts, struct error *err) {
    const enum status s = failing(err);
    return s ? s : real->linear_create(be, out, parts, n_parts, err);
}
static enum status norm_create(struct backend *be, struct norm_weight **out,
                               const struct host_tensor *gamma, const struct host_tensor *beta,
                               float eps, struct error *err) {
    const enum status s = failing(err);
    return s ? s : real->norm_create(be, out, gamma, beta, eps, err);
}
static enum status table_create(struct backend *be, struct table_weight **out,
                                const struct host_tensor *rows, struct error *err) {
    const enum status s = failing(err);
    return s ? s : real->table_create(be, out, rows, err);
}
static void gives_back_what_was_made(void **state) {
    struct fixture f;
    struct model_weights w;
    struct error err;
    init(&f);
    real = f.be->fn;
    struct backend_fn fn = *real;
    fn.linear_create = linear_create;
    fn.norm_create = norm_create;
    fn.table_create = table_create;
    f.be->fn = &fn;
    const int n_makers = 4 + 2 * 6 + 2;
    for (int n = 0; n < n_makers; n++) {
        makers_left = n;
        assert_not_loaded(&f, STATUS_BACKEND, "no more memory there");
    }
    makers_left = n_makers;
    assert_int_equal(model_weights_load(&w, f.be, &f.cfg, f.folder.path, NULL, &err), STATUS_OK);
    assert_int_equal(makers_left, 0);
    model_weights_finish(&w);
    f.be->fn = real;
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_every_way_of_naming),
        cmocka_unit_test(names_a_missing_tensor),
        cmocka_unit_test(names_a_missing_classifier),
        cmocka_unit_test(names_a_tensor_of_another_shape),
        cmocka_unit_test(gives_back_what_was_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
