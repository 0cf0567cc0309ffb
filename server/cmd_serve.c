/* cmd_serve.c - the server's life: listen, load, be ready, drain, close.
 * HTTP comes first, so that health checks are answered (503) while the model loads; it goes first
 * too, because an answer needs the engine until it has left. */
#include "server/commands.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/timing.h"
#include "server/accelerator.h"
#include "server/engine.h"
#include "server/gpu_watch.h"
#include "server/http.h"
#include "server/json.h"
#include "server/live.h"
#include "server/signals.h"

struct server {
    const struct options *opt;
    const struct config *cfg;
    struct server_context context;
    struct signals *signals;
    struct http *http;
    struct engine *engine;
    struct recorder *recorder;
    int port;
};

static double ms_between(int64_t start_ns, int64_t end_ns) {
    return (double)(end_ns - start_ns) / NS_PER_MS;
}
static void warn_of_exposure(const struct config *cfg) {
    if (!config_host_is_loopback(cfg->server.host)) {
        log_event(LOG_WARN, "exposed", LOG_STR("host", cfg->server.host),
                  LOG_STR("reason", *cfg->auth.keys_file
                                        ? "there is no TLS: keys and texts can be read on the way; "
                                          "put a proxy in front"
                                        : "anyone who reaches this address may ask: there are no "
                                          "API keys and no TLS; put a proxy in front"));
    }
}
static enum status open_keys(struct server *s, struct error *err) {
    if (!*s->cfg->auth.keys_file) {
        return STATUS_OK;
    }
    const enum status status = keys_open(&s->context.keys, s->cfg->auth.keys_file, err);
    if (status) {
        return error_prefix(err, status, "auth.keys_file");
    }
    log_event(LOG_INFO, "keys", LOG_INT("count", keys_count(s->context.keys)));
    return STATUS_OK;
}
static void log_ready(const struct server *s, double total_ms) {
    const struct engine_info *info = engine_get_info(s->engine);
    struct engine_device device;
    engine_get_device(s->engine, &device);
    log_event(LOG_INFO, "ready", LOG_STR("host", s->cfg->server.host), LOG_INT("port", s->port),
              LOG_STR("model", info->model_name), LOG_STR("backend", device.backend),
              LOG_STR("detail", device.detail), LOG_STR("dtype", device.dtype),
              LOG_INT("workers", device.n_workers), LOG_INT("threads", device.n_threads),
              LOG_STR("mode", batch_mode_names[info->policy.mode]),
              LOG_INT("max_input_tokens", info->max_input_tokens), LOG_NUM("ms", total_ms));
}
static enum status start_recorder(struct server *s, struct error *err) {
    const struct recorder_config cfg = {s->cfg->batching.record, s->cfg->batching.record_max_bytes};
    const enum status status = recorder_start(&s->recorder, &cfg, time_now_ns(), err);
    s->context.recorder = s->recorder;
    return status;
}
static void look(void *arg) {
    http_look(arg);
}
static enum status start(struct server *s, struct error *err) {
    const int64_t start_ns = time_now_ns();
    enum status status = signals_start(&s->signals, err);
    if (!status) {
        status = log_start(STDERR_FILENO, err);
    }
    if (!status) {
        log_event(LOG_INFO, "start", LOG_STR("version", BERTH_VERSION),
                  LOG_INT("pid", (int64_t)getpid()), LOG_STR("model_dir", s->cfg->model.dir));
        warn_of_exposure(s->cfg);
        status = start_recorder(s, err);
    }
    if (!status) {
        status = open_keys(s, err);
    }
    if (!status) {
        s->context.live = live_create(s->opt, &s->context);
        status = http_start(&s->http, &s->context, &s->port, err);
    }
    if (status) {
        return status;
    }
    log_event(LOG_INFO, "cold_start", LOG_STR("stage", "listen"),
              LOG_NUM("ms", ms_between(start_ns, time_now_ns())));
    status = engine_open(&s->engine, s->cfg, s->context.metrics, err);
    if (status) {
        return status;
    }
    batcher_set_look(engine_batcher(s->engine), look, s->http);
    status = live_begin(s->context.live, s->engine, err);
    if (status) {
        return status;
    }
    gpu_watch_start(&s->context.gpus, engine_devices(s->engine), s->cfg->compute.gpu_sample_ms);
    atomic_store(&s->context.engine, s->engine);
    atomic_store(&s->context.metrics->ready, true);
    log_ready(s, ms_between(start_ns, time_now_ns()));
    return STATUS_OK;
}
static void serve_until_told(struct server *s) {
    int number;
    while ((number = signals_wait(s->signals)) == SIGHUP) {
        struct error err = {.text = ""};
        (void)!live_reload(s->context.live, &err); // it logs what went wrong
    }
    log_event(LOG_INFO, "drain", LOG_STR("signal", strsignal(number)),
              LOG_INT("timeout_ms", s->cfg->server.drain_timeout_ms));
    atomic_store(&s->context.metrics->ready, false);
}
static void stop(struct server *s) {
    http_stop(s->http);
    engine_close(s->engine); // whose workers look at hang-ups
    http_close(s->http);
    gpu_watch_stop(s->context.gpus);
    recorder_stop(s->recorder);
    live_destroy(s->context.live);
    keys_close(s->context.keys);
}
int cmd_serve(const struct options *opt) {
    struct server s = {.opt = opt, .cfg = &opt->cfg, .port = opt->cfg.server.port};
    struct error err = {.text = ""};
    json_init();
    s.context.cfg = s.cfg;
    s.context.metrics = xcalloc(1, sizeof(*s.context.metrics));
    const enum status status = start(&s, &err);
    if (status) {
        log_event(LOG_ERROR, "start_failed", LOG_STR("status", status_name(status)),
                  LOG_STR("reason", err.text));
    } else {
        serve_until_told(&s);
    }
    stop(&s);
    if (!status) {
        log_event(LOG_INFO, "stop", LOG_INT("log_lines_dropped", (int64_t)log_dropped()));
    }
    log_stop();
    signals_stop(s.signals);
    if (atomic_load(&s.context.metrics->device_hung)) { // at exit() its library would wait for it
        fflush(NULL);
        _exit(EXIT_FAULT);
    }
    const bool was_lost = atomic_load(&s.context.metrics->device_lost); // a supervisor starts anew
    free(s.context.metrics);
    if (status) {
        fprintf(stderr, "berth: serve: %s\n", err.text);
    }
    return status || was_lost ? EXIT_FAULT : 0;
}

static enum status check(const struct config *cfg, struct error *err) {
    struct keys *keys = NULL;
    enum status s = STATUS_OK;
    if (*cfg->auth.keys_file) {
        s = keys_open(&keys, cfg->auth.keys_file, err);
        keys_close(keys);
    }
    if (s) {
        return error_prefix(err, s, "auth.keys_file");
    }
    return *cfg->model.dir ? engine_check(cfg, err) : STATUS_OK;
}
/* What was left to the program depends on the machine. */
static void tell_defaults(const struct config *cfg) {
    struct device_choice choice;
    struct error unused;
    if (!cfg->batching.max_batch_tokens) {
        const bool on_gpu = !device_choose(&choice, cfg, &unused) && device_is_gpu(&choice);
        fprintf(stderr, "berth: serve: batching.max_batch_tokens is not set: %d here, on a %s\n",
                config_batch_tokens(cfg, on_gpu), on_gpu ? "GPU" : "CPU");
    }
}
int cmd_serve_check(const struct options *opt) {
    struct error err = {.text = ""};
    json_init();
    log_set_level(LOG_WARN);
    if (check(&opt->cfg, &err)) {
        fprintf(stderr, "berth: serve: %s\n", err.text);
        return EXIT_FAULT;
    }
    tell_defaults(&opt->cfg);
    puts("OK");
    return 0;
}
