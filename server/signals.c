/* signals.c - one thread in sigwait().
 * A thread rather than handlers: it is there while the main thread is busy loading or draining, so
 * that a second signal always works. */
#include "server/signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/timing.h"

struct signals {
    pthread_t thread;
    sigset_t set;
    sem_t came;
    atomic_int first;
    atomic_bool hung_up; // SIGHUP, not yet told
    atomic_bool stopping;
};

static void end_at_once(int number) {
    static const char text[] = "berth: second signal, ending at once\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(128 + number);
}
static void *signals_main(void *arg) {
    struct signals *s = arg;
    int64_t first_ns = 0;
    for (;;) {
        int number = 0;
        sigwait(&s->set, &number);
        if (atomic_load(&s->stopping)) {
            return NULL;
        }
        if (number == SIGHUP) {
            atomic_store(&s->hung_up, true);
            sem_post(&s->came);
        } else if (!first_ns) {
            first_ns = time_now_ns();
            atomic_store(&s->first, number);
            sem_post(&s->came);
        } else if (time_now_ns() - first_ns >= SIGNALS_APART_MS * NS_PER_MS) {
            end_at_once(number);
        }
    }
}
enum status signals_start(struct signals **out, struct error *err) {
    struct signals *s = xcalloc(1, sizeof(*s));
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGINT);
    sigaddset(&s->set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &s->set, NULL);
    sem_init(&s->came, 0, 0);
    const int e = pthread_create(&s->thread, NULL, signals_main, s);
    if (e) {
        free(s);
        return error_set(err, STATUS_IO, "signal thread: %s", strerror(e));
    }
    *out = s;
    return STATUS_OK;
}
int signals_wait(struct signals *s) {
    for (;;) {
        while (sem_wait(&s->came)) { // interrupted
        }
        const int first = atomic_load(&s->first);
        if (first) {
            return first;
        }
        if (atomic_exchange(&s->hung_up, false)) {
            return SIGHUP;
        }
    }
}
void signals_stop(struct signals *s) {
    if (!s) {
        return;
    }
    atomic_store(&s->stopping, true);
    pthread_kill(s->thread, SIGHUP); // ends its sigwait()
    pthread_join(s->thread, NULL);
    sem_destroy(&s->came);
    free(s);
}
