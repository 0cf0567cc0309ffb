#include "model/safetensors.h"
#include "tests/unit/model/folder.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define A TENSOR("a", "F32", "[2,3]", "[0,24]")
#define B TENSOR("b", "F32", "[4]", "[24,40]")

static const float numbers[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static void finds_matrices_and_vectors(void **state) {
    struct folder f;
    struct safetensors *st = NULL;
    struct host_tensor t;
    struct error err;
    folder_init(&f);
    folder_write_tensors(&f, "model.safetensors",
                         "{\"__metadata__\":{\"format\":\"pt\"}," B "," A "}   ", numbers, 40);
    assert_int_equal(safetensors_open(&st, f.path, &err), STATUS_OK);
    assert_true(safetensors_has(st, "a") && safetensors_has(st, "b"));
    assert_false(safetensors_has(st, "c") || safetensors_has(st, "__metadata__"));
    assert_int_equal(safetensors_find(st, &t, "a", 2, 3, &err), STATUS_OK);
    assert_true(t.rows == 2 && t.cols == 3 && t.dtype == DTYPE_F32);
    assert_memory_equal(t.data, numbers, 24);
    assert_int_equal(safetensors_find(st, &t, "b", 0, 4, &err), STATUS_OK);
    assert_true(t.rows == 1 && t.cols == 4);
    assert_memory_equal(t.data, numbers + 6, 16);
    safetensors_close(st);
    folder_finish(&f);
}

static void assert_not_found(const struct safetensors *st, const char *name, int rows, int cols,
                             const char *message) {
    struct host_tensor t;
    struct error err;
    assert_int_equal(safetensors_find(st, &t, name, rows, cols, &err), STATUS_INVALID);
    if (!strstr(err.text, message)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, message);
    }
}

static void says_what_does_not_fit(void **state) {
    struct folder f;
    struct safetensors *st = NULL;
    struct error err;
    folder_init(&f);
    folder_write_tensors(&f, "model.safetensors",
                         "{" A "," B "," TENSOR("c", "I64", "[2]", "[40,56]") "," TENSOR(
                             "d", "F8_E9", "[3]", "[56,59]") "}",
                         (char[59]){0}, 59);
    assert_int_equal(safetensors_open(&st, f.path, &err), STATUS_OK); // until it is asked for
    assert_not_found(st, "x", 2, 3, ": tensor x is missing, expected with the shape [2, 3]");
    assert_not_found(st, "x", 0, 3, ": tensor x is missing, expected with the shape [3]");
    assert_not_found(st, "a", 3, 2,
                     "/model.safetensors: tensor a has the shape [2, 3], expected [3, 2]");
    assert_not_found(st, "a", 0, 6, "tensor a has the shape [2, 3], expected [6]");
    assert_not_found(st, "b", 2, 2, "tensor b has the shape [4], expected [2, 2]");
    assert_not_found(st, "c", 0, 2, "tensor c has the dtype I64, expected F32, F16, BF16");
    assert_not_found(st, "d", 0, 3, "tensor d has the dtype F8_E9, expected F32, F16, BF16");
    safetensors_close(st);
    folder_finish(&f);
}

static void copies_what_is_not_aligned(void **state) {
    struct folder f;
    struct safetensors *st = NULL;
    struct host_tensor t;
    struct error err;
    unsigned char data[15] = {1, 2, 3};
    memcpy(data + 3, numbers, 12);
    folder_init(&f);
    folder_write_tensors(
        &f, "model.safetensors",
        "{" TENSOR("bytes", "U8", "[3]", "[0,3]") "," TENSOR("a", "F32", "[3]", "[3,15]") "}", data,
        15);
    assert_int_equal(safetensors_open(&st, f.path, &err), STATUS_OK);
    assert_int_equal(safetensors_find(st, &t, "a", 0, 3, &err), STATUS_OK);
    assert_int_equal((uintptr_t)t.data % sizeof(float), 0);
    assert_memory_equal(t.data, numbers, 12);
    safetensors_close(st);
    folder_finish(&f);
}

static void checks_headers(void **state) {
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message; // NULL: good
    } cases[] = {
        {"{" A "," B "}", 40, NULL},
        {"{" B "," A "}", 40, NULL},
        {"{}", 0, NULL},
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL},
        {"{" TENSOR("s", "F32", "[]", "[0,4]") "}", 4, NULL},
        {"{" TENSOR("e", "F32", "[0,7]", "[0,0]") "," A "}", 24, NULL},
        {"{" A "," TENSOR("e", "F32", "[0]", "[24,24]") "," B "}", 40, NULL},
        {"", 0, "not valid JSON"},
        {"{", 0, "not valid JSON"},
        {"[]", 0, "not a JSON object"},
        {"{} {}", 0, "beyond the end"},
        {"{\"a\":7}", 0,
         "tensor a: an object with dtype, shape, data_offsets is expected, found 7"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "tensor a: dtype must be a string, found nothing"},
        {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "tensor a: dtype must be a string, found 32"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
         "shape must be an array of at most 8 sizes, found nothing"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "at most 8 sizes"},
        {"{" TENSOR("a", "F32", "[-1]", "[0,4]") "}", 4, "zero or more, found -1"},
        {"{" TENSOR("a", "F32", "[0.5]", "[0,4]") "}", 4, "zero or more, found 0.5"},
        {"{" TENSOR("a", "F32", "[\"1\"]", "[0,4]") "}", 4, "zero or more, found \"1\""},
        {"{" TENSOR("a", "F32", "[1e300]", "[0,4]") "}", 4, "zero or more, found 1e+300"},
        {"{" TENSOR("a", "F32", "[9007199254740992,9007199254740992]", "[0,4]") "}", 4,
         "tensor a: its shape is too large"},
        {"{" TENSOR("a", "F32", "[2]", "[0,4]") "}", 4,
         "tensor a: its shape and F32 need 8 bytes, data_offsets give it 4"},
        {"{" TENSOR("a", "F16", "[2]", "[0,8]") "}", 8, "F16 need 4 bytes, data_offsets give it 8"},
        {"{" TENSOR("a", "F32", "[1]", "4") "}", 4, "data_offsets must be [begin, end], found 4"},
        {"{" TENSOR("a", "F32", "[1]", "[0]") "}", 4, "data_offsets must be [begin, end]"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4,8]") "}", 4, "data_offsets must be [begin, end]"},
        {"{" TENSOR("a", "F32", "[1]", "[-4,0]") "}", 4, "data_offsets must be [begin, end]"},
        {"{" TENSOR("a", "F32", "[1]", "[4,0]") "}", 4, "[4, 0] are outside the file's 4 bytes"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "}", 3, "[0, 4] are outside the file's 3 bytes"},
        {"{" A "," TENSOR("b", "F32", "[4]", "[20,36]") "}", 36,
         "tensor b begins at byte 20 of the data, the one before it ends at 24"},
        {"{" A "," TENSOR("b", "F32", "[4]", "[28,44]") "}", 44,
         "tensor b begins at byte 28 of the data, the one before it ends at 24"},
        {"{" A "," TENSOR("b", "F32", "[6]", "[0,24]") "}", 24, "tensor b begins at byte 0"},
        {"{" A "}", 40, "its tensors have 24 bytes, the file holds 40"},
        {"{" TENSOR("a", "F32", "[1]", "[0,4]") "," TENSOR("a", "F32", "[1]", "[4,8]") "}", 8,
         "tensor a is there twice"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct error err = {""};
        const size_t len = strlen(cases[i].header);
        const enum status s =
            safetensors_check_header(cases[i].header, len, 8 + len + cases[i].data_bytes, &err);
        const char *message = cases[i].message;
        if (message ? s != STATUS_INVALID || !strstr(err.text, message) : s != STATUS_OK) {
            fail_msg("%s: %s \"%s\", expected \"%s\"", cases[i].header, status_name(s), err.text,
                     message ? message : "");
        }
    }
}

static void assert_not_opened(const struct folder *f, enum status status, const char *message) {
    struct safetensors *st = NULL;
    struct error err = {""};
    assert_int_equal(safetensors_open(&st, f->path, &err), status);
    assert_null(st);
    if (!strstr(err.text, message)) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, message);
    }
}

static void refuses_broken_files(void **state) {
    struct folder f;
    const uint64_t huge = UINT64_MAX, long_header = 17;
    unsigned char file[24] = {0};
    folder_init(&f);
    assert_not_opened(&f, STATUS_IO, "neither model.safetensors nor model.safetensors.index.json");
    folder_write(&f, "model.safetensors", "", 0);
    assert_not_opened(&f, STATUS_INVALID, "model.safetensors: 0 bytes are no safetensors file");
    folder_write(&f, "model.safetensors", file, 7);
    assert_not_opened(&f, STATUS_INVALID, "7 bytes are no safetensors file");
    memcpy(file, &huge, 8);
    folder_write(&f, "model.safetensors", file, 24);
    assert_not_opened(&f, STATUS_INVALID,
                      "a header of 18446744073709551615 bytes, expected at most 16");
    memcpy(file, &long_header, 8);
    folder_write(&f, "model.safetensors", file, 24);
    assert_not_opened(&f, STATUS_INVALID, "a header of 17 bytes, expected at most 16");
    folder_write_tensors(&f, "model.safetensors", "{" A "}", numbers, 20);
    assert_not_opened(&f, STATUS_INVALID, "model.safetensors: tensor a: data_offsets [0, 24]");
    folder_finish(&f);
}

static void write_index(const struct folder *f, const char *json) {
    folder_write(f, "model.safetensors.index.json", json, strlen(json));
}
static void opens_shards(void **state) {
    struct folder f;
    struct safetensors *st = NULL;
    struct host_tensor t;
    struct error err;
    folder_init(&f);
    folder_write_tensors(&f, "one.safetensors", "{" A "}", numbers, 24);
    folder_write_tensors(&f, "two.safetensors", "{" TENSOR("b", "F32", "[4]", "[0,16]") "}",
                         numbers + 6, 16);
    write_index(&f, "{\"metadata\":{\"total_size\":40},\"weight_map\":{\"a\":\"one.safetensors\","
                    "\"b\":\"two.safetensors\"}}");
    assert_int_equal(safetensors_open(&st, f.path, &err), STATUS_OK);
    assert_int_equal(safetensors_find(st, &t, "b", 0, 4, &err), STATUS_OK);
    assert_memory_equal(t.data, numbers + 6, 16);
    assert_int_equal(safetensors_find(st, &t, "a", 2, 3, &err), STATUS_OK);
    safetensors_close(st);
    folder_finish(&f);
}

static void refuses_broken_indexes(void **state) {
    static const struct {
        const char *json;
        enum status status;
        const char *message;
    } cases[] = {
        {"{", STATUS_INVALID, "model.safetensors.index.json: not valid JSON"},
        {"{}", STATUS_INVALID, "weight_map is nothing, expected {tensor name: file name}"},
        {"{\"weight_map\":{}}", STATUS_INVALID, "weight_map is an object, expected"},
        {"{\"weight_map\":[1]}", STATUS_INVALID, "weight_map is an array, expected"},
        {"{\"weight_map\":{\"a\":1}}", STATUS_INVALID, "a is in 1, expected a file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", STATUS_INVALID, "a is in \"\", expected a file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", STATUS_INVALID, "a is in \"..\", expected"},
        {"{\"weight_map\":{\"a\":\"../one.safetensors\"}}", STATUS_INVALID, "expected a file name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", STATUS_INVALID, "expected a file name"},
        {"{\"weight_map\":{\"a\":\"none.safetensors\"}}", STATUS_IO,
         "/none.safetensors: No such file or directory"},
        {"{\"weight_map\":{\"c\":\"one.safetensors\"}}", STATUS_INVALID,
         "c is not in one.safetensors"},
    };
    struct folder f;
    folder_init(&f);
    folder_write_tensors(&f, "one.safetensors", "{" A "}", numbers, 24);
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        write_index(&f, cases[i].json);
        assert_not_opened(&f, cases[i].status, cases[i].message);
    }
    folder_finish(&f);
}

static void assert_finite(const void *data, enum dtype dtype, const char *message) {
    const struct host_tensor t = {data, dtype, 100, 100};
    struct error err = {""};
    const enum status s = host_tensor_check_finite(&t, "w", &err);
    assert_int_equal(s, message ? STATUS_INVALID : STATUS_OK);
    assert_string_equal(err.text, message ? message : "");
}
static void finds_values_that_are_not_finite(void **state) {
    static float x[10000];
    static uint16_t h[10000];
    assert_finite(x, DTYPE_F32, NULL);
    x[0] = 3.4e38f;
    x[9999] = -3.4e38f;
    x[5] = 1e-45f;
    assert_finite(x, DTYPE_F32, NULL);
    x[9999] = NAN;
    assert_finite(x, DTYPE_F32, "tensor w: value 9999 (row 99, column 99) is not a finite number");
    x[4096] = -INFINITY;
    assert_finite(x, DTYPE_F32, "tensor w: value 4096 (row 40, column 96) is not a finite number");
    h[0] = 0x7bff; // the largest half
    h[1] = 0xfbff;
    assert_finite(h, DTYPE_F16, NULL);
    h[7] = 0x7c00;
    assert_finite(h, DTYPE_F16, "tensor w: value 7 (row 0, column 7) is not a finite number");
    h[7] = 0xfe01;
    assert_finite(h, DTYPE_F16, "tensor w: value 7 (row 0, column 7) is not a finite number");
    h[0] = h[1] = 0xff7f; // the largest bfloat16, and one that is NaN as a half only
    h[7] = 0x7f7f;
    assert_finite(h, DTYPE_BF16, NULL);
    h[7] = 0xff80;
    assert_finite(h, DTYPE_BF16, "tensor w: value 7 (row 0, column 7) is not a finite number");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_matrices_and_vectors),
        cmocka_unit_test(says_what_does_not_fit),
        cmocka_unit_test(copies_what_is_not_aligned),
        cmocka_unit_test(checks_headers),
        cmocka_unit_test(refuses_broken_files),
        cmocka_unit_test(opens_shards),
        cmocka_unit_test(refuses_broken_indexes),
        cmocka_unit_test(finds_values_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
