/* routes_ops.c - what operators and their tools ask for: health, info, metrics.
 * Health tells a load balancer whether to send requests (ready: 200), live tells a supervisor not
 * to restart the process (always 200). All answers are made from what the engine and the metrics
 * say at that moment; nothing here waits, and nothing but /info needs the model. */
#include "server/json.h"
#include "server/response.h"
#include "server/routes_internal.h"

#include <string.h>

static void reply_literal(struct request *r, const char *body) {
    reply_json(r, 200, body, strlen(body));
}

void live_start(struct server_context *ctx, struct request *r) {
    reply_literal(r, "{\"status\":\"live\"}");
}

void health_start(struct server_context *ctx, struct request *r) {
    const struct engine *engine = atomic_load(&ctx->engine);
    if (atomic_load(&ctx->draining)) {
        reply_error(r, REFUSE_UNAVAILABLE, "the server is shutting down");
    } else if (!engine) {
        reply_error(r, REFUSE_UNAVAILABLE, "the model is still loading");
    } else if (!engine_is_healthy(engine)) {
        reply_error(r, REFUSE_UNAVAILABLE, "a device has failed");
    } else {
        reply_literal(r, "{\"status\":\"ready\"}");
    }
}

/* "key":value pairs; the first of an object has no comma before it. */
static void write_key(struct json_writer *w, const char *key) {
    const char last = w->failed || w->len == 0 ? '{' : w->data[w->len - 1];
    json_write_raw(w, last == '{' || last == '[' ? "" : ",");
    json_write_string(w, key, strlen(key));
    json_write_raw(w, ":");
}
static void write_text(struct json_writer *w, const char *key, const char *value) {
    write_key(w, key);
    json_write_string(w, value, strlen(value));
}
static void write_int(struct json_writer *w, const char *key, int64_t value) {
    write_key(w, key);
    json_write_int(w, value);
}
static void write_ms(struct json_writer *w, const char *key, double ms) {
    write_key(w, key);
    json_write_float(w, (float)ms);
}
static void write_literal(struct json_writer *w, const char *key, const char *literal) {
    write_key(w, key);
    json_write_raw(w, literal);
}

static bool is_repeated_label(const struct model_config *m, int index) {
    for (int i = 0; i < index; i++) {
        if (strcmp(m->labels[i], m->labels[index]) == 0) {
            return true;
        }
    }
    return false;
}
/* {"classifier":{"id2label":{"0":"no"},"label2id":{"no":0}}} */
static void write_model_type(struct json_writer *w, const struct model_config *m) {
    write_literal(w, "model_type", "{\"classifier\":{\"id2label\":{");
    for (int i = 0; i < m->n_labels; i++) {
        json_write_raw(w, i ? ",\"" : "\"");
        json_write_int(w, i);
        json_write_raw(w, "\":");
        json_write_string(w, m->labels[i], strlen(m->labels[i]));
    }
    json_write_raw(w, "},\"label2id\":{");
    for (int i = 0; i < m->n_labels; i++) {
        if (!is_repeated_label(m, i)) { // keys of an object are told once
            write_int(w, m->labels[i], i);
        }
    }
    json_write_raw(w, "}}}");
}

static void write_buckets(struct json_writer *w, const struct policy_config *p) {
    write_literal(w, "buckets", "[");
    for (int i = 0; i < p->n_buckets; i++) {
        const struct bucket_limits *b = &p->buckets[i];
        json_write_raw(w, i ? ",{" : "{");
        write_int(w, "up_to", b->up_to);
        write_int(w, "max_batch_tokens", b->max_batch_tokens);
        write_int(w, "max_batch_requests", b->max_batch_requests);
        write_ms(w, "max_wait_ms", (double)b->max_wait_ns / (double)NS_PER_MS);
        json_write_raw(w, "}");
    }
    json_write_raw(w, "]");
}

/* What only Berth has, in an object of its own, so that TEI's names stay TEI's. */
static void write_own(struct json_writer *w, const struct engine_info *info,
                      const struct model_config *m) {
    write_literal(w, "berth", "{");
    write_text(w, "architecture", m->architecture);
    write_text(w, "backend", info->backend);
    write_text(w, "backend_detail", info->backend_detail);
    write_text(w, "batching_mode", batch_mode_names[info->policy.mode]);
    write_buckets(w, &info->policy);
    write_int(w, "workers", info->n_workers);
    write_int(w, "threads", info->n_threads);
    write_literal(w, "cold_start_ms", "{");
    write_ms(w, "map", info->map_ms);
    write_ms(w, "check", info->check_ms);
    write_ms(w, "convert", info->convert_ms);
    write_ms(w, "tune", info->tune_ms);
    write_ms(w, "warm_up", info->warm_up_ms);
    json_write_raw(w, "}}");
}

static void write_info(struct json_writer *w, const struct config *cfg,
                       const struct engine_info *info, const struct model_config *m) {
    int max_tokens = 0, max_requests = 0;
    for (int i = 0; i < info->policy.n_buckets; i++) {
        const struct bucket_limits *b = &info->policy.buckets[i];
        max_tokens = b->max_batch_tokens > max_tokens ? b->max_batch_tokens : max_tokens;
        max_requests = b->max_batch_requests > max_requests ? b->max_batch_requests : max_requests;
    }
    json_write_raw(w, "{");
    write_text(w, "model_id", m->name_or_path[0] ? m->name_or_path : info->model_name);
    write_literal(w, "model_sha", "null");
    write_text(w, "model_dtype", info->dtype);
    write_text(w, "served_model_name", info->model_name);
    write_model_type(w, m);
    write_int(w, "max_concurrent_requests", cfg->server.max_concurrent_requests);
    write_int(w, "max_input_length", info->max_input_tokens);
    write_int(w, "max_batch_tokens", max_tokens);
    write_int(w, "max_batch_requests", max_requests);
    write_int(w, "max_client_batch_size", cfg->server.max_client_batch_size);
    write_literal(w, "auto_truncate", cfg->model.auto_truncate ? "true" : "false");
    write_int(w, "tokenization_workers", cfg->server.http_threads);
    write_text(w, "version", BERTH_VERSION);
    write_literal(w, "sha", "null");
    write_literal(w, "docker_label", "null");
    write_own(w, info, m);
    json_write_raw(w, "}");
}

static void reply_buffer(struct request *r, const struct json_writer *w) {
    if (w->failed) {
        reply_error(r, REFUSE_INTERNAL, "the answer does not fit into a request's memory");
    } else {
        reply_json(r, 200, w->data, w->len);
    }
}

void info_start(struct server_context *ctx, struct request *r) {
    const struct engine *engine = atomic_load(&ctx->engine);
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    write_info(&w, ctx->cfg, engine_get_info(engine), engine_model(engine));
    reply_buffer(r, &w);
}

void metrics_start(struct server_context *ctx, struct request *r) {
    struct engine *engine = atomic_load(&ctx->engine);
    struct metrics_view view = {0};
    if (engine) {
        const struct engine_info *info = engine_get_info(engine);
        view.policy = &info->policy;
        view.model_name = info->model_name;
        view.backend = info->backend;
        view.dtype = info->dtype;
        batcher_get_stats(engine_batcher(engine), &view.batcher);
    }
    size_t len = 0;
    const char *text = metrics_write(ctx->metrics, &view, &r->arena, &len);
    if (!text) {
        reply_error(r, REFUSE_INTERNAL, "the metrics do not fit into a request's memory");
        return;
    }
    reply_json(r, 200, text, len);
    r->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
}
