/* prepare.c - the head of every request is put together once; only its length is written anew. */
#include "bench/client/prepare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/timing.h"

enum { OTHER_FILES = 32 }; // standard streams, reports

struct dialect {
    const char *name, *path, *field;
    bool reads_tei;
};
static const struct dialect dialects[] = {
    {"native", "/predict", "inputs", false},
    {"tei", "/predict", "inputs", true},
};

static const struct dialect *find_dialect(const char *name) {
    for (size_t i = 0; i < N_ITEMS(dialects); i++) {
        if (!strcmp(name, dialects[i].name)) {
            return &dialects[i];
        }
    }
    return NULL;
}
static enum status set_kind(struct plan *p, const char *name, struct error *err) {
    for (int i = 0; i < N_ARRIVAL_KINDS; i++) {
        if (!strcmp(name, arrival_kind_names[i])) {
            p->kind = (enum arrival_kind)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_INVALID, "--arrivals %.40s: expected constant, poisson or bursts",
                     name);
}

/* "Name: value", without anything that would end it early or change the framing. */
static enum status check_header(const char *header, struct error *err) {
    static const char *const own[] = {"content-length", "transfer-encoding", "connection"};
    const size_t n_name = strcspn(header, ":");
    const size_t n_token = strspn(header, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789!#$%&'*+-.^_`|~");
    if (n_name == 0 || !header[n_name] || n_token < n_name) {
        return error_set(err, STATUS_INVALID, "--header %.60s: expected \"Name: value\"", header);
    }
    for (const char *c = header; *c; c++) {
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f) {
            return error_set(err, STATUS_INVALID, "--header %.*s: a control character in it",
                             (int)n_name, header);
        }
    }
    for (size_t i = 0; i < N_ITEMS(own); i++) {
        if (strlen(own[i]) == n_name && !strncasecmp(own[i], header, n_name)) {
            return error_set(err, STATUS_INVALID, "--header %s is the client's own", own[i]);
        }
    }
    return STATUS_OK;
}
static bool has_header(const struct bench_config *cfg, const char *name) {
    for (int i = 0; i < cfg->n_headers; i++) {
        if (!strncasecmp(cfg->headers[i], name, strlen(name)) &&
            cfg->headers[i][strlen(name)] == ':') {
            return true;
        }
    }
    return false;
}
static bool add(struct plan *p, const char *a, const char *b, const char *c) {
    const size_t room = sizeof(p->head) - p->n_head;
    const int n = snprintf(p->head + p->n_head, room, "%s%s%s", a, b, c);
    p->n_head += (size_t)n < room ? (size_t)n : 0;
    return (size_t)n < room;
}
static enum status make_head(struct plan *p, const struct bench_config *cfg, const struct url *u,
                             const char *path, struct error *err) {
    bool fits = add(p, cfg->method, " ", path) && add(p, " HTTP/1.1\r\n", "", "");
    fits = fits && (has_header(cfg, "Host") || add(p, "Host: ", u->authority, "\r\n"));
    fits = fits && (has_header(cfg, "User-Agent") ||
                    add(p, "User-Agent: berth-bench/", BERTH_VERSION, "\r\n"));
    fits = fits && (!p->has_body || has_header(cfg, "Content-Type") ||
                    add(p, "Content-Type: application/json\r\n", "", ""));
    for (int i = 0; i < cfg->n_headers; i++) {
        const enum status s = check_header(cfg->headers[i], err);
        if (s) {
            return s;
        }
        fits = fits && add(p, cfg->headers[i], "\r\n", "");
    }
    return fits ? STATUS_OK
                : error_set(err, STATUS_TOO_LONG, "the headers are over %d bytes", PLAN_HEAD_BYTES);
}
/* "name" is a string, "name[]" a list of one. */
static void make_body(struct plan *p, const char *field) {
    const size_t n = strlen(field);
    const bool is_list = n > 2 && !strcmp(field + n - 2, "[]");
    const int n_name = (int)(is_list ? n - 2 : n);
    snprintf(p->before, sizeof(p->before), "{\"%.*s\":%s\"", n_name, field, is_list ? "[" : "");
    snprintf(p->after, sizeof(p->after), "\"%s}", is_list ? "]" : "");
}
static enum status check_words(const struct bench_config *cfg, const char *path, const char *field,
                               struct error *err) {
    if (strcmp(cfg->method, "POST") != 0 && strcmp(cfg->method, "GET") != 0) {
        return error_set(err, STATUS_INVALID, "--method %.20s: expected POST or GET", cfg->method);
    }
    for (const char *c = path; *c; c++) {
        if (*path != '/' || *c <= ' ' || *c > '~' || *c == '#') {
            return error_set(err, STATUS_INVALID, "--path %.80s: expected /WORDS in ASCII", path);
        }
    }
    for (const char *c = field; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\') {
            return error_set(err, STATUS_INVALID, "--field %.80s: no quotes, escapes or controls",
                             field);
        }
    }
    return *path && *field && strlen(field) < 200
               ? STATUS_OK
               : error_set(err, STATUS_INVALID, "--path and --field need 1 to 199 letters");
}
static enum status prepare_request(struct load *l, const struct bench_config *cfg,
                                   struct error *err) {
    struct plan *p = &l->plan;
    const struct dialect *d = find_dialect(cfg->dialect);
    if (!d) {
        return error_set(err, STATUS_INVALID, "--dialect %.40s: expected native or tei",
                         cfg->dialect);
    }
    const char *path = cfg->path ? cfg->path : *l->url.path ? l->url.path : d->path;
    const char *field = cfg->field ? cfg->field : d->field;
    const enum status s = check_words(cfg, path, field, err);
    if (s) {
        return s;
    }
    p->has_body = !strcmp(cfg->method, "POST");
    p->rules = (struct answer_rules){&l->stages, cfg->max_body_bytes, d->reads_tei};
    make_body(p, field);
    snprintf(l->target, sizeof(l->target), "http://%s%s", l->url.authority, path);
    return make_head(p, cfg, &l->url, path, err);
}

static enum status prepare_texts(struct load *l, const struct bench_config *cfg,
                                 struct error *err) {
    if (cfg->texts && cfg->lengths) {
        return error_set(err, STATUS_INVALID, "--texts and --lengths exclude each other");
    }
    enum status s = STATUS_OK;
    if (cfg->texts) {
        s = texts_read(&l->texts, cfg->texts, err);
    } else {
        struct lengths *lengths = xcalloc(1, sizeof(*lengths));
        s = text_lengths_parse(lengths, cfg->lengths ? cfg->lengths : "mixed", cfg->max_tokens,
                               err);
        if (!s) {
            l->texts = texts_draw(lengths, (uint64_t)cfg->seed);
        } else {
            s = error_prefix(err, s, "--lengths");
        }
        free(lengths);
    }
    l->plan.texts = l->texts;
    return s;
}
static enum status prepare_trace(struct load *l, const struct bench_config *cfg,
                                 struct error *err) {
    const enum status s = trace_read(&l->trace, cfg->trace, err);
    if (s) {
        return s;
    }
    if (l->trace.n == 0) {
        return error_set(err, STATUS_INVALID, "%s: no arrivals in it", cfg->trace);
    }
    l->plan.trace = &l->trace;
    l->plan.speed = cfg->speed;
    l->plan.window_ns =
        cfg->duration_s > 0
            ? (int64_t)(cfg->duration_s * 1e9)
            : (int64_t)((double)l->trace.arrivals[l->trace.n - 1].at_ns / cfg->speed) + 1;
    return STATUS_OK;
}
/* A duration, a number of requests, or the shorter of both; 10 seconds when neither is said. */
static double seconds_of(const struct bench_config *cfg) {
    return cfg->duration_s > 0 ? cfg->duration_s : cfg->requests > 0 ? SCHEDULE_MAX_SECONDS : 10;
}
static enum status prepare_rate(struct plan *p, const struct bench_config *cfg, struct error *err) {
    const enum status s =
        rate_plan_parse(&p->rate, cfg->rate ? cfg->rate : "50", seconds_of(cfg), err);
    if (s) {
        return error_prefix(err, s, "--rate");
    }
    p->window_ns = (int64_t)(rate_plan_seconds(&p->rate) * 1e9);
    return STATUS_OK;
}
static enum status prepare_schedule(struct load *l, const struct bench_config *cfg,
                                    struct error *err) {
    struct plan *p = &l->plan;
    if ((cfg->rate != NULL) + (cfg->trace != NULL) + (cfg->connections > 0) > 1) {
        return error_set(err, STATUS_INVALID,
                         "--rate, --trace and --connections (closed loop) exclude each other");
    }
    p->is_closed_loop = cfg->connections > 0;
    p->n_connections = p->is_closed_loop ? cfg->connections : cfg->max_connections;
    p->n_threads = cfg->threads < p->n_connections ? cfg->threads : p->n_connections;
    p->warmup_s = cfg->warmup_s;
    p->seed = (uint64_t)cfg->seed;
    p->max_requests = cfg->requests > 0 ? cfg->requests : INT64_MAX;
    p->timeout_ns = (int64_t)(cfg->timeout_s * 1e9);
    p->give_up_ns = (int64_t)(cfg->give_up_s * 1e9);
    p->spin_ns = cfg->spin_us * INT64_C(1000);
    p->window_ns = (int64_t)(seconds_of(cfg) * 1e9);
    enum status s = set_kind(p, cfg->arrivals, err);
    if (!s && cfg->trace) {
        s = prepare_trace(l, cfg, err);
    } else if (!s && !p->is_closed_loop) {
        s = prepare_rate(p, cfg, err);
    }
    return s;
}
/* A connection is a file; the soft limit on them is often 1,024, and may be raised to the hard one.
 */
static enum status allow_files(const struct plan *p, struct error *err) {
    const rlim_t wanted = (rlim_t)p->n_connections + OTHER_FILES + 2 * (rlim_t)p->n_threads;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) {
        return STATUS_OK;
    }
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (limit.rlim_cur < wanted || setrlimit(RLIMIT_NOFILE, &limit)) {
        return error_set(err, STATUS_INVALID,
                         "%d connections need %llu open files and the limit is %llu (ulimit -n): "
                         "lower --connections or --max-connections, or raise it",
                         p->n_connections, (unsigned long long)wanted,
                         (unsigned long long)limit.rlim_max);
    }
    return STATUS_OK;
}
enum status load_prepare(struct load *out, const struct bench_config *cfg, struct error *err) {
    memset(out, 0, sizeof(*out));
    stages_init(&out->stages);
    pthread_mutex_init(&out->plan.reason_lock, NULL);
    out->has_plan = true;
    enum status s = url_parse(&out->url, cfg->url, err);
    s = s ? s : prepare_request(out, cfg, err);
    s = s ? s : prepare_schedule(out, cfg, err);
    s = s ? s : allow_files(&out->plan, err);
    s = s ? s : prepare_texts(out, cfg, err);
    s = s ? s : url_resolve(&out->plan.address, &out->url, err);
    return s;
}
void load_finish(struct load *l) {
    if (l->has_plan) {
        pthread_mutex_destroy(&l->plan.reason_lock);
        stages_finish(&l->stages);
        texts_destroy(l->texts);
        trace_finish(&l->trace);
    }
}
