/* watch.c - one thread that sleeps until a socket is hung up or the earliest deadline has come.
 * It waits with ppoll() on the epoll descriptor, without the lock, and only then asks epoll for the
 * events, with the lock held: so no event can be for an entry that was removed meanwhile, and
 * watch_remove() need not wait for anything but the lock. A socket stays in the epoll set from one
 * request to the next (putting it in and taking it out costs more than the rest of the watch); what
 * comes while nobody wants to know is noted, and asked for again when somebody does.
 * Every active entry is in the heap (no deadline is the latest of all), which is a binary heap with
 * the entries knowing their places. A deadline that is earlier than what the thread sleeps for
 * wakes it through an eventfd.
 * A request moves its connection's deadline several times, nearly always to a later moment. The
 * heap is therefore ordered by when to look at an entry, which is never after its deadline, and a
 * move that keeps to that is one store: the thread finds the later deadline when it looks. Owner
 * and watch each write their own of the two times before they read the other's, so one of them
 * sees. */
#include "server/watch.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"

enum { EVENTS_A_TURN = 64 };
#define NEVER INT64_MAX

struct watch {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, stopping;
    int epoll_fd, wake_fd;
    int64_t sleeping_until_ns;
    struct watch_entry **heap; // [max_entries], owned; the entries are borrowed while active
    int n_entries, max_entries;
};

/* Rises under the lock alone; what an owner reads without it is used as the text above says. */
static int64_t look_of(const struct watch_entry *e) {
    return atomic_load_explicit(&e->look_ns, memory_order_relaxed);
}
static void place(struct watch *w, int at, struct watch_entry *e) {
    w->heap[at] = e;
    e->heap_index = at;
}
static void sift_up(struct watch *w, struct watch_entry *e) {
    int at = e->heap_index;
    while (at > 0 && look_of(w->heap[(at - 1) / 2]) > look_of(e)) {
        place(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(w, at, e);
}
static void sift_down(struct watch *w, struct watch_entry *e) {
    int at = e->heap_index;
    for (;;) {
        int child = 2 * at + 1;
        if (child + 1 < w->n_entries && look_of(w->heap[child + 1]) < look_of(w->heap[child])) {
            child++;
        }
        if (child >= w->n_entries || look_of(w->heap[child]) >= look_of(e)) {
            break;
        }
        place(w, at, w->heap[child]);
        at = child;
    }
    place(w, at, e);
}
static void heap_remove(struct watch *w, const struct watch_entry *e) {
    struct watch_entry *last = w->heap[--w->n_entries];
    if (last != e) {
        place(w, e->heap_index, last);
        sift_up(w, last);
        sift_down(w, last);
    }
}

static void detach(struct watch *w, struct watch_entry *e) {
    if (e->active) {
        heap_remove(w, e);
        e->active = false;
    }
}
static void stop_listening(struct watch *w, struct watch_entry *e) {
    if (e->is_listening) {
        epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, e->listened_fd, NULL);
        e->is_listening = false;
    }
}
static void listen_to(struct watch *w, struct watch_entry *e, int fd) {
    struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = e};
    if (e->is_listening && e->listened_fd != fd) {
        stop_listening(w, e);
    }
    if (!e->is_listening) {
        /* No memory for it means no early notice of a hang-up; the deadline still holds. */
        e->is_listening = !epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
        e->listened_fd = fd;
    } else if (e->has_event) {
        epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, fd, &ev); // tells again what is still so
    }
    e->has_event = false;
}
/* True: only the deadline is another, and the watch looks at the entry in time for it. */
static bool move_deadline(struct watch_entry *e, int fd, int64_t deadline_ns, watch_fn *fn,
                          const void *arg) {
    if (!e->active || e->fd >= 0 || fd >= 0 || e->fn != fn || e->arg != arg ||
        deadline_ns < atomic_load(&e->look_ns)) {
        return false;
    }
    atomic_store(&e->deadline_ns, deadline_ns);
    return deadline_ns >= atomic_load(&e->look_ns);
}
void watch_add(struct watch *w, struct watch_entry *e, int fd, int64_t deadline_ns, watch_fn *fn,
               void *arg) {
    const int64_t due_ns = deadline_ns > 0 ? deadline_ns : NEVER;
    if (move_deadline(e, fd, due_ns, fn, arg)) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    detach(w, e);
    assert(w->n_entries < w->max_entries);
    e->fn = fn, e->arg = arg, e->fd = fd, e->active = true;
    atomic_store(&e->deadline_ns, due_ns);
    atomic_store(&e->look_ns, due_ns);
    place(w, w->n_entries++, e);
    sift_up(w, e);
    if (fd >= 0) {
        listen_to(w, e, fd);
    }
    const bool wake = due_ns < w->sleeping_until_ns;
    pthread_mutex_unlock(&w->lock);
    if (wake) {
        eventfd_write(w->wake_fd, 1);
    }
}
void watch_pause(struct watch *w, struct watch_entry *e) {
    pthread_mutex_lock(&w->lock);
    detach(w, e);
    pthread_mutex_unlock(&w->lock);
}
void watch_remove(struct watch *w, struct watch_entry *e) {
    pthread_mutex_lock(&w->lock);
    detach(w, e);
    stop_listening(w, e);
    pthread_mutex_unlock(&w->lock);
}
void watch_tell_all(struct watch *w) {
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < w->n_entries; i++) {
        w->heap[i]->fn(w->heap[i]->arg, WATCH_STOP);
    }
    pthread_mutex_unlock(&w->lock);
}

static void tell_hang_ups(struct watch *w) {
    struct epoll_event events[EVENTS_A_TURN];
    const int n = epoll_wait(w->epoll_fd, events, EVENTS_A_TURN, 0);
    for (int i = 0; i < n; i++) {
        struct watch_entry *e = events[i].data.ptr;
        const bool gone = events[i].events & (EPOLLHUP | EPOLLERR);
        e->has_event = true;
        if (e->active && e->fd >= 0) {
            e->fn(e->arg, gone ? WATCH_HANG_UP : WATCH_HALF_CLOSE);
        }
    }
}
void watch_look(struct watch *w) {
    if (!pthread_mutex_trylock(&w->lock)) {
        tell_hang_ups(w);
        pthread_mutex_unlock(&w->lock);
    }
}
/* Puts the next look off until the deadline, which its owner may be moving. */
static void look_when_due(struct watch *w, struct watch_entry *e) {
    int64_t due_ns;
    do {
        due_ns = atomic_load(&e->deadline_ns);
        atomic_store(&e->look_ns, due_ns);
    } while (atomic_load(&e->deadline_ns) < due_ns);
    sift_down(w, e);
}
static void tell_deadlines(struct watch *w, int64_t now_ns) {
    while (w->n_entries > 0 && look_of(w->heap[0]) <= now_ns) {
        struct watch_entry *e = w->heap[0];
        int64_t due_ns = atomic_load(&e->deadline_ns);
        const bool is_due =
            due_ns <= now_ns && atomic_compare_exchange_strong(&e->deadline_ns, &due_ns, NEVER);
        look_when_due(w, e);
        if (is_due) {
            e->fn(e->arg, WATCH_DEADLINE);
        }
    }
}
static void sleep_until(struct watch *w, int64_t until_ns) {
    struct pollfd fds[] = {{.fd = w->epoll_fd, .events = POLLIN},
                           {.fd = w->wake_fd, .events = POLLIN}};
    const int64_t left = until_ns - time_now_ns();
    const int64_t ns = left > 0 ? left : 0;
    const struct timespec timeout = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    if (ppoll(fds, N_ITEMS(fds), until_ns == NEVER ? NULL : &timeout, NULL) > 0 && fds[1].revents) {
        eventfd_t n;
        eventfd_read(w->wake_fd, &n);
    }
}
static void *watch_main(void *arg) {
    struct watch *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        tell_hang_ups(w);
        tell_deadlines(w, time_now_ns());
        const int64_t until = w->n_entries > 0 ? look_of(w->heap[0]) : NEVER;
        w->sleeping_until_ns = until;
        pthread_mutex_unlock(&w->lock);
        sleep_until(w, until);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum status watch_start(struct watch **out, int max_entries, struct error *err) {
    struct watch *w = xcalloc(1, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    w->heap = xcalloc((size_t)max_entries, sizeof(struct watch_entry *));
    w->max_entries = max_entries;
    w->sleeping_until_ns = NEVER;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->wake_fd < 0 || w->epoll_fd < 0) {
        const enum status s = error_set(err, STATUS_IO, "watch: %s", strerror(errno));
        watch_stop(w);
        return s;
    }
    const int e = pthread_create(&w->thread, NULL, watch_main, w);
    w->running = !e;
    if (e) {
        watch_stop(w);
        return error_set(err, STATUS_IO, "watch thread: %s", strerror(e));
    }
    *out = w;
    return STATUS_OK;
}
static void close_fd(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}
void watch_stop(struct watch *w) {
    if (!w) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_mutex_unlock(&w->lock);
    if (w->running) {
        eventfd_write(w->wake_fd, 1);
        pthread_join(w->thread, NULL);
    }
    close_fd(w->epoll_fd);
    close_fd(w->wake_fd);
    pthread_mutex_destroy(&w->lock);
    free(w->heap);
    free(w);
}
