#include "batching/policy.h"
#include "base/timing.h"
#include "tests/unit/batching/lineup.h"

static const struct policy_config buckets_3 = {
    .buckets = {{.up_to = 64, .max_batch_tokens = 256, .max_batch_requests = 16},
                {.up_to = 128, .max_batch_tokens = 256, .max_batch_requests = 8},
                {.up_to = 512, .max_batch_tokens = 256, .max_batch_requests = 4}},
    .n_buckets = 3,
    .n_keys = 1,
    .key_weights = {1},
};
static const struct policy_config bucket_1 = {
    .buckets = {{.up_to = 512, .max_batch_tokens = 256, .max_batch_requests = 16}},
    .n_buckets = 1,
    .n_keys = 1,
    .key_weights = {1},
};

static void config_of(struct policy_config *out, enum batch_mode mode, int wait_ms) {
    *out = mode == BATCH_NONE || mode == BATCH_PADDED ? bucket_1 : buckets_3;
    out->mode = mode;
    for (int i = 0; i < out->n_buckets; i++) {
        out->buckets[i].max_wait_ns = wait_ms * NS_PER_MS;
    }
}

/* Jobs arrive a millisecond apart, from 0 on. */
struct row {
    const char *name;
    enum batch_mode mode;
    int lens[32]; // ended by 0
    int wait_ms, now_ms, n_idle;
    bool draining;
    enum decision_kind kind;
    enum release_reason reason;
    int bucket, n_rows, wake_ms;
    int chosen[32]; // ended by -1
};
#define TWENTY_OF_200                                                                              \
    200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, \
        200
static const struct row rows[] = {
    {"nothing is queued", BATCH_PACKED, {0}, .kind = DECIDE_IDLE, .bucket = -1, .chosen = {-1}},
    {"draining with nothing queued",
     BATCH_PADDED,
     {0},
     .draining = true,
     .kind = DECIDE_IDLE,
     .bucket = -1,
     .chosen = {-1}},
    {"none takes one and never waits",
     BATCH_NONE,
     {10, 20},
     .wait_ms = 50,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 10,
     .chosen = {0, -1}},
    {"packed goes across buckets, idle device",
     BATCH_PACKED,
     {10, 100, 130, 5},
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 245,
     .chosen = {0, 1, 2, 3, -1}},
    {"packed steps over what does not fit",
     BATCH_PACKED,
     {100, 200, 60, 96, 1},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 1,
     .n_rows = 256,
     .chosen = {0, 2, 3, -1}},
    {"packed looks 16 jobs ahead",
     BATCH_PACKED,
     {100, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 60},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 1,
     .n_rows = 160,
     .chosen = {0, 17, -1}},
    {"packed looks no further",
     BATCH_PACKED,
     {100, TWENTY_OF_200, 60},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 1,
     .n_rows = 100,
     .chosen = {0, -1}},
    {"packed keeps to the anchor's cap of requests, not its riders'",
     BATCH_PACKED,
     {300, 2, 2, 2, 2, 2},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 2,
     .n_rows = 300,
     .chosen = {0, -1}},
    {"the anchor's bucket caps the requests",
     BATCH_PACKED,
     {130, 2, 2, 2, 2, 2},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 2,
     .n_rows = 136,
     .chosen = {0, 1, 2, 3, -1}},
    {"a job longer than the cap waits for its turn, then runs alone",
     BATCH_PACKED,
     {10, 300, 20},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 30,
     .chosen = {0, 2, -1}},
    {"a job as long as the cap is a full batch",
     BATCH_PACKED,
     {256, 1},
     .wait_ms = 50,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 2,
     .n_rows = 256,
     .chosen = {0, -1}},
    {"bucketed stays in the anchor's bucket",
     BATCH_BUCKETED,
     {40, 100, 64, 300, 2},
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 192,
     .chosen = {0, 2, 4, -1}},
    {"bucketed pays for the longest",
     BATCH_BUCKETED,
     {20, 20, 20, 20, 64, 20, 20, 20, 20, 20, 20, 20},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 220,
     .chosen = {0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, -1}},
    {"bucketed, longer than the cap: alone",
     BATCH_BUCKETED,
     {300, 200},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 2,
     .n_rows = 300,
     .chosen = {0, -1}},
    {"padded takes what came, to the longest",
     BATCH_PADDED,
     {10, 60, 5},
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 180,
     .chosen = {0, 1, 2, -1}},
    {"padded keeps the order of arrival",
     BATCH_PADDED,
     {10, 60, 100, 5},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 120,
     .chosen = {0, 1, -1}},
    {"padded, longer than the cap: alone",
     BATCH_PADDED,
     {400, 5},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 400,
     .chosen = {0, -1}},
    {"padded stops at its cap of requests",
     BATCH_PADDED,
     {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 32,
     .chosen = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, -1}},
    {"packed waits for company",
     BATCH_PACKED,
     {10, 20},
     .wait_ms = 5,
     .now_ms = 4,
     .kind = DECIDE_WAIT,
     .wake_ms = 5},
    {"bucketed waits for company",
     BATCH_BUCKETED,
     {10, 100},
     .wait_ms = 5,
     .now_ms = 4,
     .kind = DECIDE_WAIT,
     .wake_ms = 5},
    {"the oldest has waited",
     BATCH_PACKED,
     {10, 20},
     .wait_ms = 5,
     .now_ms = 5,
     .kind = DECIDE_RUN,
     .reason = RELEASE_WAITED,
     .n_rows = 30,
     .chosen = {0, 1, -1}},
    {"a full batch does not wait",
     BATCH_PACKED,
     {50, 60, 60, 60, 26},
     .wait_ms = 50,
     .now_ms = 4,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 256,
     .chosen = {0, 1, 2, 3, 4, -1}},
    {"nor one that leaves work behind",
     BATCH_PADDED,
     {10, 200},
     .wait_ms = 50,
     .now_ms = 4,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 10,
     .chosen = {0, -1}},
    {"bucketed does not hold a device from another bucket's full batch",
     BATCH_BUCKETED,
     {10, 200, 200},
     .wait_ms = 50,
     .now_ms = 4,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .n_rows = 10,
     .chosen = {0, -1}},
    {"draining releases what waits",
     BATCH_PACKED,
     {10, 20},
     .wait_ms = 50,
     .now_ms = 4,
     .draining = true,
     .kind = DECIDE_RUN,
     .reason = RELEASE_DRAIN,
     .n_rows = 30,
     .chosen = {0, 1, -1}},
    {"two devices share eight short jobs, packed",
     BATCH_PACKED,
     {10, 10, 10, 10, 10, 10, 10, 10},
     .n_idle = 1,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 40,
     .chosen = {0, 1, 2, 3, -1}},
    {"two devices share eight short jobs, padded",
     BATCH_PADDED,
     {10, 10, 10, 20, 10, 10, 10, 10},
     .n_idle = 1,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 80,
     .chosen = {0, 1, 2, 3, -1}},
    {"two devices share eight short jobs, bucketed",
     BATCH_BUCKETED,
     {10, 10, 10, 10, 10, 10, 10, 10},
     .n_idle = 1,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 40,
     .chosen = {0, 1, 2, 3, -1}},
    {"bucketed: a bucket a device before one is divided",
     BATCH_BUCKETED,
     {10, 10, 10, 10, 100, 100},
     .n_idle = 1,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 40,
     .chosen = {0, 1, 2, 3, -1}},
    {"bucketed: divided when devices are left over",
     BATCH_BUCKETED,
     {10, 10, 10, 10, 100, 100},
     .n_idle = 2,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .n_rows = 20,
     .chosen = {0, 1, -1}},
    {"what fills more than all devices is not divided",
     BATCH_PACKED,
     {256, 256, 256, 256},
     .n_idle = 2,
     .kind = DECIDE_RUN,
     .reason = RELEASE_FULL,
     .bucket = 2,
     .n_rows = 256,
     .chosen = {0, -1}},
    {"one long job is one device's",
     BATCH_PACKED,
     {200, 10},
     .n_idle = 1,
     .kind = DECIDE_RUN,
     .reason = RELEASE_IDLE,
     .bucket = 2,
     .n_rows = 200,
     .chosen = {0, -1}},
    {"idle devices wait for company too",
     BATCH_PACKED,
     {10, 10},
     .n_idle = 1,
     .wait_ms = 5,
     .now_ms = 2,
     .kind = DECIDE_WAIT,
     .wake_ms = 5},
};

static void check_row(const struct row *r) {
    static struct lineup q;
    memset(&q, 0, sizeof(q));
    config_of(&q.cfg, r->mode, r->wait_ms);
    for (int i = 0; r->lens[i]; i++) {
        lineup_push(&q, r->lens[i], i * NS_PER_MS, 0);
    }
    struct job *chosen[MAX_JOBS];
    const struct decision d =
        lineup_decide(&q, r->now_ms * NS_PER_MS, r->n_idle, r->draining, chosen);
    assert_int_equal(d.kind, r->kind);
    assert_int_equal(d.bucket, r->bucket);
    if (d.kind == DECIDE_WAIT) {
        assert_int_equal(d.wake_ns, r->wake_ms * NS_PER_MS);
    }
    if (d.kind != DECIDE_RUN) {
        return;
    }
    assert_int_equal(d.reason, r->reason);
    assert_int_equal(d.n_rows, r->n_rows);
    for (int i = 0; i < d.n_jobs; i++) {
        assert_int_equal(chosen[i]->rank, r->chosen[i]);
    }
    assert_int_equal(r->chosen[d.n_jobs], -1);
}
static void decides_by_the_table(void **state) {
    for (size_t i = 0; i < N_ITEMS(rows); i++) {
        print_message("  %s\n", rows[i].name);
        check_row(&rows[i]);
    }
}

/* The short bucket lets its jobs wait, the long one does not. */
static void nobody_waits_longer_than_his_bucket_allows(void **state) {
    static struct lineup q;
    memset(&q, 0, sizeof(q));
    config_of(&q.cfg, BATCH_BUCKETED, 50);
    q.cfg.buckets[2].max_wait_ns = 10 * NS_PER_MS;
    struct job *chosen[MAX_JOBS];
    lineup_push(&q, 10, 0, 0);
    assert_int_equal(lineup_decide(&q, 0, 0, false, chosen).wake_ns, 50 * NS_PER_MS);
    lineup_push(&q, 200, 20 * NS_PER_MS, 0);
    const struct decision d = lineup_decide(&q, 20 * NS_PER_MS, 0, false, chosen);
    assert_int_equal(d.kind, DECIDE_WAIT);
    assert_int_equal(d.wake_ns, 30 * NS_PER_MS);
    assert_int_equal(lineup_decide(&q, 30 * NS_PER_MS, 0, false, chosen).reason, RELEASE_WAITED);
    q.cfg.buckets[2].max_wait_ns = 0;
    const struct decision now = lineup_decide(&q, 20 * NS_PER_MS, 0, false, chosen);
    assert_int_equal(now.kind, DECIDE_RUN);
    assert_int_equal(now.reason, RELEASE_IDLE);
    assert_int_equal(chosen[0]->rank, 0);
}
static void takes_no_more_than_the_caller_has_room_for(void **state) {
    static struct lineup q;
    memset(&q, 0, sizeof(q));
    config_of(&q.cfg, BATCH_PACKED, 0);
    for (int i = 0; i < 5; i++) {
        lineup_push(&q, 4, 0, 0);
    }
    struct job *chosen[3];
    const struct policy_view view = lineup_view(&q, 0);
    const struct decision d = policy_decide(&q.cfg, &view, 0, false, chosen, 3);
    assert_int_equal(d.n_jobs, 3);
    assert_int_equal(d.reason, RELEASE_FULL);
}
/* Devices ask one after the other, each seeing those behind it idle. */
static void every_idle_device_gets_work(void **state) {
    for (enum batch_mode mode = BATCH_PADDED; mode < N_BATCH_MODES; mode++) {
        for (int n_devices = 1; n_devices <= 8; n_devices++) {
            static struct lineup q;
            memset(&q, 0, sizeof(q));
            config_of(&q.cfg, mode, 0);
            for (int i = 0; i < 8; i++) {
                lineup_push(&q, 12, 0, 0);
            }
            int left = 8;
            for (int i = 0; i < n_devices; i++) {
                struct job *chosen[MAX_JOBS];
                const struct decision d = lineup_decide(&q, 0, n_devices - 1 - i, false, chosen);
                assert_int_equal(d.kind, DECIDE_RUN);
                assert_true(d.n_jobs >= 8 / n_devices &&
                            d.n_jobs <= (8 + n_devices - 1) / n_devices);
                lineup_take(&q, chosen, d.n_jobs);
                left -= d.n_jobs;
            }
            assert_int_equal(left, 0);
        }
    }
}

/* 10 ms a batch, 1 ms a row: by time, not by rows. */
static void a_batch_keeps_to_its_time(void **state) {
    for (enum batch_mode mode = BATCH_PADDED; mode < N_BATCH_MODES; mode++) {
        static struct lineup q;
        memset(&q, 0, sizeof(q));
        config_of(&q.cfg, mode, 0);
        cost_set(&q.cost, (const double[]){10e6, 1e6, 0});
        q.cfg.max_batch_ns = 50 * NS_PER_MS;
        struct job *chosen[MAX_JOBS];
        const int lens[] = {20, 15, 40, 5, 1};
        for (int i = 0; i < 5; i++) {
            lineup_push(&q, lens[i], 0, 0);
        }
        const struct decision d = lineup_decide(&q, 0, 0, false, chosen);
        /* padded: whoever came, however long it takes; bucketed: 2 * 20 rows; packed: 20 + 15 + 5
         */
        const int n_jobs[] = {0, 5, 2, 3};
        assert_int_equal(d.n_jobs, n_jobs[mode]);
        assert_true(mode == BATCH_PADDED || d.cost_ns == 50 * NS_PER_MS);
        assert_int_equal(d.reason, mode == BATCH_PADDED ? RELEASE_IDLE : RELEASE_FULL);
        q.cfg.max_batch_ns = 1; // nothing fits: the first goes alone
        assert_int_equal(lineup_decide(&q, 0, 0, false, chosen).n_jobs,
                         mode == BATCH_PADDED ? 5 : 1);
    }
}
/* A batch costs a, a row b: a job of another bucket rides along while its padding costs less than
 * a batch for its bucket would. */
static void bucketed_mixes_where_padding_is_cheaper_than_a_batch(void **state) {
    static const struct {
        double a;    // in rows
        int lens[6]; // from the anchor on, ended by 0
        int n_jobs;
    } cases[] = {
        {100, {64, 20, 70}, 3},      // 310 rows' time; apart 228 + 170
        {10, {64, 60, 70}, 2},       // 220; apart 138 + 80
        {60, {40, 40, 70}, 2},       // 270; apart 140 + 130: no gain
        {61, {40, 40, 70}, 3},       // 271; apart 141 + 131
        {1000, {64, 100, 200}, 2},   // 600 is more than the cap of 256 rows, 200 is not
        {1000, {64, 50, 70, 70}, 3}, // four of 70 rows are not, three are
        {30, {10, 70, 70}, 1},       // each would push the other up
        {0, {64, 65}, 1},            // nothing to save
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        static struct lineup q;
        memset(&q, 0, sizeof(q));
        config_of(&q.cfg, BATCH_BUCKETED, 0);
        cost_set(&q.cost, (const double[]){cases[i].a * 1e4, 1e4, 0});
        for (int k = 0; cases[i].lens[k]; k++) {
            lineup_push(&q, cases[i].lens[k], 0, 0);
        }
        struct job *chosen[MAX_JOBS];
        const struct decision d = lineup_decide(&q, 0, 0, false, chosen);
        print_message("  case %d\n", (int)i);
        if (d.n_jobs != cases[i].n_jobs) {
            fail_msg("case %d: %d jobs, %d rows", (int)i, d.n_jobs, d.n_rows);
        }
        assert_ptr_equal(chosen[0], &q.jobs[0]);
        assert_int_equal(d.bucket, 0);
        const struct decision shared = lineup_decide(&q, 0, 5, false, chosen);
        for (int k = 0; k < shared.n_jobs; k++) { // other devices are free for other buckets
            assert_int_equal(chosen[k]->bucket, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_by_the_table),
        cmocka_unit_test(nobody_waits_longer_than_his_bucket_allows),
        cmocka_unit_test(takes_no_more_than_the_caller_has_room_for),
        cmocka_unit_test(every_idle_device_gets_work),
        cmocka_unit_test(a_batch_keeps_to_its_time),
        cmocka_unit_test(bucketed_mixes_where_padding_is_cheaper_than_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
