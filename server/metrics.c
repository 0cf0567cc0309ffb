/* metrics.c - the process's counters as Prometheus text.
 * One function a group of families, in the order of a request's way; docs/METRICS.md explains them
 * in the same order. Counters are read one by one while others count on, so a scrape is not a
 * snapshot: related figures may differ by what happened in between. The te_* families repeat ours
 * under the names that dashboards for text-embeddings-inference expect. */
#include "server/metrics.h"

#include "base/log.h"
#include "server/exposition.h"
#include "server/metrics_internal.h"

#include <stdio.h>

#if BERTH_HAVE_JEMALLOC
#include <jemalloc/jemalloc.h>
#elif defined(__GLIBC__)
#include <malloc.h>
#endif

/* Bounds of `le`. Durations from 0.1 ms to 10 s; counts end where a bin of the histogram ends, one
 * below a power of two, so they are exact. */
static const int64_t duration_bounds[] = {
    100000,   250000,    500000,    1000000,   2500000,    5000000,    10000000,   25000000,
    50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000, 5000000000, 10000000000,
};
static const int64_t count_bounds[] = {1, 2, 4, 8, 16, 31, 63, 127, 255, 511, 1023};
static const int64_t row_bounds[] = {7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 16383};

uint64_t metric_value(const counter *c) {
    return atomic_load_explicit(c, memory_order_relaxed);
}
void expose_rows(struct json_writer *w, const struct metric_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        expose_family(w, rows[i].name, rows[i].type, rows[i].help);
        expose_sample(w, rows[i].name, NO_LABELS, rows[i].value, UNIT_NONE);
    }
}
void expose_durations(struct json_writer *w, const char *name, struct label label,
                      const struct histogram *h) {
    expose_histogram(w, name, label, h, duration_bounds, N_ITEMS(duration_bounds),
                     UNIT_NS_AS_SECONDS);
}
static void expose_counts(struct json_writer *w, const char *name, const struct histogram *h) {
    expose_histogram(w, name, (struct label){NULL, NULL}, h, count_bounds, N_ITEMS(count_bounds),
                     UNIT_NONE);
}
static void expose_row_counts(struct json_writer *w, const char *name, const struct histogram *h) {
    expose_histogram(w, name, (struct label){NULL, NULL}, h, row_bounds, N_ITEMS(row_bounds),
                     UNIT_NONE);
}

static void write_server(struct json_writer *w, const struct metrics *m,
                         const struct metrics_view *view) {
    expose_family(w, "berth_build_info", "gauge", "The program's version; always 1.");
    expose_sample(w, "berth_build_info", LABEL("version", BERTH_VERSION), 1, UNIT_NONE);
    if (view->model_name) {
        expose_family(w, "berth_model_info", "gauge", "The model that is served; always 1.");
        expose_sample(w, "berth_model_info", LABEL("model", view->model_name), 1, UNIT_NONE);
        expose_family(w, "berth_backend_info", "gauge",
                      "What computes, and in which precision; always 1.");
        expose_sample(w, "berth_backend_info",
                      LABELS("backend", view->backend, "dtype", view->dtype), 1, UNIT_NONE);
    }
    const struct metric_row rows[] = {
        {"berth_ready", "gauge", "1 while requests are answered, 0 while loading or draining.",
         atomic_load(&m->ready)},
        {"berth_device_lost", "gauge", "1 once a GPU gives no results any more.",
         atomic_load(&m->device_lost)},
        {"berth_device_fallbacks_total", "counter",
         "Times that the CPU took over because a GPU was lost.",
         metric_value(&m->device_fallbacks)},
        {"berth_connections_open", "gauge", "Connections that are open now.",
         metric_value(&m->connections_open)},
        {"berth_connections_total", "counter", "Connections that were ever accepted.",
         metric_value(&m->connections_total)},
        {"berth_slots_used", "gauge", "Requests that were accepted and not yet answered.",
         metric_value(&m->slots_used)},
        {"berth_log_lines_dropped_total", "counter",
         "Log lines that were dropped because nobody read the log.", log_dropped()},
    };
    expose_rows(w, rows, N_ITEMS(rows));
}

static const char *const route_names[N_METRIC_ROUTES] = {
    [ROUTE_PREDICT] = "predict", [ROUTE_TOKENIZE] = "tokenize", [ROUTE_INFO] = "info",
    [ROUTE_HEALTH] = "health",   [ROUTE_METRICS] = "metrics",   [ROUTE_DEBUG] = "debug",
    [ROUTE_OTHER] = "other",
};
static void write_answers(struct json_writer *w, const struct metrics *m) {
    static const char *const classes[METRIC_STATUS_CLASSES] = {"0xx", "1xx", "2xx",
                                                               "3xx", "4xx", "5xx"};
    expose_family(w, "berth_requests_total", "counter", "Answers, by route and class of status.");
    for (int route = 0; route < N_METRIC_ROUTES; route++) {
        for (int c = 2; c < METRIC_STATUS_CLASSES; c++) {
            if (c != 3) {
                expose_sample(w, "berth_requests_total",
                              LABELS("route", route_names[route], "code", classes[c]),
                              metric_value(&m->requests[route][c]), UNIT_NONE);
            }
        }
    }
    expose_family(w, "berth_errors_total", "counter", "Answers that refuse, by status code.");
    for (int code = 400; code < (int)N_ITEMS(m->errors); code++) {
        const uint64_t n = metric_value(&m->errors[code]);
        if (n) {
            char text[16];
            snprintf(text, sizeof(text), "%d", code);
            expose_sample(w, "berth_errors_total", LABEL("code", text), n, UNIT_NONE);
        }
    }
}

static void write_outcomes(struct json_writer *w, const struct metrics *m) {
    const struct metric_row rows[] = {
        {"berth_requests_accepted_total", "counter", "Requests with a body that got a slot.",
         metric_value(&m->accepted)},
        {"berth_requests_answered_total", "counter", "Accepted requests that were answered.",
         metric_value(&m->answered)},
        {"berth_requests_refused_total", "counter", "Accepted requests that got an error.",
         metric_value(&m->refused)},
        {"berth_requests_cancelled_total", "counter", "Accepted requests whose client hung up.",
         metric_value(&m->cancelled)},
        {"berth_requests_expired_total", "counter", "Accepted requests whose time ran out.",
         metric_value(&m->expired)},
    };
    expose_rows(w, rows, N_ITEMS(rows));
}

static void write_stages(struct json_writer *w, const struct metrics *m) {
    expose_family(w, "berth_stage_seconds", "histogram",
                  "Time of an answered request in each stage; they add up to "
                  "berth_request_seconds.");
    for (int s = 0; s < N_STAGES; s++) {
        expose_durations(w, "berth_stage_seconds", (struct label){"stage", stage_names[s]},
                         &m->stages[s]);
    }
    expose_family(w, "berth_request_seconds", "histogram",
                  "Time of an answered request, headers to body bytes.");
    expose_durations(w, "berth_request_seconds", (struct label){NULL, NULL}, &m->total);
}

static void write_jobs(struct json_writer *w, const struct metrics *m) {
    const struct {
        const char *outcome;
        const counter *count;
    } outcomes[] = {{"done", &m->jobs_done},
                    {"failed", &m->jobs_failed},
                    {"cancelled", &m->jobs_cancelled},
                    {"expired", &m->jobs_expired}};
    expose_family(w, "berth_jobs_total", "counter", "Inputs, by how they ended.");
    for (size_t i = 0; i < N_ITEMS(outcomes); i++) {
        expose_sample(w, "berth_jobs_total", LABEL("outcome", outcomes[i].outcome),
                      metric_value(outcomes[i].count), UNIT_NONE);
    }
    expose_family(w, "berth_input_tokens", "histogram",
                  "Tokens of an input, special tokens counted, after truncation.");
    expose_row_counts(w, "berth_input_tokens", &m->input_tokens);
    const struct metric_row rows[] = {
        {"berth_tokens_truncated_total", "counter",
         "Tokens that were cut off because an input was too long.",
         metric_value(&m->tokens_truncated)},
        {"berth_item_errors_total", "counter",
         "Inputs whose error stands in their place in an answer (partial).",
         metric_value(&m->items_failed)}};
    expose_rows(w, rows, N_ITEMS(rows));
}

static void write_batches(struct json_writer *w, const struct metrics *m) {
    expose_family(w, "berth_batches_total", "counter", "Batches, by why they were started.");
    for (int i = 0; i < N_RELEASE_REASONS; i++) {
        expose_sample(w, "berth_batches_total", LABEL("reason", release_reason_names[i]),
                      metric_value(&m->batches[i]), UNIT_NONE);
    }
    expose_family(w, "berth_batch_jobs", "histogram", "Inputs of a batch.");
    expose_counts(w, "berth_batch_jobs", &m->batch_jobs);
    expose_family(w, "berth_batch_rows", "histogram", "Rows of a batch, padding included.");
    expose_row_counts(w, "berth_batch_rows", &m->batch_rows);
    expose_family(w, "berth_batch_seconds", "histogram", "Time of a batch's forward pass.");
    expose_durations(w, "berth_batch_seconds", (struct label){NULL, NULL}, &m->batch_ns);
    const struct metric_row rows[] = {
        {"berth_tokens_total", "counter", "Tokens that were computed for inputs.",
         metric_value(&m->tokens)},
        {"berth_rows_total", "counter", "Rows that were computed, padding included.",
         metric_value(&m->rows)},
        {"berth_device_launches_total", "counter",
         "Kernels and graphs that passes sent to a GPU; a graph is one.",
         metric_value(&m->launches)},
    };
    expose_rows(w, rows, N_ITEMS(rows));
    expose_family(w, "berth_op_seconds_total", "counter",
                  "Time of forward passes by kind of operation, averaged over a pass's threads.");
    for (int k = 0; k < N_OP_KINDS; k++) {
        expose_sample(w, "berth_op_seconds_total", LABEL("op", op_kind_names[k]),
                      metric_value(&m->op_ns[k]), UNIT_NS_AS_SECONDS);
    }
    expose_family(w, "berth_kernel_seconds_total", "counter",
                  "The same time by kernel, summed over the layers.");
    for (int k = 0; k < N_OP_STEPS; k++) {
        expose_sample(w, "berth_kernel_seconds_total", LABEL("kernel", op_step_names[k]),
                      metric_value(&m->step_ns[k]), UNIT_NS_AS_SECONDS);
    }
}

static uint64_t requests_of(const struct metrics *m, enum metric_route route, int from, int to) {
    uint64_t n = 0;
    for (int c = from; c <= to; c++) {
        n += metric_value(&m->requests[route][c]);
    }
    return n;
}
static void write_tei_requests(struct json_writer *w, const struct metrics *m) {
    static const enum metric_route routes[] = {ROUTE_PREDICT, ROUTE_TOKENIZE};
    static const struct {
        const char *err;
        int code;
    } failures[] = {{"empty", 400}, {"validation", 422}, {"backend", 424}, {"overloaded", 429}};
    expose_family(w, "te_request_count", "counter", "Requests, by method.");
    for (size_t i = 0; i < N_ITEMS(routes); i++) {
        expose_sample(w, "te_request_count", LABEL("method", route_names[routes[i]]),
                      requests_of(m, routes[i], 0, METRIC_STATUS_CLASSES - 1), UNIT_NONE);
    }
    expose_family(w, "te_request_success", "counter", "Requests that were answered, by method.");
    for (size_t i = 0; i < N_ITEMS(routes); i++) {
        expose_sample(w, "te_request_success", LABEL("method", route_names[routes[i]]),
                      requests_of(m, routes[i], 2, 2), UNIT_NONE);
    }
    expose_family(w, "te_request_failure", "counter", "Requests that were refused, by kind.");
    for (size_t i = 0; i < N_ITEMS(failures); i++) {
        expose_sample(w, "te_request_failure", LABEL("err", failures[i].err),
                      metric_value(&m->errors[failures[i].code]), UNIT_NONE);
    }
}
static void write_tei(struct json_writer *w, const struct metrics *m,
                      const struct metrics_view *view) {
    const struct {
        const char *name, *help;
        const struct histogram *h;
    } durations[] = {
        {"te_request_duration", "As berth_request_seconds.", &m->total},
        {"te_request_tokenization_duration", "As berth_stage_seconds, tokenize.",
         &m->stages[STAGE_TOKENIZE]},
        {"te_request_queue_duration", "As berth_stage_seconds, queue.", &m->stages[STAGE_QUEUE]},
        {"te_request_inference_duration", "As berth_stage_seconds, infer.",
         &m->stages[STAGE_INFER]},
    };
    write_tei_requests(w, m);
    for (size_t i = 0; i < N_ITEMS(durations); i++) {
        expose_family(w, durations[i].name, "histogram", durations[i].help);
        expose_durations(w, durations[i].name, (struct label){NULL, NULL}, durations[i].h);
    }
    expose_family(w, "te_request_input_length", "histogram", "As berth_input_tokens.");
    expose_row_counts(w, "te_request_input_length", &m->input_tokens);
    expose_family(w, "te_batch_next_size", "histogram", "As berth_batch_jobs.");
    expose_counts(w, "te_batch_next_size", &m->batch_jobs);
    expose_family(w, "te_batch_next_tokens", "histogram", "As berth_batch_rows.");
    expose_row_counts(w, "te_batch_next_tokens", &m->batch_rows);
    const uint64_t n_queued = (uint64_t)view->batcher.queues.n_jobs;
    const struct metric_row rows[] = {
        {"te_queue_size", "gauge", "Inputs that wait now.", n_queued}};
    expose_rows(w, rows, N_ITEMS(rows));
}

void metrics_give_back_memory(void) {
#if BERTH_HAVE_JEMALLOC
    char name[32];
    snprintf(name, sizeof(name), "arena.%u.purge", (unsigned)MALLCTL_ARENAS_ALL);
    (void)mallctl(name, NULL, NULL, NULL, 0); // what is not given back now goes with time
#elif defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

#if BERTH_HAVE_JEMALLOC
static uint64_t read_jemalloc(const char *name) {
    size_t value = 0, bytes = sizeof(value);
    return mallctl(name, &value, &bytes, NULL, 0) == 0 ? value : 0;
}
static void write_allocator(struct json_writer *w) {
    uint64_t epoch = 1;
    size_t bytes = sizeof(epoch);
    if (mallctl("epoch", &epoch, &bytes, &epoch, sizeof(epoch)) != 0) { // brings figures up to date
        return;
    }
    const struct metric_row rows[] = {
        {"berth_jemalloc_allocated_bytes", "gauge", "Bytes that the program has asked for.",
         read_jemalloc("stats.allocated")},
        {"berth_jemalloc_active_bytes", "gauge", "Bytes of pages that hold them.",
         read_jemalloc("stats.active")},
        {"berth_jemalloc_resident_bytes", "gauge", "Bytes that the allocator keeps resident.",
         read_jemalloc("stats.resident")},
        {"berth_jemalloc_metadata_bytes", "gauge", "Bytes of the allocator's own.",
         read_jemalloc("stats.metadata")},
    };
    expose_rows(w, rows, N_ITEMS(rows));
}
#endif

char *metrics_write(const struct metrics *m, const struct metrics_view *view, struct arena *arena,
                    size_t *len) {
    struct json_writer w;
    json_writer_init(&w, arena);
    write_server(&w, m, view);
    write_answers(&w, m);
    write_outcomes(&w, m);
    write_stages(&w, m);
    write_jobs(&w, m);
    write_batches(&w, m);
    expose_gpus(&w, view->gpus);
    expose_scheduling(&w, m, view);
    write_tei(&w, m, view);
#if BERTH_HAVE_JEMALLOC
    write_allocator(&w);
#endif
    expose_process(&w);
    *len = w.len;
    return w.failed ? NULL : w.data;
}
