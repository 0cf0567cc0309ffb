/* The watch: hang-ups of socket pairs, half-closes, deadlines in order, and removal that is final.
 */
#include "server/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"
#include "tests/unit/test.h"

enum { N_EVENTS = 4, PATIENCE_MS = 5000 };
struct seen {
    struct watch_entry entry;
    atomic_int n[N_EVENTS];
    atomic_int order; // of the last event among all things seen
    atomic_int *clock;
};
static void on_event(void *arg, enum watch_event event) {
    struct seen *s = arg;
    atomic_fetch_add(&s->n[event], 1);
    if (s->clock) {
        atomic_store(&s->order, atomic_fetch_add(s->clock, 1) + 1);
    }
}
static void sleep_ms(int ms) {
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * NS_PER_MS};
    nanosleep(&t, NULL);
}
static bool happens(struct seen *s, enum watch_event event) {
    for (int i = 0; i < PATIENCE_MS && !atomic_load(&s->n[event]); i++) {
        sleep_ms(1);
    }
    return atomic_load(&s->n[event]);
}
static struct watch *start(int max_entries) {
    struct watch *w = NULL;
    assert_int_equal(watch_start(&w, max_entries, NULL), STATUS_OK);
    return w;
}
/* fds[0] is watched, fds[1] is the peer's end. */
static void make_pair(int fds[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
}

static void test_hang_up(void **state) {
    struct watch *w = start(4);
    struct seen s = {.clock = NULL};
    int fds[2];
    make_pair(fds);
    watch_add(w, &s.entry, fds[0], 0, on_event, &s);
    sleep_ms(20);
    assert_int_equal(atomic_load(&s.n[WATCH_HANG_UP]) + atomic_load(&s.n[WATCH_HALF_CLOSE]), 0);
    close(fds[1]);
    assert_true(happens(&s, WATCH_HANG_UP));
    watch_remove(w, &s.entry);
    assert_false(s.entry.active);
    close(fds[0]);
    watch_stop(w);
}
/* Whoever comes first tells it, and once. */
static void test_a_look_tells_hang_ups(void **state) {
    struct watch *w = start(4);
    struct seen s = {.clock = NULL};
    int fds[2];
    make_pair(fds);
    watch_add(w, &s.entry, fds[0], 0, on_event, &s);
    watch_look(w);
    assert_int_equal(atomic_load(&s.n[WATCH_HANG_UP]), 0);
    close(fds[1]);
    for (int i = 0; i < PATIENCE_MS && !atomic_load(&s.n[WATCH_HANG_UP]); i++) {
        watch_look(w);
    }
    sleep_ms(20);
    watch_look(w);
    assert_int_equal(atomic_load(&s.n[WATCH_HANG_UP]), 1);
    watch_remove(w, &s.entry);
    close(fds[0]);
    watch_stop(w);
}
static void test_hang_up_before_the_watch_began(void **state) {
    struct watch *w = start(4);
    struct seen s = {.clock = NULL};
    int fds[2];
    make_pair(fds);
    close(fds[1]);
    watch_add(w, &s.entry, fds[0], 0, on_event, &s);
    assert_true(happens(&s, WATCH_HANG_UP));
    watch_remove(w, &s.entry);
    close(fds[0]);
    watch_stop(w);
}
static void test_half_close_then_hang_up(void **state) {
    struct watch *w = start(4);
    struct seen s = {.clock = NULL};
    int fds[2];
    make_pair(fds);
    watch_add(w, &s.entry, fds[0], 0, on_event, &s);
    shutdown(fds[1], SHUT_WR);
    assert_true(happens(&s, WATCH_HALF_CLOSE));
    assert_int_equal(atomic_load(&s.n[WATCH_HANG_UP]), 0);
    close(fds[1]);
    assert_true(happens(&s, WATCH_HANG_UP));
    watch_remove(w, &s.entry);
    close(fds[0]);
    watch_stop(w);
}
/* A socket that is watched only now and then: what comes in between is told with the next add. */
static void test_a_pause_loses_nothing(void **state) {
    struct watch *w = start(4);
    struct seen first = {.clock = NULL}, second = {.clock = NULL}, third = {.clock = NULL};
    struct watch_entry e = {.active = false};
    int fds[2];
    make_pair(fds);
    watch_add(w, &e, fds[0], 0, on_event, &first);
    watch_pause(w, &e);
    shutdown(fds[1], SHUT_WR);
    sleep_ms(20);
    watch_add(w, &e, -1, time_now_ns() + 3600 * NS_PER_S, on_event, &first); // not the socket
    sleep_ms(20);
    assert_int_equal(atomic_load(&first.n[WATCH_HALF_CLOSE]), 0);
    watch_add(w, &e, fds[0], 0, on_event, &second);
    assert_true(happens(&second, WATCH_HALF_CLOSE));
    watch_pause(w, &e);
    watch_add(w, &e, fds[0], 0, on_event, &third); // and who comes next is told it too
    assert_true(happens(&third, WATCH_HALF_CLOSE));
    watch_remove(w, &e);
    assert_int_equal(atomic_load(&second.n[WATCH_HALF_CLOSE]), 1);
    close(fds[0]), close(fds[1]);
    watch_stop(w);
}
/* One entry, one number, another socket: a connection that takes over a closed one's place. */
static void test_an_entry_for_another_socket(void **state) {
    struct watch *w = start(1);
    struct seen s = {.clock = NULL};
    int old[2], new[2];
    make_pair(old), make_pair(new);
    watch_add(w, &s.entry, old[0], 0, on_event, &s);
    watch_add(w, &s.entry, new[0], 0, on_event, &s);
    close(old[1]);
    sleep_ms(20);
    assert_int_equal(atomic_load(&s.n[WATCH_HANG_UP]) + atomic_load(&s.n[WATCH_HALF_CLOSE]), 0);
    close(new[1]);
    assert_true(happens(&s, WATCH_HANG_UP));
    watch_remove(w, &s.entry);
    close(old[0]), close(new[0]);
    watch_stop(w);
}
static void test_bytes_are_no_event(void **state) {
    struct watch *w = start(4);
    struct seen s = {.clock = NULL};
    int fds[2];
    make_pair(fds);
    watch_add(w, &s.entry, fds[0], 0, on_event, &s);
    assert_int_equal(write(fds[1], "next request", 12), 12);
    sleep_ms(20);
    for (int i = 0; i < N_EVENTS; i++) {
        assert_int_equal(atomic_load(&s.n[i]), 0);
    }
    watch_remove(w, &s.entry);
    close(fds[0]), close(fds[1]);
    watch_stop(w);
}

enum { N_DEADLINES = 100 };
static void test_deadlines_come_in_order_and_once(void **state) {
    struct watch *w = start(N_DEADLINES);
    static struct seen seen[N_DEADLINES];
    atomic_int clock = 0;
    const int64_t now = time_now_ns();
    for (int i = 0; i < N_DEADLINES; i++) {
        const int place = i * 37 % N_DEADLINES; // 37 and 100 are coprime: a shuffled order
        seen[place].clock = &clock;
        watch_add(w, &seen[place].entry, -1, now + (20 + place) * NS_PER_MS, on_event,
                  &seen[place]);
    }
    for (int i = 0; i < N_DEADLINES; i += 2) { // from all over the heap
        watch_remove(w, &seen[i].entry);
    }
    assert_true(happens(&seen[N_DEADLINES - 1], WATCH_DEADLINE));
    assert_true(time_now_ns() - now >= (20 + N_DEADLINES - 1) * NS_PER_MS);
    sleep_ms(20);
    for (int i = 0; i < N_DEADLINES; i++) {
        assert_int_equal(atomic_load(&seen[i].n[WATCH_DEADLINE]), i % 2);
        assert_int_equal(atomic_load(&seen[i].order), i % 2 ? (i + 1) / 2 : 0);
        watch_remove(w, &seen[i].entry);
    }
    watch_stop(w);
}
static void test_an_earlier_deadline_wakes_the_thread(void **state) {
    struct watch *w = start(4);
    struct seen late = {.clock = NULL}, soon = {.clock = NULL};
    const int64_t now = time_now_ns();
    watch_add(w, &late.entry, -1, now + 3600 * NS_PER_S, on_event, &late);
    sleep_ms(20); // the thread sleeps for an hour
    watch_add(w, &soon.entry, -1, now + 30 * NS_PER_MS, on_event, &soon);
    assert_true(happens(&soon, WATCH_DEADLINE));
    assert_int_equal(atomic_load(&late.n[WATCH_DEADLINE]), 0);
    watch_stop(w);
}
/* Later, and from there earlier again, which is still later than at first. */
static void test_a_moved_deadline_counts_alone(void **state) {
    struct watch *w = start(1);
    struct seen s = {.clock = NULL};
    const int64_t now = time_now_ns();
    watch_add(w, &s.entry, -1, now + 20 * NS_PER_MS, on_event, &s);
    watch_add(w, &s.entry, -1, now + 3600 * NS_PER_S, on_event, &s);
    sleep_ms(60); // the watch has looked and found the later one
    assert_int_equal(atomic_load(&s.n[WATCH_DEADLINE]), 0);
    const int64_t last = time_now_ns() + 30 * NS_PER_MS;
    watch_add(w, &s.entry, -1, last, on_event, &s);
    assert_true(happens(&s, WATCH_DEADLINE));
    assert_true(time_now_ns() >= last);
    sleep_ms(20);
    assert_int_equal(atomic_load(&s.n[WATCH_DEADLINE]), 1);
    watch_stop(w);
}
/* To and fro around the moments at which the watch looks: whatever it has seen, the last holds. */
static void test_a_deadline_moved_while_it_is_looked_at(void **state) {
    struct watch *w = start(1);
    for (int i = 0; i < 200; i++) {
        struct seen s = {.clock = NULL};
        const int64_t begin = time_now_ns(), far = begin + 3600 * NS_PER_S;
        watch_add(w, &s.entry, -1, begin + 20000, on_event, &s);
        for (int64_t now = begin; now < begin + NS_PER_MS; now = time_now_ns()) {
            watch_add(w, &s.entry, -1, far, on_event, &s);
            watch_add(w, &s.entry, -1, now + 100000, on_event, &s);
        }
        watch_add(w, &s.entry, -1, far, on_event, &s);
        const int early = atomic_load(&s.n[WATCH_DEADLINE]); // this thread may have been stopped
        watch_add(w, &s.entry, -1, time_now_ns() + NS_PER_MS, on_event, &s);
        for (int k = 0; k < PATIENCE_MS && atomic_load(&s.n[WATCH_DEADLINE]) == early; k++) {
            sleep_ms(1);
        }
        assert_true(atomic_load(&s.n[WATCH_DEADLINE]) > early);
        watch_remove(w, &s.entry);
    }
    watch_stop(w);
}
static void test_adding_again_replaces(void **state) {
    struct watch *w = start(1); // and takes no second place
    struct seen first = {.clock = NULL}, second = {.clock = NULL};
    struct watch_entry e = {.active = false};
    int fds[2];
    make_pair(fds);
    watch_add(w, &e, fds[0], time_now_ns() + 50 * NS_PER_MS, on_event, &first);
    watch_add(w, &e, fds[0], time_now_ns() + 3600 * NS_PER_S, on_event, &second);
    sleep_ms(80);
    close(fds[1]);
    assert_true(happens(&second, WATCH_HANG_UP));
    for (int i = 0; i < N_EVENTS; i++) {
        assert_int_equal(atomic_load(&first.n[i]), 0);
    }
    watch_stop(w);
    close(fds[0]);
}
static void test_all_are_told_to_stop(void **state) {
    struct watch *w = start(8);
    struct seen seen[8] = {{.clock = NULL}};
    for (int i = 0; i < 8; i++) {
        watch_add(w, &seen[i].entry, -1, i % 2 ? time_now_ns() + 3600 * NS_PER_S : 0, on_event,
                  &seen[i]);
    }
    watch_remove(w, &seen[3].entry);
    watch_tell_all(w);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(atomic_load(&seen[i].n[WATCH_STOP]), i != 3);
    }
    watch_stop(w);
}

/* Threads add, hang up, and remove as fast as they can. Once watch_remove() has returned the thing
 * is free memory, so that a late callback is a use after free (ASan) or a race (TSan), and a wrong
 * count here. */
enum { N_THREADS = 3, N_ROUNDS = 2000 };
static void *race_main(void *arg) {
    struct watch *w = arg;
    for (int i = 0; i < N_ROUNDS; i++) {
        struct seen *s = calloc(1, sizeof(*s));
        int fds[2];
        make_pair(fds);
        watch_add(w, &s->entry, fds[0], time_now_ns() + i % 3 * 10000, on_event, s);
        if (i % 2) {
            close(fds[1]);
        }
        if (i % 5 == 0) {
            watch_add(w, &s->entry, fds[0], 0, on_event, s);
        }
        watch_remove(w, &s->entry);
        assert_true(atomic_load(&s->n[WATCH_DEADLINE]) <= 1);
        free(s);
        close(fds[0]);
        if (i % 2 == 0) {
            close(fds[1]);
        }
    }
    return NULL;
}
static void test_removed_means_silent(void **state) {
    struct watch *w = start(N_THREADS);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, race_main, w), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    watch_stop(w);
}
static void test_stop_takes_null_and_active_entries(void **state) {
    watch_stop(NULL);
    struct watch *w = start(1);
    struct seen s = {.clock = NULL};
    watch_add(w, &s.entry, -1, time_now_ns() + 3600 * NS_PER_S, on_event, &s);
    watch_stop(w);
    assert_int_equal(atomic_load(&s.n[WATCH_DEADLINE]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_a_look_tells_hang_ups),
        cmocka_unit_test(test_hang_up_before_the_watch_began),
        cmocka_unit_test(test_half_close_then_hang_up),
        cmocka_unit_test(test_a_pause_loses_nothing),
        cmocka_unit_test(test_an_entry_for_another_socket),
        cmocka_unit_test(test_bytes_are_no_event),
        cmocka_unit_test(test_deadlines_come_in_order_and_once),
        cmocka_unit_test(test_an_earlier_deadline_wakes_the_thread),
        cmocka_unit_test(test_a_moved_deadline_counts_alone),
        cmocka_unit_test(test_a_deadline_moved_while_it_is_looked_at),
        cmocka_unit_test(test_adding_again_replaces),
        cmocka_unit_test(test_all_are_told_to_stop),
        cmocka_unit_test(test_removed_means_silent),
        cmocka_unit_test(test_stop_takes_null_and_active_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
