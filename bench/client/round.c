/* round.c - the load's threads run; this one waits for a signal, a tick at a time, and at each tick
 * says where things stand. With the signals blocked everywhere there is no handler and nothing
 * global; a second signal comes when the round is over and its default action is back. */
#include "bench/client/round.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/timing.h"
#include "bench/client/loop.h"

enum { TICK_MS = 20, TICKS_A_LINE = 10, START_DELAY_MS = 2 };

struct worker {
    pthread_t thread;
    struct plan *plan;
    int number;
    struct record *record;
    enum status status;
    struct error err;
    atomic_int *n_running;
};
void plan_stop(struct plan *p, enum stop why, const char *reason) {
    pthread_mutex_lock(&p->reason_lock);
    if (atomic_load(&p->stop) == STOP_NOT) {
        snprintf(p->reason, sizeof(p->reason), "%s", reason);
        atomic_store(&p->stop, (int)why);
    }
    pthread_mutex_unlock(&p->reason_lock);
}
static void *worker_main(void *arg) {
    struct worker *w = arg;
    w->status = loop_run(w->plan, w->number, w->record, &w->err);
    atomic_fetch_sub(w->n_running, 1);
    return NULL;
}

static void print_progress(struct plan *p, const char *title) {
    const double at_s = (double)(time_now_ns() - plan_window_begin(p)) / 1e9;
    const long long n_sent = atomic_load(&p->progress.n_sent);
    const long long n_ok = atomic_load(&p->progress.n_ok);
    const long long n_failed = atomic_load(&p->progress.n_failed);
    char of[32] = "";
    if (p->window_ns < INT64_C(86400) * NS_PER_S) {
        snprintf(of, sizeof(of), "/%.0f", (double)p->window_ns / 1e9);
    }
    fprintf(stderr, "\r\033[K%s: %s%.1f%s s  sent %lld  answered %lld  failed %lld  in flight %lld",
            title, at_s < 0 ? "warm-up " : "", at_s < 0 ? at_s + p->warmup_s : at_s,
            at_s < 0 ? "" : of, n_sent, n_ok, n_failed,
            n_sent > n_ok + n_failed ? n_sent - n_ok - n_failed : 0);
    fflush(stderr);
}
/* Until every thread has ended. */
static void watch_threads(struct plan *p, atomic_int *n_running, const sigset_t *signals,
                          const char *title) {
    const struct timespec tick = {.tv_nsec = TICK_MS * NS_PER_MS};
    int n_ticks = 0;
    while (atomic_load(n_running) > 0) {
        const int signal = sigtimedwait(signals, NULL, &tick);
        if (signal > 0) {
            plan_stop(p, STOP_SIGNAL, signal == SIGINT ? "interrupted" : "terminated");
        }
        if (p->end_by_ns && time_now_ns() >= p->end_by_ns) {
            plan_stop(p, STOP_TIME_UP, "the time limit was over");
        }
        if (title && n_ticks++ % TICKS_A_LINE == 0) {
            print_progress(p, title);
        }
    }
    if (title) {
        fputs("\r\033[K", stderr);
    }
}
static void reset_plan(struct plan *p) {
    atomic_store(&p->next_index, 0);
    atomic_store(&p->next_warm, 0);
    atomic_store(&p->progress.n_sent, 0);
    atomic_store(&p->progress.n_ok, 0);
    atomic_store(&p->progress.n_failed, 0);
    atomic_store(&p->stop, STOP_NOT);
    p->start_ns = time_now_ns() + START_DELAY_MS * NS_PER_MS; // for the threads to get ready
}
static void sum_up(struct round *out, const struct plan *p, int64_t end_ns) {
    struct record *sum = out->sum;
    const int64_t begin_ns = plan_window_begin(p);
    const bool is_by_count = p->max_requests != INT64_MAX;
    int64_t window_end_ns = is_by_count && sum->last_done_ns < end_ns ? sum->last_done_ns : end_ns;
    out->stop = (enum stop)atomic_load(&p->stop);
    if (out->stop) {
        snprintf(out->reason, sizeof(out->reason), "%s", p->reason);
        const int64_t now_ns = time_now_ns();
        window_end_ns = now_ns < window_end_ns ? now_ns : window_end_ns;
    }
    out->wall_s = (double)(time_now_ns() - p->start_ns) / 1e9;
    out->window_s = window_end_ns > begin_ns ? (double)(window_end_ns - begin_ns) / 1e9 : 0;
    /* By count the window ends with the last answer, and the warm-up's have no place in it. */
    const int64_t n_ok = is_by_count ? sum->n_ok : sum->n_ok_in_window;
    out->throughput = out->window_s > 0 ? (double)n_ok / out->window_s : 0;
}
static enum status run_threads(struct worker *workers, int n, struct plan *p, const char *title,
                               struct error *err) {
    atomic_int n_running = n;
    sigset_t signals, before;
    enum status s = STATUS_OK;
    int n_started = 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    for (; n_started < n; n_started++) {
        workers[n_started].n_running = &n_running;
        if (pthread_create(&workers[n_started].thread, NULL, worker_main, &workers[n_started])) {
            s = error_set(err, STATUS_IO, "thread %d: %s", n_started, strerror(errno));
            plan_stop(p, STOP_SIGNAL, "no thread");
            atomic_fetch_sub(&n_running, n - n_started);
            break;
        }
    }
    watch_threads(p, &n_running, &signals, title);
    for (int i = 0; i < n_started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status && !s) {
            *err = workers[i].err;
            s = workers[i].status;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}
enum status round_run(struct round *out, struct plan *p, int64_t max_samples, const char *title,
                      struct error *err) {
    struct worker *workers = xcalloc((size_t)p->n_threads, sizeof(*workers));
    *out = (struct round){.sum = record_create(max_samples)};
    reset_plan(p);
    const int64_t begin_ns = plan_window_begin(p);
    const int64_t end_ns =
        p->window_ns < INT64_MAX - begin_ns ? begin_ns + p->window_ns : INT64_MAX;
    record_begin(out->sum, begin_ns, end_ns, p->offset_ns);
    for (int i = 0; i < p->n_threads; i++) {
        struct record *r = record_create(max_samples / p->n_threads + 1);
        record_begin(r, begin_ns, end_ns, p->offset_ns);
        workers[i] = (struct worker){.plan = p, .number = i, .record = r};
    }
    const enum status s = run_threads(workers, p->n_threads, p, title, err);
    for (int i = 0; i < p->n_threads; i++) {
        record_add(out->sum, workers[i].record);
        record_destroy(workers[i].record);
    }
    sum_up(out, p, end_ns);
    free(workers);
    return s;
}
void round_finish(struct round *r) {
    record_destroy(r->sum);
    r->sum = NULL;
}
enum status round_probe(struct round *out, struct plan *p, struct error *err) {
    const bool is_closed_loop = p->is_closed_loop;
    const int n_connections = p->n_connections, n_threads = p->n_threads;
    const int64_t window_ns = p->window_ns, max_requests = p->max_requests;
    const double warmup_s = p->warmup_s;
    p->is_closed_loop = true;
    p->n_connections = p->n_threads = 1;
    p->window_ns = INT64_MAX;
    p->max_requests = 1;
    p->warmup_s = 0;
    const enum status s = round_run(out, p, 1, NULL, err);
    p->is_closed_loop = is_closed_loop;
    p->n_connections = n_connections, p->n_threads = n_threads;
    p->window_ns = window_ns, p->max_requests = max_requests;
    p->warmup_s = warmup_s;
    return s;
}
