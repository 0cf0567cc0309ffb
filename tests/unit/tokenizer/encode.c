#include "tests/unit/tokenizer/fixture.h"

struct state {
    struct tokenizer *t;
    struct arena arena;
};
static const struct encode_options special = {.add_special_tokens = true};

static int setup(void **state) {
    static struct state s;
    s.t = make("{}");
    *state = &s;
    return arena_init(&s.arena, 64 << 20, NULL) != STATUS_OK;
}
static int teardown(void **state) {
    struct state *s = *state;
    tokenizer_close(s->t);
    arena_finish(&s->arena);
    return 0;
}

static void words_pieces_and_spans(void **state) {
    struct state *s = *state;
    struct encoding e;
    assert_int_equal(encode(s->t, &e, "Hello  WORLDs! unaffable zzz", NULL, special, &s->arena), 0);
    assert_ids(e, CLS, HELLO, WORLD, S, BANG, UN, AFF, ABLE, UNK, SEP);
    assert_span(e, 0, 0, 0);
    assert_span(e, 1, 0, 5);
    assert_span(e, 2, 7, 12);
    assert_span(e, 3, 12, 13);
    assert_span(e, 4, 13, 14);
    assert_span(e, 6, 17, 20);
    assert_span(e, 8, 25, 28);
    assert_int_equal(e.is_special[0] + e.is_special[9], 2);
    assert_int_equal(e.is_special[1], 0);
    assert_int_equal(e.n_tokens_uncut, 10);
}
static void spans_are_bytes_of_the_source(void **state) {
    struct state *s = *state;
    struct encoding e;
    /* A precomposed accent, a combining one, a zero-width joiner, CJK. */
    assert_int_equal(encode(s->t, &e,
                            "CAFÉ cafe\xCC\x81 ca\xE2\x80\x8D"
                            "fe 世世",
                            NULL, special, &s->arena),
                     0);
    assert_ids(e, CLS, CAFE, CAFE, CAFE, SHI, SHI, SEP);
    assert_span(e, 1, 0, 5);
    assert_span(e, 2, 6, 10);
    assert_span(e, 3, 13, 20);
    assert_span(e, 4, 21, 24);
    assert_span(e, 5, 24, 27);
}
static void special_tokens_in_the_text(void **state) {
    struct state *s = *state;
    struct encoding e;
    assert_int_equal(encode(s->t, &e, "hello[MASK]s [mask]", NULL, special, &s->arena), 0);
    assert_ids(e, CLS, HELLO, MASK, UNK, UNK, UNK, UNK, SEP);
    assert_span(e, 2, 5, 11);
    assert_int_equal(e.is_special[2], 0); // the template did not add it
}
static void pair_has_type_ids_and_sequences(void **state) {
    struct state *s = *state;
    struct encoding e;
    const int32_t types[] = {0, 0, 0, 1, 1, 1};
    assert_int_equal(encode(s->t, &e, "hello", "world!", special, &s->arena), 0);
    assert_ids(e, CLS, HELLO, SEP, WORLD, BANG, SEP);
    assert_memory_equal(e.token_type_ids, types, sizeof(types));
    assert_int_equal(e.sequence[1], 0);
    assert_int_equal(e.sequence[3], 1);
    assert_span(e, 3, 0, 5); // each text has its own positions
    assert_int_equal(encode(s->t, &e, "", "", special, &s->arena), 0);
    assert_ids(e, CLS, SEP, SEP);
}
static void cuts_right_and_left(void **state) {
    struct state *s = *state;
    struct encoding e;
    struct encode_options opt = {.max_tokens = 4, .truncate = true, .add_special_tokens = true};
    assert_int_equal(encode(s->t, &e, "hello worlds !", NULL, opt, &s->arena), 0);
    assert_ids(e, CLS, HELLO, WORLD, SEP);
    assert_int_equal(e.n_tokens_uncut, 6);
    opt.side = TRUNCATE_LEFT;
    assert_int_equal(encode(s->t, &e, "hello worlds !", NULL, opt, &s->arena), 0);
    assert_ids(e, CLS, S, BANG, SEP);
    assert_span(e, 1, 11, 12);
    opt.add_special_tokens = false;
    assert_int_equal(encode(s->t, &e, "hello worlds !", NULL, opt, &s->arena), 0);
    assert_ids(e, HELLO, WORLD, S, BANG);
}
static void cuts_a_pair_longest_first(void **state) {
    struct state *s = *state;
    struct encoding e;
    struct encode_options opt = {.max_tokens = 6, .truncate = true, .add_special_tokens = true};
    assert_int_equal(encode(s->t, &e, "hello", "a a a a a", opt, &s->arena), 0);
    assert_ids(e, CLS, HELLO, SEP, A, A, SEP);
    assert_int_equal(encode(s->t, &e, "a a a a a", "hello !!", opt, &s->arena), 0);
    assert_ids(e, CLS, A, A, SEP, HELLO, SEP); // the odd one to the longer
    assert_int_equal(encode(s->t, &e, "a a a", "! ! !", opt, &s->arena), 0);
    assert_ids(e, CLS, A, SEP, BANG, BANG, SEP); // on ties to the second
    assert_int_equal(e.n_tokens_uncut, 9);
    opt.max_tokens = 3;
    assert_int_equal(encode(s->t, &e, "a a a", "! ! !", opt, &s->arena), 0);
    assert_ids(e, CLS, SEP, SEP);
}
static void too_long_is_refused_with_both_counts(void **state) {
    struct state *s = *state;
    struct encoding e;
    struct error err;
    struct encode_options opt = {.max_tokens = 4, .add_special_tokens = true};
    const struct text x = text_of("a a a a a a");
    const size_t used = s->arena.used;
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &opt, &s->arena, &err), STATUS_TOO_LONG);
    assert_int_equal(e.n_tokens_uncut, 8);
    assert_string_equal(err.text, "the text has 8 tokens, at most 4 are allowed");
    opt.truncate = true;
    opt.max_tokens = 1;
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &opt, &s->arena, &err), STATUS_TOO_LONG);
    assert_int_equal(s->arena.used, used); // a refusal leaves nothing behind
}
static void long_words_are_unknown(void **state) {
    struct state *s = *state;
    struct encoding e;
    char word[102];
    memset(word, 'a', 101);
    word[101] = 0;
    assert_int_equal(encode(s->t, &e, word, NULL, special, &s->arena), 0);
    assert_ids(e, CLS, UNK, SEP);
    assert_span(e, 1, 0, 101);
    word[100] = 0;
    assert_int_equal(encode(s->t, &e, word, NULL, special, &s->arena), 0);
    assert_int_equal(e.n_tokens, 102);
}
/* Memory stands for work here: a token is made once, and the arena keeps the encoding alone. */
static void a_megabyte_fits_and_shrinks(void **state) {
    struct state *s = *state;
    static char text[1 << 20];
    struct encoding e;
    const size_t used = s->arena.used;
    const struct text x = {text, sizeof(text)};
    struct encode_options opt = {.want_spans = true};
    memset(text, '!', sizeof(text));
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &opt, &s->arena, NULL), 0);
    assert_int_equal(e.n_tokens, sizeof(text));
    assert_true(s->arena.used - used <= sizeof(text) * 18 + 5 * ARENA_ALIGN);
    assert_true(s->arena.high - used <= sizeof(text) * 40);
    arena_reset(&s->arena);
    memset(text, 'a', sizeof(text));
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &opt, &s->arena, NULL), 0);
    assert_ids(e, UNK);
    assert_true(s->arena.high < 64 * 1024); // one word takes no memory by its length
    arena_reset(&s->arena);
    opt.max_tokens = 8;
    opt.truncate = true;
    memset(text, '!', sizeof(text));
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &opt, &s->arena, NULL), 0);
    assert_int_equal(e.n_tokens_uncut, sizeof(text));
    assert_true(s->arena.high < 64 * 1024); // what is cut off is counted, not kept
}
static void a_full_arena_is_an_error(void **state) {
    struct state *s = *state;
    struct arena small;
    struct encoding e;
    static char text[100000];
    const struct text x = {text, sizeof(text)};
    memset(text, '!', sizeof(text));
    assert_int_equal(arena_init(&small, 128 * 1024, NULL), 0);
    assert_int_equal(tokenizer_encode(s->t, &e, &x, NULL, &special, &small, NULL),
                     STATUS_NO_MEMORY);
    assert_int_equal(small.used, 0);
    assert_int_equal(encode(s->t, &e, "hello", NULL, special, &small), 0); // still usable
    assert_ids(e, CLS, HELLO, SEP);
    arena_finish(&small);
}
static void accessors(void **state) {
    struct state *s = *state;
    assert_int_equal(tokenizer_vocab_size(s->t), N_VOCAB);
    assert_string_equal(tokenizer_token(s->t, ABLE), "##able");
    assert_null(tokenizer_token(s->t, N_VOCAB));
    assert_null(tokenizer_token(s->t, -1));
    assert_int_equal(tokenizer_n_special(s->t, false), 2);
    assert_int_equal(tokenizer_n_special(s->t, true), 3);
    assert_int_equal(tokenizer_pad_id(s->t), PAD);
    assert_int_equal(tokenizer_max_length(s->t), 0);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_pieces_and_spans),
        cmocka_unit_test(spans_are_bytes_of_the_source),
        cmocka_unit_test(special_tokens_in_the_text),
        cmocka_unit_test(pair_has_type_ids_and_sequences),
        cmocka_unit_test(cuts_right_and_left),
        cmocka_unit_test(cuts_a_pair_longest_first),
        cmocka_unit_test(too_long_is_refused_with_both_counts),
        cmocka_unit_test(long_words_are_unknown),
        cmocka_unit_test(a_megabyte_fits_and_shrinks),
        cmocka_unit_test(a_full_arena_is_an_error),
        cmocka_unit_test(accessors),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
