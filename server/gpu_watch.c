/* gpu_watch.c - samples by a thread of their own, kept under a lock that is held for a copy.
 * NVML is opened by the thread too: it takes some 100 ms, which no start waits for. After a GPU has
 * fallen off its bus a call may never return; so the end does not wait for ever, and leaves what
 * the thread may still touch to the process's own end. */
#include "server/gpu_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/timing.h"

enum { STOP_WAIT_S = 1 };
struct gpu_watch {
    pthread_t thread;
    int64_t interval_ns;
    int n, first;
    char bus_ids[GPU_WATCH_MAX][GPU_BUS_ID_BYTES];
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_stopping, has_samples;
    struct gpu_sample samples[GPU_WATCH_MAX];
};

static struct timespec in_ns(clockid_t clock, int64_t ns) {
    struct timespec t = {0};
    clock_gettime(clock, &t);
    ns += t.tv_nsec;
    return (struct timespec){t.tv_sec + ns / NS_PER_S, ns % NS_PER_S};
}
static void sample_all(struct gpu_watch *w, const struct nvml *nvml) {
    struct gpu_sample now[GPU_WATCH_MAX];
    for (int i = 0; i < w->n; i++) {
        nvml_sample(nvml, w->bus_ids[i], &now[i]);
    }
    pthread_mutex_lock(&w->lock);
    memcpy(w->samples, now, (size_t)w->n * sizeof(*now));
    w->has_samples = true;
    pthread_mutex_unlock(&w->lock);
}
/* False: it is to stop. */
static bool wait_interval(struct gpu_watch *w) {
    const struct timespec until = in_ns(CLOCK_MONOTONIC, w->interval_ns);
    int e = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->is_stopping && e == 0) {
        e = pthread_cond_timedwait(&w->wake, &w->lock, &until);
    }
    const bool goes_on = !w->is_stopping;
    pthread_mutex_unlock(&w->lock);
    return goes_on;
}
static void log_none(const char *reason) {
    log_event(LOG_DEBUG, "gpu_metrics", LOG_STR("none_because", reason));
}
static void *watch_main(void *arg) {
    struct gpu_watch *w = arg;
    struct nvml *nvml = NULL;
    struct error err = {.text = ""};
    if (nvml_open(&nvml, &err)) {
        log_none(err.text);
        return NULL;
    }
    do {
        sample_all(w, nvml);
    } while (wait_interval(w));
    nvml_close(nvml);
    return NULL;
}

static void init_lock(struct gpu_watch *w) {
    pthread_condattr_t attr;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
}
static void watch_free(struct gpu_watch *w) {
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
void gpu_watch_start(struct gpu_watch **out, const struct device_choice *choice, int interval_ms) {
    *out = NULL;
    if (!choice->accelerator || interval_ms == 0) {
        return;
    }
    struct gpu_watch *w = xcalloc(1, sizeof(*w));
    w->interval_ns = interval_ms * NS_PER_MS;
    w->first = choice->first;
    w->n = choice->n < GPU_WATCH_MAX ? choice->n : GPU_WATCH_MAX;
    for (int i = 0; i < w->n; i++) {
        choice->accelerator->bus_id(w->bus_ids[i], GPU_BUS_ID_BYTES, w->first + i);
    }
    init_lock(w);
    const int e = pthread_create(&w->thread, NULL, watch_main, w);
    if (e) {
        log_none(strerror(e));
        watch_free(w);
        return;
    }
    pthread_setname_np(w->thread, "gpu-watch");
    *out = w;
}
void gpu_watch_stop(struct gpu_watch *w) {
    if (!w) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->is_stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    const struct timespec until = in_ns(CLOCK_REALTIME, STOP_WAIT_S * NS_PER_S);
    if (pthread_timedjoin_np(w->thread, NULL, &until) == 0) {
        watch_free(w);
    }
}

int gpu_watch_read(struct gpu_watch *w, struct gpu_reading out[GPU_WATCH_MAX]) {
    pthread_mutex_lock(&w->lock);
    const int n = w->has_samples ? w->n : 0;
    for (int i = 0; i < n; i++) {
        out[i] = (struct gpu_reading){w->first + i, w->samples[i]};
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}
