/* finite.c - NaN or infinity anywhere in a checkpoint: every tensor of models in each storage type,
 * in one file and in shards, is spoilt in turn, first and last value, and must be named. */
#include "kernels/kernels.h"
#include "model/json_file.h"
#include "model/weights.h"
#include "tests/unit/model/folder.h"
#include "tests/unit/test.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint {
    struct folder folder; // a copy
    struct backend *be;
    struct model_config cfg;
};
static void golden_dir(char out[PATH_MAX], const char *name) {
    const char *models = getenv("GOLDEN_MODELS");
    assert_non_null(models);
    snprintf(out, PATH_MAX, "%s/%s", models, name);
}

/* What a value may be, and what it must not be; one that is the largest of its type is a number. */
struct storage {
    const char *name;
    size_t bytes;
    uint32_t bad[4], largest;
};
static const struct storage storages[] = {
    {"F32", 4, {0x7fc00000, 0xff800000, 0x7f800000, 0x7f800001}, 0x7f7fffff},
    {"F16", 2, {0x7e00, 0xfc00, 0x7c00, 0x7c01}, 0x7bff},
    {"BF16", 2, {0x7fc0, 0xff80, 0x7f80, 0x7f81}, 0x7f7f},
};
static const struct storage *storage_of(const cJSON *tensor) {
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItem(tensor, "dtype"));
    for (size_t i = 0; i < N_ITEMS(storages); i++) {
        if (!strcmp(storages[i].name, dtype)) {
            return &storages[i];
        }
    }
    fail_msg("dtype %s", dtype);
    return NULL;
}

static FILE *open_shard(const struct checkpoint *c, const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", c->folder.path, file);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    return f;
}
static cJSON *read_header(FILE *f, long *data_at) {
    uint64_t len = 0;
    assert_int_equal(fread(&len, sizeof(len), 1, f), 1);
    char *text = xcalloc((size_t)len + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)len, f), len);
    cJSON *header = cJSON_Parse(text);
    assert_non_null(header);
    free(text);
    *data_at = (long)sizeof(len) + (long)len;
    return header;
}
static void put_value(FILE *f, long at, uint32_t bits, size_t bytes, uint32_t *before) {
    *before = 0;
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fread(before, bytes, 1, f), 1);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(&bits, bytes, 1, f), 1); // the low bytes come first
    assert_int_equal(fflush(f), 0);
}

static enum status load(const struct checkpoint *c, struct error *err) {
    struct model_weights w;
    const enum status s = model_weights_load(&w, c->be, &c->cfg, c->folder.path, NULL, err);
    if (!s) {
        model_weights_finish(&w);
    }
    return s;
}
static void check_named(const struct checkpoint *c, const char *name, long index) {
    struct error err = {""};
    char want[200];
    snprintf(want, sizeof(want), "tensor %s: value %ld (row ", name, index);
    assert_int_equal(load(c, &err), STATUS_INVALID);
    if (!strstr(err.text, want) || !strstr(err.text, "is not a finite number") ||
        !strstr(err.text, c->folder.path)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, want);
    }
}
static void spoil(const struct checkpoint *c, FILE *f, const cJSON *tensor, long data_at,
                  int which) {
    const struct storage *st = storage_of(tensor);
    const cJSON *offsets = cJSON_GetObjectItem(tensor, "data_offsets");
    const long begin = data_at + (long)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    const long end = data_at + (long)cJSON_GetArrayItem(offsets, 1)->valuedouble;
    const long last = end - (long)st->bytes, index = (last - begin) / (long)st->bytes;
    uint32_t before, unused;
    put_value(f, which % 2 ? last : begin, st->bad[which % 4], st->bytes, &before);
    check_named(c, tensor->string, which % 2 ? index : 0);
    put_value(f, which % 2 ? last : begin, before, st->bytes, &unused);
}
static int spoil_shard(const struct checkpoint *c, const char *file, int which) {
    long data_at = 0;
    int n = 0;
    FILE *f = open_shard(c, file);
    cJSON *header = read_header(f, &data_at), *tensor;
    cJSON_ArrayForEach (tensor, header) {
        if (strcmp(tensor->string, "__metadata__") != 0) {
            spoil(c, f, tensor, data_at, which + n++);
            spoil(c, f, tensor, data_at, which + n);
        }
    }
    cJSON_Delete(header);
    fclose(f);
    return n;
}

static void with_model(const char *model, const char *const *files, int n_tensors,
                       struct backend *be) {
    struct checkpoint c = {.be = be};
    struct error err = {""};
    char dir[PATH_MAX];
    int n = 0;
    golden_dir(dir, model);
    folder_init(&c.folder);
    assert_int_equal(model_config_read(&c.cfg, dir, &err), STATUS_OK);
    for (int i = 0; files[i]; i++) {
        folder_copy(&c.folder, dir, files[i]);
    }
    for (int i = 0; files[i]; i++) {
        if (!strstr(files[i], ".json")) {
            n += spoil_shard(&c, files[i], i);
        }
    }
    assert_int_equal(n, n_tensors);
    assert_int_equal(load(&c, &err), STATUS_OK); // all is as it was
    model_config_finish(&c.cfg);
    folder_finish(&c.folder);
    backend_destroy(be);
}
static struct backend *make_cpu(enum precision precision) {
    struct backend *be = NULL;
    struct error err = {""};
    const struct cpu_options opt = {.n_lanes = 1, .first_core = -1, .precision = precision};
    assert_int_equal(cpu_backend_create(&be, &opt, &err), STATUS_OK);
    return be;
}

enum { LAYER_TENSORS = 16, OTHER_TENSORS = 9 };
static const char *const single[] = {"model.safetensors", NULL};

static void in_one_file(void **state) {
    with_model("base", single, 2 * LAYER_TENSORS + OTHER_TENSORS, make_cpu(PRECISION_INT8));
    with_model("base", single, 2 * LAYER_TENSORS + OTHER_TENSORS, make_cpu(PRECISION_FLOAT32));
}
static void in_half_precision(void **state) {
    with_model("float16", single, 2 * LAYER_TENSORS + OTHER_TENSORS, make_cpu(PRECISION_INT8));
    with_model("bfloat16", single, 2 * LAYER_TENSORS + OTHER_TENSORS, make_cpu(PRECISION_BFLOAT16));
}
static void in_shards(void **state) {
    static const char *const files[] = {
        "model.safetensors.index.json",     "model-00001-of-00004.safetensors",
        "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors",
        "model-00004-of-00004.safetensors", NULL};
    with_model("sharded", files, 3 * LAYER_TENSORS + OTHER_TENSORS, make_cpu(PRECISION_INT8));
}
/* The largest numbers of each type are numbers. */
static void the_largest_number_is_one(void **state) {
    static const char *const models[] = {"base", "float16", "bfloat16"};
    for (size_t i = 0; i < N_ITEMS(models); i++) {
        struct checkpoint c = {.be = make_cpu(PRECISION_INT8)};
        struct error err = {""};
        char dir[PATH_MAX];
        long data_at = 0;
        uint32_t unused;
        golden_dir(dir, models[i]);
        folder_init(&c.folder);
        folder_copy(&c.folder, dir, single[0]);
        assert_int_equal(model_config_read(&c.cfg, dir, &err), STATUS_OK);
        FILE *f = open_shard(&c, single[0]);
        cJSON_Delete(read_header(f, &data_at));
        put_value(f, data_at, storages[i].largest, storages[i].bytes, &unused);
        fclose(f);
        assert_int_equal(load(&c, &err), STATUS_OK);
        model_config_finish(&c.cfg);
        backend_destroy(c.be);
        folder_finish(&c.folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_one_file),
        cmocka_unit_test(in_half_precision),
        cmocka_unit_test(in_shards),
        cmocka_unit_test(the_largest_number_is_one),
    };
    return cmocka_run_group_tests_name("finite", tests, NULL, NULL);
}
