/* slow_server.c - the HTTP front end before a batcher whose times are in the request, so that tests
 * can hang up, drain and overload at a moment they choose.
 *   POST /predict [queue_ms, run_ms, n_jobs]   n_jobs jobs that wait, then run; with a queue_ms
 *                                              below 0 admission says: too late by then; with a
 *                                              run_ms below 0: no room until then; answers what
 *                                              the batcher was told of time left
 *   POST /tokenize                             echoes the body
 *   GET /health, GET /metrics                  200; the counters as JSON
 * Arguments: loading=1, first, for a server whose model never comes; name=value for the settings in
 * set(). Prints "port N" when it listens, and the
 * counters after it has stopped. The routes, engine and batcher here take the place of the real
 * ones when the linker looks for them. */
#include "server/http.h"
#include "server/response.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_JOBS = 4096, COUNTER_BYTES = 1024 };
struct waiting {
    struct job *job;
    int64_t queue_ns, run_ns, submitted_ns;
    bool is_running;
};
struct batcher {
    pthread_mutex_t lock;
    pthread_t thread;
    bool stopping;
    struct waiting jobs[MAX_JOBS];
    int n_jobs;
};
struct batcher *engine_batcher(struct engine *e) {
    return (struct batcher *)e; // the engine of this server is nothing but its batcher
}

/* A job's times travel in its token ids. */
enum status batcher_submit(struct batcher *b, struct job *const *jobs, int n,
                           struct admission *why) {
    const int64_t late_ns = -jobs[0]->token_ids[0] * NS_PER_MS;
    const int64_t full_ns = -jobs[0]->token_ids[1] * NS_PER_MS;
    if (late_ns > 0 || full_ns > 0) {
        *why = (struct admission){.status = late_ns > 0 ? STATUS_TIMEOUT : STATUS_OVERLOADED,
                                  .finish_ns = time_now_ns() + late_ns,
                                  .retry_after_ns = late_ns > 0 ? late_ns : full_ns};
        return why->status;
    }
    pthread_mutex_lock(&b->lock);
    const bool fits = n <= MAX_JOBS - b->n_jobs;
    for (int i = 0; fits && i < n; i++) {
        b->jobs[b->n_jobs++] = (struct waiting){.job = jobs[i],
                                                .queue_ns = jobs[i]->token_ids[0] * NS_PER_MS,
                                                .run_ns = jobs[i]->token_ids[1] * NS_PER_MS,
                                                .submitted_ns = time_now_ns()};
    }
    pthread_mutex_unlock(&b->lock);
    return fits ? STATUS_OK : STATUS_OVERLOADED;
}
void batcher_get_stats(struct batcher *b, struct batcher_stats *out) {
    *out = (struct batcher_stats){.queues = {.drain_ns = 1700 * NS_PER_MS}};
}
bool batcher_cancel(struct batcher *b, struct job *job) {
    bool found = false;
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->n_jobs && !found; i++) {
        found = b->jobs[i].job == job && !b->jobs[i].is_running;
        if (found) {
            b->jobs[i] = b->jobs[--b->n_jobs];
        }
    }
    pthread_mutex_unlock(&b->lock);
    return found;
}
/* Brings one job forward; the one that is done, if any. */
static struct job *next_done(struct batcher *b, int64_t now_ns) {
    for (int i = 0; i < b->n_jobs; i++) {
        struct waiting *w = &b->jobs[i];
        struct job *job = w->job;
        if (!w->is_running && now_ns >= w->submitted_ns + w->queue_ns) {
            w->is_running = true;
            job->chosen_ns = job->infer_ns = now_ns;
        }
        if (w->is_running && now_ns >= job->infer_ns + w->run_ns) {
            job->done_ns = now_ns;
            b->jobs[i] = b->jobs[--b->n_jobs];
            return job;
        }
    }
    return NULL;
}
static void *batcher_main(void *arg) {
    struct batcher *b = arg;
    const struct timespec turn = {.tv_nsec = NS_PER_MS / 2};
    pthread_mutex_lock(&b->lock);
    while (!b->stopping) {
        struct job *job = next_done(b, time_now_ns());
        pthread_mutex_unlock(&b->lock);
        if (job) {
            job->done(job);
        } else {
            nanosleep(&turn, NULL);
        }
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

static void start_predict(struct server_context *ctx, struct request *r) {
    int queue_ms, run_ms, n;
    char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)r->body_len, r->body);
    if (sscanf(text, "[%d, %d, %d]", &queue_ms, &run_ms, &n) != 3 || n < 1 || n > MAX_JOBS) {
        reply_error(r, REFUSE_VALIDATION, "expected [queue_ms, run_ms, n_jobs]");
        return;
    }
    int32_t *ids = arena_alloc(&r->arena, 2, sizeof(*ids));
    r->jobs = arena_alloc(&r->arena, (size_t)n, sizeof(*r->jobs));
    assert(ids && r->jobs);
    ids[0] = queue_ms, ids[1] = run_ms;
    for (int i = 0; i < n; i++) {
        r->jobs[i] = (struct job){.token_ids = ids, .n_tokens = 2};
    }
    r->n_jobs = n;
}
static void finish_predict(struct server_context *ctx, struct request *r) {
    char *body = arena_alloc(&r->arena, 64, 1);
    assert(body);
    const int64_t left_ns = r->jobs[0].deadline_ns - r->clock.ends_ns[STAGE_READ];
    reply_json(r, 200, body,
               (size_t)snprintf(body, 64, "{\"ran\": %d, \"left_us\": %lld}", r->n_jobs,
                                (long long)(left_ns / 1000)));
}
static void start_echo(struct server_context *ctx, struct request *r) {
    reply_json(r, 200, r->body, r->body_len);
}
static void start_health(struct server_context *ctx, struct request *r) {
    reply_json(r, 200, "{}", 2);
}
static size_t write_counters(char *text, const struct metrics *m) {
    return (size_t)snprintf(
        text, COUNTER_BYTES,
        "{\"accepted\": %lu, \"answered\": %lu, \"refused\": %lu, \"cancelled\": %lu, "
        "\"expired\": %lu, \"slots_used\": %lu, \"jobs_cancelled\": %lu, \"jobs_expired\": %lu, "
        "\"wasted_cancelled\": %lu, \"wasted_expired\": %lu, \"limited\": [%lu, %lu, %lu, %lu], "
        "\"connections_open\": %lu, \"connections_total\": %lu}",
        m->accepted, m->answered, m->refused, m->cancelled, m->expired, m->slots_used,
        m->jobs_cancelled, m->jobs_expired, m->wasted_jobs[WASTE_CANCELLED],
        m->wasted_jobs[WASTE_EXPIRED], m->limited[LIMIT_QUEUE], m->limited[LIMIT_DEADLINE],
        m->limited[LIMIT_RATE], m->limited[LIMIT_SLOTS], m->connections_open, m->connections_total);
}
static void start_metrics(struct server_context *ctx, struct request *r) {
    char *body = arena_alloc(&r->arena, COUNTER_BYTES, 1);
    assert(body);
    reply_json(r, 200, body, write_counters(body, ctx->metrics));
}
const struct route *route_find(const char *method, const char *path, const char **allowed) {
    static const struct route routes[] = {
        {"POST", "/predict", true, ROUTE_PREDICT, start_predict, finish_predict},
        {"POST", "/tokenize", true, ROUTE_TOKENIZE, start_echo, NULL},
        {"GET", "/health", false, ROUTE_HEALTH, start_health, NULL},
        {"GET", "/metrics", false, ROUTE_METRICS, start_metrics, NULL},
    };
    const char *wanted = strcmp(method, "HEAD") != 0 ? method : "GET";
    for (size_t i = 0; i < N_ITEMS(routes); i++) {
        if (!strcmp(routes[i].path, path)) {
            *allowed = *routes[i].method == 'G' ? "GET, HEAD" : "POST";
            return strcmp(routes[i].method, wanted) != 0 ? NULL : &routes[i];
        }
    }
    return NULL;
}

static void set(struct config *cfg, const char *name, int value) {
    struct {
        const char *name;
        int *value;
    } const settings[] = {
        {"http_threads", &cfg->server.http_threads},
        {"max_connections", &cfg->server.max_connections},
        {"max_concurrent_requests", &cfg->server.max_concurrent_requests},
        {"read_timeout_ms", &cfg->server.read_timeout_ms},
        {"request_timeout_ms", &cfg->server.request_timeout_ms},
        {"idle_timeout_s", &cfg->server.idle_timeout_s},
        {"drain_timeout_ms", &cfg->server.drain_timeout_ms},
    };
    if (!strcmp(name, "tolerate_half_close")) {
        cfg->server.tolerate_half_close = value;
        return;
    }
    for (size_t i = 0; i < N_ITEMS(settings); i++) {
        if (!strcmp(name, settings[i].name)) {
            *settings[i].value = value;
            return;
        }
    }
    fprintf(stderr, "no setting is called %s\n", name);
    exit(2);
}
static void read_arguments(struct config *cfg, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char name[64];
        int value;
        if (sscanf(argv[i], "%63[^=]=%d", name, &value) != 2) {
            fprintf(stderr, "expected name=value, not %s\n", argv[i]);
            exit(2);
        }
        set(cfg, name, value);
    }
}
int main(int argc, char **argv) {
    static struct batcher batcher = {.lock = PTHREAD_MUTEX_INITIALIZER};
    static struct metrics metrics;
    struct config cfg = {.server = {.host = "127.0.0.1",
                                    .http_threads = 2,
                                    .max_connections = 256,
                                    .max_concurrent_requests = 64,
                                    .max_header_bytes = 1 << 14,
                                    .max_body_bytes = 1 << 16,
                                    .read_timeout_ms = 10000,
                                    .request_timeout_ms = 10000,
                                    .idle_timeout_s = 10,
                                    .drain_timeout_ms = 5000},
                         .log = {.level = LOG_WARN, .requests = true}};
    struct server_context ctx = {.cfg = &cfg, .metrics = &metrics};
    struct error err;
    struct http *http = NULL;
    int port = 0, signal = 0;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    const bool is_loading = argc > 1 && !strcmp(argv[1], "loading=1");
    read_arguments(&cfg, argc - is_loading, argv + is_loading);
    atomic_store(&ctx.engine, is_loading ? NULL : (struct engine *)&batcher);
    if (pthread_create(&batcher.thread, NULL, batcher_main, &batcher)) {
        return 1;
    }
    if (http_start(&http, &ctx, &port, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("port %d\n", port);
    fflush(stdout);
    sigwait(&stop, &signal);
    http_stop(http);
    pthread_mutex_lock(&batcher.lock);
    batcher.stopping = true;
    pthread_mutex_unlock(&batcher.lock);
    pthread_join(batcher.thread, NULL);
    http_close(http);
    char text[COUNTER_BYTES];
    write_counters(text, &metrics);
    printf("%s\n", text);
    return 0;
}
