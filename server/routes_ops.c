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
    json_field_raw(w, "model_type", "{\"classifier\":{\"id2label\":{");
    for (int i = 0; i < m->n_labels; i++) {
        json_write_raw(w, i ? ",\"" : "\"");
        json_write_int(w, i);
        json_write_raw(w, "\":");
        json_write_string(w, m->labels[i], strlen(m->labels[i]));
    }
    json_write_raw(w, "},\"label2id\":{");
    for (int i = 0; i < m->n_labels; i++) {
        if (!is_repeated_label(m, i)) { // keys of an object are told once
            json_field_int(w, m->labels[i], i);
        }
    }
    json_write_raw(w, "}}}");
}

static void write_buckets(struct json_writer *w, const struct policy_config *p) {
    json_field_raw(w, "buckets", "[");
    for (int i = 0; i < p->n_buckets; i++) {
        const struct bucket_limits *b = &p->buckets[i];
        json_write_raw(w, i ? ",{" : "{");
        json_field_int(w, "up_to", b->up_to);
        json_field_int(w, "max_batch_tokens", b->max_batch_tokens);
        json_field_int(w, "max_batch_requests", b->max_batch_requests);
        json_field_number(w, "max_wait_ms", (double)b->max_wait_ns / (double)NS_PER_MS);
        json_write_raw(w, "}");
    }
    json_write_raw(w, "]");
}

/* What only Berth has, in an object of its own, so that TEI's names stay TEI's. */
static void write_own(struct json_writer *w, const struct engine_info *info,
                      const struct engine_device *device, const struct policy_config *policy,
                      const struct model_config *m) {
    json_field_raw(w, "berth", "{");
    json_field_text(w, "architecture", m->architecture);
    json_field_text(w, "backend", device->backend);
    json_field_text(w, "backend_detail", device->detail);
    json_field_text(w, "batching_mode", batch_mode_names[policy->mode]);
    write_buckets(w, policy);
    json_field_int(w, "workers", device->n_workers);
    json_field_int(w, "threads", device->n_threads);
    json_field_raw(w, "cold_start_ms", "{");
    json_field_number(w, "map", info->map_ms);
    json_field_number(w, "check", info->check_ms);
    json_field_number(w, "convert", info->convert_ms);
    json_field_number(w, "tune", info->tune_ms);
    json_field_number(w, "warm_up", info->warm_up_ms);
    json_write_raw(w, "}}");
}

static void write_info(struct json_writer *w, const struct config *cfg,
                       const struct engine_info *info, const struct engine_device *device,
                       const struct policy_config *policy, const struct model_config *m) {
    int max_tokens = 0, max_requests = 0;
    for (int i = 0; i < policy->n_buckets; i++) {
        const struct bucket_limits *b = &policy->buckets[i];
        max_tokens = b->max_batch_tokens > max_tokens ? b->max_batch_tokens : max_tokens;
        max_requests = b->max_batch_requests > max_requests ? b->max_batch_requests : max_requests;
    }
    json_write_raw(w, "{");
    json_field_text(w, "model_id", m->name_or_path[0] ? m->name_or_path : info->model_name);
    json_field_raw(w, "model_sha", "null");
    json_field_text(w, "model_dtype", device->dtype);
    json_field_text(w, "served_model_name", info->model_name);
    write_model_type(w, m);
    json_field_int(w, "max_concurrent_requests", cfg->server.max_concurrent_requests);
    json_field_int(w, "max_input_length", info->max_input_tokens);
    json_field_int(w, "max_batch_tokens", max_tokens);
    json_field_int(w, "max_batch_requests", max_requests);
    json_field_int(w, "max_client_batch_size", cfg->server.max_client_batch_size);
    json_field_raw(w, "auto_truncate", cfg->model.auto_truncate ? "true" : "false");
    json_field_int(w, "tokenization_workers", cfg->server.http_threads);
    json_field_text(w, "version", BERTH_VERSION);
    json_field_raw(w, "sha", "null");
    json_field_raw(w, "docker_label", "null");
    write_own(w, info, device, policy, m);
    json_write_raw(w, "}");
}

void reply_buffer(struct request *r, const struct json_writer *w) {
    if (w->failed) {
        reply_error(r, REFUSE_INTERNAL, "the answer does not fit into a request's memory");
    } else {
        reply_json(r, 200, w->data, w->len);
    }
}

void info_start(struct server_context *ctx, struct request *r) {
    struct engine *engine = atomic_load(&ctx->engine);
    struct policy_config policy;
    struct engine_device device;
    struct json_writer w;
    batcher_get_policy(engine_batcher(engine), &policy);
    engine_get_device(engine, &device);
    json_writer_init(&w, &r->arena);
    write_info(&w, ctx->cfg, engine_get_info(engine), &device, &policy, engine_model(engine));
    reply_buffer(r, &w);
}

void metrics_start(struct server_context *ctx, struct request *r) {
    struct engine *engine = atomic_load(&ctx->engine);
    struct metrics_view view = {.keys = ctx->keys};
    struct policy_config policy;
    struct engine_device device;
    if (engine) {
        engine_get_device(engine, &device);
        batcher_get_policy(engine_batcher(engine), &policy);
        view.policy = &policy;
        view.model_name = engine_get_info(engine)->model_name;
        view.backend = device.backend;
        view.dtype = device.dtype;
        view.gpus = ctx->gpus;
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
