#include "base/arena.h"
#include "tests/unit/test.h"
#include <string.h>

static void gives_aligned_disjoint_pieces(void **state) {
    struct arena a;
    assert_int_equal(arena_init(&a, 1 << 20, NULL), STATUS_OK);
    char *first = arena_alloc(&a, 3, 7), *second = arena_alloc(&a, 1, 1);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % ARENA_ALIGN, 0);
    assert_int_equal((uintptr_t)second % ARENA_ALIGN, 0);
    assert_true(second >= first + 21);
    memset(first, 1, 21);
    *second = 2;
    assert_int_equal(first[20], 1);
    arena_finish(&a);
}
static void refuses_what_does_not_fit(void **state) {
    struct arena a;
    assert_int_equal(arena_init(&a, 8192, NULL), STATUS_OK);
    assert_null(arena_alloc(&a, SIZE_MAX, 2));
    assert_null(arena_alloc(&a, SIZE_MAX / 2, 4));
    assert_null(arena_alloc(&a, 8193, 1));
    assert_non_null(arena_alloc(&a, 8192, 1));
    assert_null(arena_alloc(&a, 1, 1));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 8192, 1));
    arena_finish(&a);
}
static void refuses_an_impossible_capacity(void **state) {
    struct arena a;
    struct error err;
    assert_int_equal(arena_init(&a, SIZE_MAX, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_init(&a, SIZE_MAX / 4, &err), STATUS_NO_MEMORY);
    arena_finish(&a);
}
static void resizes_the_last_piece_in_place(void **state) {
    struct arena a;
    assert_int_equal(arena_init(&a, 8192, NULL), STATUS_OK);
    char *p = arena_alloc(&a, 100, 1);
    memset(p, 7, 100);
    assert_ptr_equal(arena_resize_last(&a, p, 5000, 1), p);
    assert_int_equal(p[99], 7);
    assert_null(arena_resize_last(&a, p, 8193, 1));
    p[4999] = 1; // still ours
    assert_ptr_equal(arena_resize_last(&a, p, 64, 1), p);
    assert_ptr_equal(arena_alloc(&a, 1, 1), p + 64);
    arena_finish(&a);
}
static void gives_pages_back(void **state) {
    struct arena a;
    assert_int_equal(arena_init(&a, 1 << 22, NULL), STATUS_OK);
    unsigned char *p = arena_alloc(&a, 1 << 22, 1);
    memset(p, 9, 1 << 22);
    arena_reset(&a);
    p = arena_alloc(&a, 1 << 22, 1);
    assert_int_equal(p[0], 9);                // kept
    assert_int_equal(p[ARENA_KEEP_BYTES], 0); // given back
    assert_int_equal(p[(1 << 22) - 1], 0);
    arena_finish(&a);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_aligned_disjoint_pieces),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_an_impossible_capacity),
        cmocka_unit_test(resizes_the_last_piece_in_place),
        cmocka_unit_test(gives_pages_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
