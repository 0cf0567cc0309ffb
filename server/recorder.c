/* recorder.c - counters of lengths, and a ring of arrivals between the requests and one writer.
 * A length is one relaxed addition. The rate comes from a ring of seconds: a word holds which
 * second it counts and how many, so a stale one is taken over by a single exchange. The trace's
 * ring has a lock that is held for the copy of a few words, never for a write; an arrival that
 * comes to it after a later one gets the later one's time, so times never fall. Each batch of lines
 * is one write() (the stream's buffer holds a whole ring), so a crash leaves no half line behind.
 */
#include "server/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timing.h"

enum { RING = 1 << 14, MAX_LINE_BYTES = 64, SECONDS = 64, RATE_SECONDS = 60, SECOND_BITS = 24 };
typedef atomic_uint_fast64_t counter;

struct recorder {
    int64_t start_ns;
    counter lengths[TRACE_MAX_TOKENS + 1]; // longer ones in the last
    counter n_tokens;
    counter seconds[SECONDS]; // which second << SECOND_BITS | jobs in it

    bool is_writing; // a file was named: the rest is in use
    char path[1024];
    int64_t max_bytes;
    FILE *file;   // the writer's alone
    char *buffer; // the stream's, owned
    pthread_t writer;
    atomic_bool is_full; // the file is, or writing failed
    counter n_written, n_dropped;
    uint64_t n_told; // of n_dropped, in the log; the writer's alone

    pthread_mutex_t lock; // of everything below
    pthread_cond_t wake;
    struct arrival ring[RING];
    int first, used;
    int64_t first_ns, last_ns; // of the trace's arrivals; first_ns is its zero
    bool any, stopping;
};

static uint64_t value_of(const counter *c) {
    return atomic_load_explicit(c, memory_order_relaxed);
}
static void add(counter *c, uint64_t n) {
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static void count_second(struct recorder *r, uint64_t second, uint64_t n) {
    counter *slot = &r->seconds[second % SECONDS];
    uint_fast64_t seen = value_of(slot), wanted;
    do {
        const bool is_ours = seen >> SECOND_BITS == second;
        wanted = is_ours ? seen + n : (second << SECOND_BITS) + n;
    } while (!atomic_compare_exchange_weak_explicit(slot, &seen, wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
}
/* Whole seconds alone: the running one has not seen all of its jobs. */
static double rate(const struct recorder *r, int64_t since_ns) {
    const uint64_t now = (uint64_t)(since_ns / NS_PER_S);
    const uint64_t span = now < RATE_SECONDS ? now : RATE_SECONDS;
    uint64_t n = 0;
    for (uint64_t second = now - span; second < now; second++) {
        const uint64_t seen = value_of(&r->seconds[second % SECONDS]);
        n += seen >> SECOND_BITS == second ? seen & ((1u << SECOND_BITS) - 1) : 0;
    }
    return span ? (double)n / (double)span : 0;
}

static void put_arrivals(struct recorder *r, const struct job *jobs, int n, int64_t now_ns) {
    int dropped = 0;
    pthread_mutex_lock(&r->lock);
    if (!r->any) {
        r->first_ns = r->last_ns = now_ns;
        r->any = true;
    }
    r->last_ns = now_ns > r->last_ns ? now_ns : r->last_ns;
    for (int i = 0; i < n; i++) {
        if (r->used == RING) {
            dropped = n - i;
            break;
        }
        r->ring[(r->first + r->used) % RING] = (struct arrival){
            .at_ns = r->last_ns - r->first_ns,
            .n_tokens = jobs[i].n_tokens < TRACE_MAX_TOKENS ? jobs[i].n_tokens : TRACE_MAX_TOKENS,
            .priority = jobs[i].priority,
            .key = jobs[i].key};
        r->used++;
    }
    const bool is_half = r->used >= RING / 2;
    if (is_half) {
        pthread_cond_signal(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
    add(&r->n_dropped, (uint64_t)dropped);
}
void recorder_note(struct recorder *r, const struct job *jobs, int n, int64_t now_ns) {
    if (!r || n < 1) {
        return;
    }
    uint64_t tokens = 0;
    for (int i = 0; i < n; i++) {
        const int len = jobs[i].n_tokens;
        add(&r->lengths[len < TRACE_MAX_TOKENS ? len : TRACE_MAX_TOKENS], 1);
        tokens += (uint64_t)len;
    }
    add(&r->n_tokens, tokens);
    count_second(r, (uint64_t)((now_ns - r->start_ns) / NS_PER_S), (uint64_t)n);
    if (!r->is_writing) {
        return;
    }
    if (atomic_load_explicit(&r->is_full, memory_order_relaxed)) {
        add(&r->n_dropped, (uint64_t)n);
    } else {
        put_arrivals(r, jobs, n, now_ns);
    }
}

void recorder_get(const struct recorder *r, struct recorder_stats *out, struct lengths *lengths,
                  int64_t now_ns) {
    *out = (struct recorder_stats){.since_ns = now_ns - r->start_ns,
                                   .n_tokens = (int64_t)value_of(&r->n_tokens),
                                   .per_second = rate(r, now_ns - r->start_ns),
                                   .n_written = (int64_t)value_of(&r->n_written),
                                   .n_dropped = (int64_t)value_of(&r->n_dropped)};
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        const int64_t n = (int64_t)value_of(&r->lengths[i]);
        out->n_jobs += n;
        if (lengths) {
            lengths->count[i] = n;
        }
    }
}

/* The writer's: takes up to n arrivals and gives their number. */
static int take(struct recorder *r, struct arrival *out, int n) {
    pthread_mutex_lock(&r->lock);
    const int taken = r->used < n ? r->used : n;
    for (int i = 0; i < taken; i++) {
        out[i] = r->ring[(r->first + i) % RING];
    }
    r->first = (r->first + taken) % RING;
    r->used -= taken;
    pthread_mutex_unlock(&r->lock);
    return taken;
}
static void give_up(struct recorder *r, const char *event, const char *reason) {
    atomic_store(&r->is_full, true);
    log_event(LOG_WARN, event, LOG_STR("file", r->path), LOG_STR("reason", reason),
              LOG_INT("arrivals", (int64_t)value_of(&r->n_written)));
}
/* Lines until the file would be too large; the rest is dropped. */
static void write_arrivals(struct recorder *r, const struct arrival *a, int n) {
    int i = 0;
    const bool was_full = atomic_load(&r->is_full);
    while (!was_full && i < n && ftello(r->file) + MAX_LINE_BYTES <= r->max_bytes) {
        trace_write(r->file, &a[i++]);
    }
    const bool failed = !was_full && fflush(r->file);
    const int e = errno;
    i = failed ? 0 : i;
    add(&r->n_written, (uint64_t)i);
    add(&r->n_dropped, (uint64_t)(n - i));
    if (failed) {
        give_up(r, "record_failed", strerror(e));
    } else if (!was_full && i < n) {
        give_up(r, "record_full", "batching.record_max_bytes is reached");
    }
}
static void write_all(struct recorder *r) {
    struct arrival some[256];
    int n;
    while ((n = take(r, some, (int)N_ITEMS(some))) > 0) {
        write_arrivals(r, some, n);
    }
    const uint64_t dropped = value_of(&r->n_dropped);
    if (dropped > r->n_told && !atomic_load(&r->is_full)) {
        log_event(LOG_WARN, "record_dropped", LOG_STR("file", r->path),
                  LOG_INT("arrivals", (int64_t)(dropped - r->n_told)),
                  LOG_STR("reason", "they came faster than the disk took them"));
    }
    r->n_told = dropped;
}
/* A second, or until the ring is half full or the recorder stops: true. */
static bool pause_writer(struct recorder *r) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec++;
    pthread_mutex_lock(&r->lock);
    int rc = 0;
    while (!r->stopping && r->used < RING / 2 && rc == 0) {
        rc = pthread_cond_timedwait(&r->wake, &r->lock, &at);
    }
    const bool stopping = r->stopping;
    pthread_mutex_unlock(&r->lock);
    return stopping;
}
static void *writer_main(void *arg) {
    struct recorder *r = arg;
    bool stopping = false;
    while (!stopping) {
        stopping = pause_writer(r);
        write_all(r);
    }
    return NULL;
}

/* What was recorded before is worth keeping; devices and folders stay where they are. */
static enum status move_old(const struct recorder *r, struct error *err) {
    char old[sizeof(r->path) + 4];
    struct stat st;
    if (lstat(r->path, &st)) {
        return STATUS_OK; // nothing there, or open() will say what is wrong
    }
    if (!S_ISREG(st.st_mode)) {
        return error_set(err, STATUS_INVALID, "batching.record: %s is there and no regular file",
                         r->path);
    }
    snprintf(old, sizeof(old), "%s.old", r->path);
    return rename(r->path, old) ? error_set(err, STATUS_IO, "batching.record: %s to %s: %s",
                                            r->path, old, strerror(errno))
                                : STATUS_OK;
}
static enum status open_file(struct recorder *r, struct error *err) {
    const enum status moved = move_old(r, err);
    if (moved) {
        return moved;
    }
    const int fd = open(r->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    r->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!r->file) {
        const enum status s =
            error_set(err, STATUS_IO, "batching.record: %s: %s", r->path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return s;
    }
    const size_t bytes = (size_t)RING * MAX_LINE_BYTES;
    r->buffer = xcalloc(bytes, 1);
    setvbuf(r->file, r->buffer, _IOFBF, bytes);
    trace_write_header(r->file);
    return fflush(r->file)
               ? error_set(err, STATUS_IO, "batching.record: %s: %s", r->path, strerror(errno))
               : STATUS_OK;
}
static enum status start_writer(struct recorder *r, struct error *err) {
    pthread_condattr_t attr;
    pthread_condattr_init(&attr); // these three cannot fail on Linux
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->wake, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
    const int e = pthread_create(&r->writer, NULL, writer_main, r);
    r->is_writing = !e;
    return e ? error_set(err, STATUS_IO, "batching.record: its thread: %s", strerror(e))
             : STATUS_OK;
}
enum status recorder_start(struct recorder **out, const struct recorder_config *cfg, int64_t now_ns,
                           struct error *err) {
    struct recorder *r = xcalloc(1, sizeof(*r));
    r->start_ns = now_ns;
    r->max_bytes = cfg->max_bytes;
    enum status s = STATUS_OK;
    if (*cfg->path) {
        snprintf(r->path, sizeof(r->path), "%s", cfg->path);
        s = open_file(r, err);
        if (!s) {
            s = start_writer(r, err);
        }
    }
    if (s) {
        recorder_stop(r);
        return s;
    }
    *out = r;
    return STATUS_OK;
}
void recorder_stop(struct recorder *r) {
    if (!r) {
        return;
    }
    if (r->is_writing) {
        pthread_mutex_lock(&r->lock);
        r->stopping = true;
        pthread_cond_signal(&r->wake);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->writer, NULL);
        pthread_cond_destroy(&r->wake);
        pthread_mutex_destroy(&r->lock);
        log_event(LOG_INFO, "record_stop", LOG_STR("file", r->path),
                  LOG_INT("arrivals", (int64_t)value_of(&r->n_written)),
                  LOG_INT("dropped", (int64_t)value_of(&r->n_dropped)));
    }
    if (r->file) {
        fclose(r->file); // all is flushed
    }
    free(r->buffer);
    free(r);
}
