/* log.c - a ring of finished lines between the callers and one writer thread.
 * A caller formats its line on its own stack and copies it into the ring under the lock; the writer
 * takes everything that is there and writes it without the lock. When the ring is full the line is
 * dropped and counted: a log that nobody reads must not stop the server. The ring and the level are
 * the only globals of the project. */
#include "base/log.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, RING_BYTES = 1 << 20, STRING_BYTES = 1024 };

static atomic_int min_level = LOG_INFO;
static atomic_uint_fast64_t n_dropped;
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    pthread_t writer;
    char data[RING_BYTES];
    size_t start, used;
    int fd;
    bool running, stopping;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .fd = STDERR_FILENO};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

const char *log_level_name(enum log_level level) {
    return level_names[level];
}
bool log_level_parse(enum log_level *out, const char *name) {
    for (size_t i = 0; i < N_ITEMS(level_names); i++) {
        if (!strcmp(name, level_names[i])) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}
void log_set_level(enum log_level level) {
    atomic_store(&min_level, level);
}
uint64_t log_dropped(void) {
    return atomic_load(&n_dropped);
}

/* A line under construction; room for the closing brace and newline is always kept. */
struct line {
    char text[LINE_BYTES];
    size_t len;
};
static void put(struct line *l, const char *bytes, size_t n) {
    const size_t room = LINE_BYTES - 2 - l->len;
    memcpy(l->text + l->len, bytes, n < room ? n : room);
    l->len += n < room ? n : room;
}
/* Bytes of the UTF-8 sequence at `s`, of which `left` are there; 0 when it is not valid. */
static size_t sequence_bytes(const unsigned char *s, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n > left || s[0] > 0xF4) {
        return 0;
    }
    uint32_t v = n > 1 ? s[0] & (0x7Fu >> n) : s[0];
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
        v = v << 6 | (s[i] & 0x3F);
    }
    return v < least[n] || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000) ? 0 : n;
}
static void put_escaped(struct line *l, const char *s) {
    const size_t whole = s ? strlen(s) : 0, n = whole < STRING_BYTES ? whole : STRING_BYTES;
    put(l, "\"", 1);
    for (size_t i = 0, used; i < n && l->len < LINE_BYTES - 64; i += used) {
        char code[8];
        const unsigned char c = (unsigned char)s[i];
        const size_t valid = sequence_bytes((const unsigned char *)s + i, n - i);
        used = valid ? valid : 1;
        if (!valid) { // a path may hold any byte, a line of JSON may not
            put(l, "\xEF\xBF\xBD", 3);
        } else if (c == '"' || c == '\\') {
            put(l, (char[]){'\\', (char)c}, 2);
        } else if (c < 0x20 || c == 0x7f) {
            put(l, code, (size_t)snprintf(code, sizeof(code), "\\u%04x", c));
        } else {
            put(l, s + i, used);
        }
    }
    put(l, "\"", 1);
}
static void put_number(struct line *l, const struct log_field *f) {
    char text[40];
    int n;
    if (f->type == LOG_FIELD_INT) {
        n = snprintf(text, sizeof(text), "%lld", (long long)f->integer);
    } else if (f->type == LOG_FIELD_BOOL) {
        n = snprintf(text, sizeof(text), "%s", f->integer ? "true" : "false");
    } else if (isfinite(f->number)) {
        n = snprintf(text, sizeof(text), "%.6g", f->number);
    } else {
        n = snprintf(text, sizeof(text), "null");
    }
    put(l, text, (size_t)n);
}
static void put_time(struct line *l) {
    struct timespec now;
    struct tm utc;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t n = strftime(text, sizeof(text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &utc);
    put(l, text, n);
    put(l, text, (size_t)snprintf(text, sizeof(text), ".%03ldZ\"", now.tv_nsec / 1000000));
}

static void write_all(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno != EINTR) {
            return; // nobody to tell
        }
        if (done > 0) {
            bytes += done, n -= (size_t)done;
        }
    }
}
static void enqueue(const struct line *l) {
    pthread_mutex_lock(&ring.lock);
    if (!ring.running) {
        write_all(ring.fd, l->text, l->len);
    } else if (ring.used + l->len > RING_BYTES) {
        atomic_fetch_add(&n_dropped, 1);
    } else {
        const size_t at = (ring.start + ring.used) % RING_BYTES;
        const size_t first = l->len < RING_BYTES - at ? l->len : RING_BYTES - at;
        memcpy(ring.data + at, l->text, first);
        memcpy(ring.data, l->text + first, l->len - first);
        ring.used += l->len;
        pthread_cond_signal(&ring.more);
    }
    pthread_mutex_unlock(&ring.lock);
}

void log_write(enum log_level level, const char *event, const struct log_field *fields,
               int n_fields) {
    if (level < (enum log_level)atomic_load_explicit(&min_level, memory_order_relaxed)) {
        return;
    }
    struct line l = {.len = 0};
    put_time(&l);
    put(&l, ",\"level\":", 9);
    put_escaped(&l, log_level_name(level));
    put(&l, ",\"event\":", 9);
    put_escaped(&l, event);
    for (int i = 0; i < n_fields && l.len < LINE_BYTES - 256; i++) {
        put(&l, ",", 1);
        put_escaped(&l, fields[i].key);
        put(&l, ":", 1);
        if (fields[i].type == LOG_FIELD_STRING) {
            put_escaped(&l, fields[i].string);
        } else {
            put_number(&l, &fields[i]);
        }
    }
    memcpy(l.text + l.len, "}\n", 2); // put() keeps this room
    l.len += 2;
    enqueue(&l);
}

/* Writes one unbroken stretch of the ring; its bytes stay taken until they are written. */
static void *writer_main(void *arg) {
    (void)arg;
    pthread_mutex_lock(&ring.lock);
    while (ring.used > 0 || !ring.stopping) {
        if (ring.used == 0) {
            pthread_cond_wait(&ring.more, &ring.lock);
            continue;
        }
        const size_t start = ring.start, end = RING_BYTES - start;
        const size_t n = ring.used < end ? ring.used : end;
        pthread_mutex_unlock(&ring.lock);
        write_all(ring.fd, ring.data + start, n);
        pthread_mutex_lock(&ring.lock);
        ring.start = (start + n) % RING_BYTES;
        ring.used -= n;
    }
    pthread_mutex_unlock(&ring.lock);
    return NULL;
}

enum status log_start(int fd, struct error *err) {
    pthread_mutex_lock(&ring.lock);
    ring.fd = fd, ring.stopping = false, ring.running = true;
    const int e = pthread_create(&ring.writer, NULL, writer_main, NULL);
    ring.running = !e;
    pthread_mutex_unlock(&ring.lock);
    return e ? error_set(err, STATUS_IO, "log thread: %s", strerror(e)) : STATUS_OK;
}
void log_stop(void) {
    pthread_mutex_lock(&ring.lock);
    const bool was_running = ring.running;
    ring.stopping = true;
    pthread_cond_signal(&ring.more);
    pthread_mutex_unlock(&ring.lock);
    if (was_running) {
        pthread_join(ring.writer, NULL);
        pthread_mutex_lock(&ring.lock);
        ring.running = false;
        ring.fd = STDERR_FILENO;
        pthread_mutex_unlock(&ring.lock);
    }
}
