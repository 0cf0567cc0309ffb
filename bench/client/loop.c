/* loop.c - epoll over this thread's connections and one timer. Open loop: a request is sent when it
 * is due, whatever became of those before; the timer wakes a little early and the rest is spun, so
 * that the sleep's inaccuracy does not show. When every connection is busy the schedule waits, but
 * its clock does not: latency counts from the due time. Closed loop: a connection that has its
 * answer asks again. Connections are in lists by state; the busy ones in the order of their due
 * times, so the first is the first to time out. */
#include "bench/client/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"
#include "bench/client/connection.h"

enum { BUFFER_BYTES = 1 << 16, EVENTS = 16, CHORES_MS = 10, REST_MS = 50 };

struct list {
    struct connection *first, *last;
};
struct loop {
    struct plan *plan;
    struct record *record;
    int thread, epoll_fd, timer_fd;
    struct connection *connections; // owned
    int n_connections;
    struct list idle, closed, busy, resting;
    struct schedule schedule;
    int64_t n_drawn; // of the schedule, all threads' arrivals
    struct due due;
    bool has_due, due_has_waited, is_over;
    int64_t window_begin_ns, window_end_ns, armed_ns, chores_ns, failing_since_ns;
    char buffer[BUFFER_BYTES];
};

static void list_push(struct list *l, struct connection *c) { // at the end
    c->prev = l->last, c->next = NULL;
    if (l->last) {
        l->last->next = c;
    } else {
        l->first = c;
    }
    l->last = c;
}
static void list_remove(struct list *l, struct connection *c) {
    if (c->prev) {
        c->prev->next = c->next;
    } else {
        l->first = c->next;
    }
    if (c->next) {
        c->next->prev = c->prev;
    } else {
        l->last = c->prev;
    }
}
static struct connection *list_pop(struct list *l) { // from the end: the one used last
    struct connection *c = l->last;
    if (c) {
        list_remove(l, c);
    }
    return c;
}

/* The next arrival that is this thread's. */
static void draw_next(struct loop *l) {
    const struct plan *p = l->plan;
    do {
        l->has_due = schedule_next(&l->schedule, &l->due);
        l->n_drawn++;
    } while (l->has_due && (l->n_drawn - 1) % p->n_threads != l->thread);
    const int64_t at_ns = p->start_ns + l->due.at_ns;
    const bool is_past_end =
        at_ns >= l->window_end_ns || (!l->due.is_warmup && l->due.index >= p->max_requests);
    l->has_due = l->has_due && !is_past_end;
    l->due_has_waited = false;
}

static void note_outcome(struct loop *l, enum failure kind, int64_t now_ns, const char *what) {
    const struct plan *p = l->plan;
    const bool is_dead = kind == FAILURE_CONNECT || kind == FAILURE_CLOSED || kind == FAILURE_RESET;
    if (!is_dead) {
        l->failing_since_ns = 0;
    } else if (l->failing_since_ns == 0) {
        l->failing_since_ns = now_ns;
    } else if (p->give_up_ns > 0 && now_ns - l->failing_since_ns >= p->give_up_ns) {
        char reason[STOP_REASON_BYTES];
        snprintf(reason, sizeof(reason), "no answer for %.1f s: %.200s",
                 (double)(now_ns - l->failing_since_ns) / 1e9, what);
        plan_stop(l->plan, STOP_SERVER_LOST, reason);
    }
}
/* The request on `c` has ended; `c` is in no list. */
static void record(struct loop *l, struct connection *c, enum failure kind) {
    struct progress *progress = &l->plan->progress;
    if (kind == FAILURE_NONE) {
        record_answer(l->record, &c->shot, &c->answer, l->plan->rules.stages);
    } else {
        record_failure(l->record, &c->shot, kind, c->what);
    }
    const bool is_ok = kind == FAILURE_NONE && c->answer.http_status < 300;
    atomic_fetch_add_explicit(is_ok ? &progress->n_ok : &progress->n_failed, 1,
                              memory_order_relaxed);
    note_outcome(l, kind, c->shot.done_ns, c->what);
}
static void put_away(struct loop *l, struct connection *c) {
    list_push(c->state == CONNECTION_IDLE ? &l->idle : &l->closed, c);
}
static void ask_again(struct loop *l, struct connection *c);
static void ended(struct loop *l, struct connection *c, enum failure kind) {
    record(l, c, kind);
    if (!l->plan->is_closed_loop) {
        put_away(l, c);
    } else if (kind == FAILURE_NONE || kind == FAILURE_TIMEOUT) {
        ask_again(l, c);
    } else { // a server that is gone is not to be hammered
        c->rest_until_ns = c->shot.done_ns + REST_MS * NS_PER_MS;
        list_push(&l->resting, c);
    }
}
/* `c` is in no list; its shot and text are set. */
static void begin(struct loop *l, struct connection *c) {
    l->record->n_connects += c->state == CONNECTION_CLOSED && c->shot.is_recorded;
    atomic_fetch_add_explicit(&l->plan->progress.n_sent, 1, memory_order_relaxed);
    const struct outcome o = connection_begin(c, l->plan, l->epoll_fd);
    if (o.is_done) {
        ended(l, c, o.failure);
    } else {
        list_push(&l->busy, c);
    }
}

/* Closed loop: the next request, if there is one left. It is due when its connection is free. */
static void ask_again(struct loop *l, struct connection *c) {
    struct plan *p = l->plan;
    const int64_t now_ns = time_now_ns();
    const bool is_warmup = now_ns < l->window_begin_ns;
    l->is_over = l->is_over || now_ns >= l->window_end_ns;
    if (l->is_over) {
        put_away(l, c);
        return;
    }
    const int64_t index = atomic_fetch_add(is_warmup ? &p->next_warm : &p->next_index, 1);
    if (!is_warmup && index >= p->max_requests) {
        l->is_over = true;
        put_away(l, c);
        return;
    }
    c->text = texts_at(p->texts, index);
    c->shot = (struct shot){.index = index,
                            .due_ns = now_ns,
                            .turned_ns = now_ns,
                            .n_words = c->text.n_words,
                            .is_recorded = !is_warmup};
    begin(l, c);
}
static struct connection *take_connection(struct loop *l) {
    struct connection *c = list_pop(&l->idle);
    return c ? c : list_pop(&l->closed);
}
static struct shot due_shot(const struct loop *l, int64_t now_ns) {
    return (struct shot){.index = l->due.index,
                         .due_ns = l->plan->start_ns + l->due.at_ns,
                         .turned_ns = now_ns,
                         .is_recorded = !l->due.is_warmup,
                         .has_waited = l->due_has_waited};
}
/* Open loop: what is due and found no connection within its time. */
static void drop_due(struct loop *l, int64_t now_ns) {
    struct shot shot = due_shot(l, now_ns);
    shot.sent_ns = shot.done_ns = now_ns;
    record_failure(l->record, &shot, FAILURE_TIMEOUT, "every connection was busy all the time");
    atomic_fetch_add_explicit(&l->plan->progress.n_failed, 1, memory_order_relaxed);
    draw_next(l);
}
static void send_due(struct loop *l, struct connection *c, int64_t now_ns) {
    const struct plan *p = l->plan;
    c->text = l->due.arrival ? texts_of_tokens(p->texts, l->due.index, l->due.arrival->n_tokens)
                             : texts_at(p->texts, l->due.index);
    c->shot = due_shot(l, now_ns);
    c->shot.n_words = c->text.n_words;
    draw_next(l);
    begin(l, c);
}
static void send_all_due(struct loop *l) {
    while (l->has_due) {
        const int64_t now_ns = time_now_ns(), due_ns = l->plan->start_ns + l->due.at_ns;
        if (due_ns > now_ns) {
            return;
        }
        struct connection *c = take_connection(l);
        if (c) {
            send_due(l, c, now_ns);
            continue;
        }
        l->due_has_waited = true;
        if (now_ns - due_ns <= l->plan->timeout_ns) {
            return;
        }
        drop_due(l, now_ns);
    }
}

static void expire(struct loop *l, int64_t now_ns) {
    while (l->busy.first && now_ns - l->busy.first->shot.due_ns > l->plan->timeout_ns) {
        struct connection *c = l->busy.first;
        list_remove(&l->busy, c);
        connection_close(c);
        c->shot.done_ns = now_ns;
        c->shot.sent_ns = c->shot.sent_ns ? c->shot.sent_ns : now_ns;
        snprintf(c->what, sizeof(c->what), "no answer within the timeout");
        ended(l, c, FAILURE_TIMEOUT);
    }
}
static void wake_resting(struct loop *l, int64_t now_ns) {
    while (l->resting.first && (l->is_over || l->resting.first->rest_until_ns <= now_ns)) {
        struct connection *c = l->resting.first;
        list_remove(&l->resting, c);
        ask_again(l, c);
    }
}
static void do_chores(struct loop *l, int64_t now_ns) {
    l->chores_ns = now_ns + CHORES_MS * NS_PER_MS;
    expire(l, now_ns);
    wake_resting(l, now_ns);
}
static void handle(struct loop *l, const struct epoll_event *e) {
    struct connection *c = e->data.ptr;
    if (!c) {
        return; // the timer, which is edge-triggered: it needs no read
    }
    struct list *from = c->state == CONNECTION_IDLE ? &l->idle : &l->busy;
    const bool was_idle = c->state == CONNECTION_IDLE;
    const struct outcome o =
        connection_ready(c, l->plan, l->epoll_fd, e->events, l->buffer, sizeof(l->buffer));
    if (o.is_done) {
        list_remove(from, c);
        ended(l, c, o.failure);
    } else if (was_idle) {
        list_remove(from, c);
        put_away(l, c);
    }
}
/* Until the timer, an answer, or the next chores; not at all shortly before a request is due. */
static void wait_for_events(struct loop *l) {
    struct epoll_event events[EVENTS];
    int timeout_ms = CHORES_MS;
    if (l->has_due && (l->idle.last || l->closed.last)) {
        const int64_t wake_ns = l->plan->start_ns + l->due.at_ns - l->plan->spin_ns;
        if (wake_ns <= time_now_ns()) {
            timeout_ms = 0;
        } else if (wake_ns != l->armed_ns) {
            const struct itimerspec at = {
                .it_value = {.tv_sec = wake_ns / NS_PER_S, .tv_nsec = wake_ns % NS_PER_S}};
            timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
            l->armed_ns = wake_ns;
        }
    }
    const int n = epoll_wait(l->epoll_fd, events, EVENTS, timeout_ms);
    for (int i = 0; i < n; i++) {
        handle(l, &events[i]);
    }
}
static bool is_finished(const struct loop *l, int64_t now_ns) {
    const bool has_more =
        l->plan->is_closed_loop ? !l->is_over && now_ns < l->window_end_ns : l->has_due;
    return atomic_load_explicit(&l->plan->stop, memory_order_relaxed) ||
           (!has_more && !l->busy.first);
}
static void sleep_until(int64_t at_ns) {
    const struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}
static void run(struct loop *l) {
    sleep_until(l->plan->start_ns);
    for (int i = 0; i < l->n_connections; i++) {
        list_push(&l->closed, &l->connections[i]);
    }
    for (int i = 0; l->plan->is_closed_loop && i < l->n_connections; i++) {
        struct connection *c = list_pop(&l->closed);
        if (c) {
            ask_again(l, c);
        }
    }
    if (!l->plan->is_closed_loop) {
        draw_next(l);
    }
    for (int64_t now_ns = time_now_ns(); !is_finished(l, now_ns); now_ns = time_now_ns()) {
        if (now_ns >= l->chores_ns) {
            do_chores(l, now_ns);
        }
        send_all_due(l);
        wait_for_events(l);
    }
}
static enum status open_loop(struct loop *l, struct error *err) {
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (l->epoll_fd < 0 || l->timer_fd < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->timer_fd, &e)) {
        return error_set(err, STATUS_IO, "epoll or timer: %s", strerror(errno));
    }
    return STATUS_OK;
}
static void close_loop(struct loop *l) {
    for (int i = 0; i < l->n_connections; i++) {
        connection_close(&l->connections[i]);
    }
    if (l->epoll_fd >= 0) {
        close(l->epoll_fd);
    }
    if (l->timer_fd >= 0) {
        close(l->timer_fd);
    }
    free(l->connections);
    free(l);
}
static double thread_cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
enum status loop_run(struct plan *p, int thread, struct record *r, struct error *err) {
    struct loop *l = xcalloc(1, sizeof(*l));
    const double cpu_s = thread_cpu_s();
    l->plan = p, l->record = r, l->thread = thread;
    l->epoll_fd = l->timer_fd = -1;
    /* The first threads take what is left over. */
    l->n_connections = p->n_connections / p->n_threads + (thread < p->n_connections % p->n_threads);
    l->connections = xcalloc((size_t)l->n_connections + 1, sizeof(*l->connections));
    l->window_begin_ns = plan_window_begin(p);
    l->window_end_ns = r->end_ns;
    schedule_init(&l->schedule, p->kind, &p->rate, p->trace, p->speed, p->warmup_s, p->seed);
    const enum status s = open_loop(l, err);
    if (!s) {
        run(l);
        for (const struct connection *c = l->busy.first; c; c = c->next) {
            r->n_abandoned += c->shot.is_recorded;
        }
        r->cpu_s = thread_cpu_s() - cpu_s;
    }
    close_loop(l);
    return s;
}
