/* Requests begin empty and with an id that can stand in a header, a log line and a JSON string. */
#include "server/request.h"

#include <string.h>

#include "tests/unit/test.h"

static void test_a_good_id_is_kept(void **state) {
    struct request r = {.n_jobs = 0};
    request_set_id(&r, NULL, "trace-1:ab/c");
    assert_string_equal(r.id, "trace-1:ab/c");
    char longest[REQUEST_ID_BYTES];
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    request_set_id(&r, NULL, longest);
    assert_string_equal(r.id, longest);
}
static void test_a_bad_id_is_replaced(void **state) {
    char too_long[REQUEST_ID_BYTES + 1];
    memset(too_long, 'x', sizeof(too_long) - 1);
    too_long[sizeof(too_long) - 1] = '\0';
    const char *const bad[] = {NULL,   "",         "a b",   "a\r\nSet-Cookie: x", "a\"b", "a\\b",
                               "\x7f", "\xc3\xa9", too_long};
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        struct request r = {.n_jobs = 0};
        struct id_source ids = {.n_left = 0};
        request_set_id(&r, &ids, bad[i]);
        assert_int_equal(strlen(r.id), 32);
        assert_int_equal(strspn(r.id, "0123456789abcdef"), 32);
    }
}
static void test_made_ids_differ(void **state) {
    enum { N = 2 * ID_SOURCE_IDS + 1 }; // more than are fetched at a time
    static struct request made[N];
    struct id_source ids = {.n_left = 0};
    for (int i = 0; i < N; i++) {
        request_set_id(&made[i], &ids, NULL);
        assert_int_equal(strspn(made[i].id, "0123456789abcdef"), 32);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(made[i].id, made[k].id);
        }
    }
}
static void test_reset_empties_all_but_the_arena(void **state) {
    struct request r = {.n_jobs = 3, .is_batch = true, .reply = {.http_status = 200}};
    assert_int_equal(arena_init(&r.arena, 1 << 20, NULL), STATUS_OK);
    assert_non_null(arena_alloc(&r.arena, 1000, 1));
    request_set_id(&r, NULL, "x");
    const struct arena before = r.arena;
    request_reset(&r);
    assert_ptr_equal(r.arena.data, before.data);
    assert_int_equal(r.arena.capacity, before.capacity);
    assert_int_equal(r.arena.used, 0);
    assert_int_equal(r.n_jobs, 0);
    assert_int_equal(r.reply.http_status, 0);
    assert_string_equal(r.id, "");
    arena_finish(&r.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_id_is_kept),
        cmocka_unit_test(test_a_bad_id_is_replaced),
        cmocka_unit_test(test_made_ids_differ),
        cmocka_unit_test(test_reset_empties_all_but_the_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
