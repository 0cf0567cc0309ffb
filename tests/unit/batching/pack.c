#include "batching/pack.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAD = 7, N_OUTPUTS = 2 };
static const int32_t ids[] = {101, 11, 12, 13, 102, 101, 21, 102, 101, 102};
static const int32_t types[] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0};
static int n_done;

static void count_done(struct job *job) {
    n_done++;
    job->done_ns += 1000; // the job is its owner's from here on
}
static void three_jobs(struct job *jobs, struct batch *b) { // of 5, 3 and 2 tokens
    const int starts[] = {0, 5, 8, 10};
    static float logits[3][N_OUTPUTS];
    memset(logits, 0, sizeof(logits));
    for (int i = 0; i < 3; i++) {
        jobs[i] = (struct job){
            .token_ids = ids + starts[i],
            .token_type_ids = types + starts[i],
            .n_tokens = starts[i + 1] - starts[i],
            .logits = logits[i],
            .done = count_done,
            .owner = jobs,
        };
        b->jobs[i] = &jobs[i];
    }
}
static void make_batch(struct batch *b, int max_jobs, int max_rows) {
    const struct batch_limits limits = {.max_jobs = max_jobs, .max_rows = max_rows};
    assert_int_equal(batch_init(b, limits, NULL), STATUS_OK);
}
static void check_ints(const int32_t *got, const int32_t *want, int n) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(got[i], want[i]);
    }
}

static void packed_rows_are_the_tokens(void **state) {
    struct batch b;
    struct job jobs[3];
    make_batch(&b, 3, 10);
    three_jobs(jobs, &b);
    batch_pack(&b, 3, BATCH_PACKED, PAD);
    assert_int_equal(b.tokens.n_seqs, 3);
    assert_int_equal(b.tokens.n_rows, 10);
    assert_int_equal(b.tokens.max_seq_len, 5);
    check_ints(b.tokens.token_ids, ids, 10);
    check_ints(b.tokens.token_type_ids, types, 10);
    check_ints(b.tokens.cu_seqlens, (const int32_t[]){0, 5, 8, 10}, 4);
    check_ints(b.tokens.seq_lens, (const int32_t[]){5, 3, 2}, 3);
    assert_int_equal(b.ride.n_rows, 10);
    assert_int_equal(b.ride.mode, BATCH_PACKED);
    batch_finish(&b);
}
static void padded_rows_go_to_the_longest(void **state) {
    static const int32_t want_ids[] = {101, 11,  12,  13,  102, 101, 21, 102,
                                       PAD, PAD, 101, 102, PAD, PAD, PAD};
    static const int32_t want_types[] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
    for (enum batch_mode mode = BATCH_PADDED; mode <= BATCH_BUCKETED; mode++) {
        struct batch b;
        struct job jobs[3];
        make_batch(&b, 4, 15);
        three_jobs(jobs, &b);
        batch_pack(&b, 3, mode, PAD);
        assert_int_equal(b.tokens.n_rows, 15);
        assert_int_equal(b.tokens.max_seq_len, 5);
        check_ints(b.tokens.token_ids, want_ids, 15);
        check_ints(b.tokens.token_type_ids, want_types, 15);
        check_ints(b.tokens.cu_seqlens, (const int32_t[]){0, 5, 10, 15}, 4);
        check_ints(b.tokens.seq_lens, (const int32_t[]){5, 3, 2}, 3);
        assert_int_equal(b.ride.n_tokens, 10);
        assert_int_equal(b.ride.n_rows, 15);
        assert_int_equal(b.ride.longest, 5);
        batch_finish(&b);
    }
}
static void a_batch_is_filled_again_and_again(void **state) {
    struct batch b;
    struct job jobs[3];
    make_batch(&b, 3, 15);
    three_jobs(jobs, &b);
    batch_pack(&b, 3, BATCH_PADDED, PAD);
    for (int i = 0; i < 100; i++) {
        batch_pack(&b, 3, i % 2 ? BATCH_PADDED : BATCH_PACKED, PAD);
        assert_int_equal(b.tokens.n_rows, i % 2 ? 15 : 10);
        batch_pack(&b, 1, BATCH_NONE, PAD);
        assert_int_equal(b.tokens.n_seqs, 1);
        assert_int_equal(b.tokens.n_rows, 5);
        check_ints(b.tokens.cu_seqlens, (const int32_t[]){0, 5}, 2);
    }
    batch_finish(&b);
}
/* Jobs of one request need not be neighbours; a job without an owner counts as one more. */
static void requests_are_counted_once(void **state) {
    enum { N = 300 };
    static struct job jobs[N];
    static char owners[N * N]; // told apart by uneven steps, so that places in the set collide
    struct batch b;
    make_batch(&b, N, N);
    for (int n_owners = 1; n_owners < N; n_owners += 23) {
        for (int i = 0; i < N; i++) {
            jobs[i] = (struct job){
                .token_ids = ids,
                .token_type_ids = types,
                .n_tokens = 1,
                .owner = &owners[(i % n_owners) * (i % n_owners)],
            };
            b.jobs[i] = &jobs[i];
        }
        batch_pack(&b, N, BATCH_PACKED, PAD);
        assert_int_equal(b.ride.n_requests, n_owners);
        assert_int_equal(b.ride.n_jobs, N);
        jobs[0].owner = jobs[n_owners].owner = NULL;
        batch_pack(&b, n_owners + 1, BATCH_PACKED, PAD);
        assert_int_equal(b.ride.n_requests, n_owners);
    }
    batch_finish(&b);
}

static void results_reach_their_jobs(void **state) {
    static const float logits[3][N_OUTPUTS] = {{1, 2}, {3, 4}, {5, 6}};
    struct batch b;
    struct job jobs[3];
    make_batch(&b, 3, 15);
    three_jobs(jobs, &b);
    batch_pack(&b, 3, BATCH_PADDED, PAD);
    b.ride.batch_id = 42;
    b.ride.op_ns[1] = 17;
    assert_int_equal(batch_settle(&b, STATUS_OK, &logits[0][0], N_OUTPUTS, 100, 200), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].status, STATUS_OK);
        assert_int_equal(jobs[i].infer_ns, 100);
        assert_int_equal(jobs[i].done_ns, 200);
        assert_int_equal(jobs[i].ride.batch_id, 42);
        assert_int_equal(jobs[i].ride.op_ns[1], 17);
        assert_int_equal(jobs[i].ride.n_jobs, 3);
        assert_int_equal(jobs[i].ride.n_requests, 1);
        assert_memory_equal(jobs[i].logits, logits[i], sizeof(logits[i]));
    }
    n_done = 0;
    batch_complete(&b);
    assert_int_equal(n_done, 3);
    assert_int_equal(b.n_jobs, 0);
    assert_int_equal(jobs[2].done_ns, 1200);
    batch_finish(&b);
}
static void a_bad_logit_is_its_own_jobs(void **state) {
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        const float logits[3][N_OUTPUTS] = {{1, 2}, {3, bad[i]}, {5, 6}};
        struct batch b;
        struct job jobs[3];
        make_batch(&b, 3, 10);
        three_jobs(jobs, &b);
        batch_pack(&b, 3, BATCH_PACKED, PAD);
        assert_int_equal(batch_settle(&b, STATUS_OK, &logits[0][0], N_OUTPUTS, 1, 2), 2);
        assert_int_equal(jobs[0].status, STATUS_OK);
        assert_int_equal(jobs[1].status, STATUS_RESULT);
        assert_int_equal(jobs[2].status, STATUS_OK);
        assert_true(jobs[1].logits[0] == 0 && jobs[1].logits[1] == 0);
        assert_true(jobs[2].logits[1] == 6);
        batch_finish(&b);
    }
}
static void a_failed_pass_fails_all(void **state) {
    struct batch b;
    struct job jobs[3];
    make_batch(&b, 3, 10);
    three_jobs(jobs, &b);
    batch_pack(&b, 3, BATCH_PACKED, PAD);
    assert_int_equal(batch_settle(&b, STATUS_BACKEND, NULL, N_OUTPUTS, 1, 2), 0);
    n_done = 0;
    batch_complete(&b);
    assert_int_equal(n_done, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs[i].status, STATUS_BACKEND);
        assert_true(jobs[i].logits[0] == 0);
    }
    batch_finish(&b);
}
static void finish_takes_a_zeroed_batch(void **state) {
    struct batch b = {.n_jobs = 0};
    batch_finish(&b);
    assert_null(b.jobs);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_rows_are_the_tokens),
        cmocka_unit_test(padded_rows_go_to_the_longest),
        cmocka_unit_test(a_batch_is_filled_again_and_again),
        cmocka_unit_test(requests_are_counted_once),
        cmocka_unit_test(results_reach_their_jobs),
        cmocka_unit_test(a_bad_logit_is_its_own_jobs),
        cmocka_unit_test(a_failed_pass_fails_all),
        cmocka_unit_test(finish_takes_a_zeroed_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
