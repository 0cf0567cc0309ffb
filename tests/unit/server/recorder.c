/* recorder.c - exact counts, the rate, and the trace file with its limits. */
#include "server/recorder.h"
#include "tests/unit/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timing.h"

enum { RING = 1 << 14, N_THREADS = 4, PER_THREAD = 2000 };

struct folder {
    char dir[40], path[64], old[64];
};
static void make_folder(struct folder *f) {
    snprintf(f->dir, sizeof(f->dir), "/tmp/berth-recorder-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/trace.csv", f->dir);
    snprintf(f->old, sizeof(f->old), "%s/trace.csv.old", f->dir);
}
static void remove_folder(const struct folder *f) {
    unlink(f->path);
    unlink(f->old);
    assert_int_equal(rmdir(f->dir), 0);
}
static struct recorder *start(const char *path, int64_t max_bytes) {
    const struct recorder_config cfg = {path, max_bytes};
    struct recorder *r = NULL;
    struct error err = {.text = ""};
    assert_int_equal(recorder_start(&r, &cfg, 0, &err), STATUS_OK);
    return r;
}
static void note(struct recorder *r, int n_tokens, int64_t now_ns) {
    const struct job job = {.n_tokens = n_tokens, .priority = PRIORITY_HIGH, .key = 3};
    recorder_note(r, &job, 1, now_ns);
}

static void test_counts(void **state) {
    struct recorder *r = start("", 0);
    struct recorder_stats stats;
    static struct lengths lengths;
    (void)state;
    recorder_note(NULL, NULL, 0, 0);
    for (int i = 0; i < 90; i++) {
        note(r, 7 + i % 2, i * NS_PER_S / 3); // three a second, half a minute
    }
    note(r, TRACE_MAX_TOKENS + 5, 30 * NS_PER_S);
    recorder_get(r, &stats, &lengths, 30 * NS_PER_S + 1);
    assert_int_equal(stats.since_ns, 30 * NS_PER_S + 1);
    assert_int_equal(stats.n_jobs, 91);
    assert_int_equal(stats.n_tokens, 45 * 7 + 45 * 8 + TRACE_MAX_TOKENS + 5);
    assert_int_equal(lengths.count[7], 45);
    assert_int_equal(lengths.count[8], 45);
    assert_int_equal(lengths.count[TRACE_MAX_TOKENS], 1);
    assert_true(stats.per_second == 3); // of whole seconds
    assert_int_equal(stats.n_written + stats.n_dropped, 0);
    recorder_get(r, &stats, NULL, 60 * NS_PER_S);
    assert_true(stats.per_second > 1.5 && stats.per_second < 1.6);
    recorder_get(r, &stats, NULL, 1000 * NS_PER_S); // long silent
    assert_true(stats.per_second == 0);
    note(r, 5, 1000 * NS_PER_S); // takes an old second's place
    recorder_get(r, &stats, NULL, 1001 * NS_PER_S);
    assert_true(stats.per_second > 0.016 && stats.per_second < 0.017);
    recorder_stop(r);
    recorder_stop(NULL);
}
static void test_trace_reads_back(void **state) {
    struct folder f;
    struct trace t = {.n = 0};
    struct error err = {.text = ""};
    struct stat st;
    (void)state;
    make_folder(&f);
    struct recorder *r = start(f.path, 1 << 20);
    note(r, 12, 5 * NS_PER_S); // the trace's zero
    note(r, 30, 5 * NS_PER_S + 1500000);
    note(r, 31, 5 * NS_PER_S + 1000000); // came late to the lock: times never fall
    recorder_stop(r);
    assert_int_equal(stat(f.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(trace_read(&t, f.path, &err), STATUS_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.arrivals[0].at_ns, 0);
    assert_int_equal(t.arrivals[1].at_ns, 1500000);
    assert_int_equal(t.arrivals[2].at_ns, 1500000);
    assert_int_equal(t.arrivals[2].n_tokens, 31);
    assert_int_equal(t.arrivals[1].priority, PRIORITY_HIGH);
    assert_int_equal(t.arrivals[1].key, 3);
    trace_finish(&t);
    r = start(f.path, 1 << 20); // what was there is kept
    recorder_stop(r);
    assert_int_equal(trace_read(&t, f.old, &err), STATUS_OK);
    assert_int_equal(t.n, 3);
    trace_finish(&t);
    assert_int_equal(trace_read(&t, f.path, &err), STATUS_OK);
    assert_int_equal(t.n, 0);
    trace_finish(&t);
    remove_folder(&f);
}
static void test_file_stays_small(void **state) {
    struct folder f;
    struct trace t = {.n = 0};
    struct error err = {.text = ""};
    struct recorder_stats stats;
    struct stat st;
    (void)state;
    make_folder(&f);
    struct recorder *r = start(f.path, 4096);
    for (int i = 0; i < 1000; i++) {
        note(r, 100, i * NS_PER_MS);
    }
    recorder_stop(r);
    assert_int_equal(stat(f.path, &st), 0);
    assert_in_range(st.st_size, 3900, 4096);
    assert_int_equal(trace_read(&t, f.path, &err), STATUS_OK); // whole lines
    const int n_written = t.n;
    trace_finish(&t);
    r = start(f.path, 4096);
    for (int i = 0; i < 1000; i++) {
        note(r, 100, i * NS_PER_MS);
    }
    do {
        usleep(10000);
        recorder_get(r, &stats, NULL, 0);
    } while (stats.n_written + stats.n_dropped < 1000);
    assert_int_equal(stats.n_written, n_written);
    assert_int_equal(stats.n_jobs, 1000); // counted all the same
    note(r, 100, NS_PER_S);
    recorder_get(r, &stats, NULL, 0);
    assert_int_equal(stats.n_written, n_written);
    assert_int_equal(stats.n_dropped, 1001 - n_written);
    recorder_stop(r);
    remove_folder(&f);
}
static void test_full_ring_drops(void **state) {
    static struct job jobs[RING + 100];
    struct folder f;
    struct recorder_stats stats;
    struct trace t = {.n = 0};
    (void)state;
    make_folder(&f);
    for (int i = 0; i < RING + 100; i++) {
        jobs[i].n_tokens = 9;
    }
    struct recorder *r = start(f.path, 1 << 30);
    recorder_note(r, jobs, RING + 100, 0); // at once: the writer cannot come between
    recorder_get(r, &stats, NULL, 0);
    assert_int_equal(stats.n_dropped, 100);
    assert_int_equal(stats.n_jobs, RING + 100);
    recorder_stop(r);
    assert_int_equal(trace_read(&t, f.path, NULL), STATUS_OK);
    assert_int_equal(t.n, RING);
    trace_finish(&t);
    remove_folder(&f);
}
static void *note_many(void *arg) {
    for (int i = 0; i < PER_THREAD; i++) {
        note(arg, 1 + i % 50, time_now_ns());
    }
    return NULL;
}
static void test_threads(void **state) {
    struct folder f;
    pthread_t threads[N_THREADS];
    struct recorder_stats stats;
    struct trace t = {.n = 0};
    struct error err = {.text = ""};
    (void)state;
    make_folder(&f);
    struct recorder *r = start(f.path, 1 << 30);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, note_many, r), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    recorder_get(r, &stats, NULL, time_now_ns());
    assert_int_equal(stats.n_jobs, N_THREADS * PER_THREAD);
    assert_int_equal(stats.n_dropped, 0); // fewer than the ring holds
    recorder_stop(r);
    assert_int_equal(trace_read(&t, f.path, &err), STATUS_OK); // refuses times that fall
    assert_int_equal(t.n, N_THREADS * PER_THREAD);
    trace_finish(&t);
    remove_folder(&f);
}
static void test_refused(void **state) {
    struct recorder *r = NULL;
    struct error err = {.text = ""};
    const struct recorder_config device = {"/dev/null", 4096}, nowhere = {"/no/such/dir/x", 4096};
    (void)state;
    assert_int_equal(recorder_start(&r, &device, 0, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "/dev/null is there and no regular file"));
    assert_int_equal(recorder_start(&r, &nowhere, 0, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "batching.record: /no/such/dir/x"));
    assert_null(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),           cmocka_unit_test(test_trace_reads_back),
        cmocka_unit_test(test_file_stays_small), cmocka_unit_test(test_full_ring_drops),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_refused),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
