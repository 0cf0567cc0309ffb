#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/unit/test.h"
#include "tokenizer/trie.h"

static void finds_what_was_put_in(void **state) {
    static const char *const words[] = {"a", "ab", "abc", "b", "\xFF\xFE", "ab"};
    struct trie_entry e[N_ITEMS(words)];
    struct trie t;
    for (size_t i = 0; i < N_ITEMS(words); i++) {
        e[i] = (struct trie_entry){.bytes = words[i], .len = strlen(words[i]), .id = (int32_t)i};
    }
    trie_init(&t, e, N_ITEMS(words));
    assert_int_equal(trie_find(&t, "a", 1), 0);
    assert_int_equal(trie_find(&t, "ab", 2), 5); // the last given counts
    assert_int_equal(trie_find(&t, "abc", 3), 2);
    assert_int_equal(trie_find(&t, "\xFF\xFE", 2), 4);
    assert_int_equal(trie_find(&t, "\xFF", 1), -1); // on the way, no entry
    assert_int_equal(trie_find(&t, "abcd", 4), -1);
    assert_int_equal(trie_find(&t, "", 0), -1);
    assert_int_equal(trie_walk(&t, TRIE_ROOT, "x", 1), TRIE_NONE);
    trie_finish(&t);
}
static void an_empty_one_leads_nowhere(void **state) {
    struct trie t;
    trie_init(&t, NULL, 0);
    for (int c = 0; c < 256; c++) {
        assert_int_equal(trie_step(&t, TRIE_ROOT, (uint8_t)c), TRIE_NONE);
    }
    trie_finish(&t);
    trie_finish(&t);
}
/* Every string over few letters, and nothing else: no slot may be shared by mistake. */
static void dense_sets_do_not_clash(void **state) {
    enum { LETTERS = 5, LEN = 6, N = 15625 };
    char(*words)[LEN] = calloc(N, LEN);
    struct trie_entry *e = calloc(N, sizeof(*e));
    struct trie t;
    assert_true(words && e);
    for (int i = 0; i < N; i++) {
        for (int k = 0, rest = i; k < LEN; k++, rest /= LETTERS) {
            words[i][k] = (char)(rest % LETTERS * 63);
        }
        e[i] = (struct trie_entry){.bytes = words[i], .len = LEN, .id = i};
    }
    trie_init(&t, e, N);
    for (int i = 0; i < N; i++) {
        char other[LEN];
        assert_int_equal(trie_find(&t, words[i], LEN), i);
        memcpy(other, words[i], LEN);
        other[i % LEN] = 1;
        assert_int_equal(trie_find(&t, other, LEN), -1);
    }
    trie_finish(&t);
    free(words);
    free(e);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_put_in),
        cmocka_unit_test(an_empty_one_leads_nowhere),
        cmocka_unit_test(dense_sets_do_not_clash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
