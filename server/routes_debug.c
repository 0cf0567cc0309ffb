/* routes_debug.c - what an operator looks at and turns while the server runs.
 * The paths lie under /debug/, for which access.c asks an admin's key. Figures of a bucket are
 * those since the start (or since its bound first came up) and what waits at this moment; they are
 * read one by one while others count, as in /metrics. */
#include "server/json.h"
#include "server/live.h"
#include "server/response.h"
#include "server/routes_internal.h"

#include <string.h>

static double ms_of(int64_t ns) {
    return (double)ns / (double)NS_PER_MS;
}
static double ratio_of(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}
static void write_waits(struct json_writer *w, const struct histogram *h) {
    json_field_raw(w, "wait_ms", "{");
    json_field_number(w, "p50", ms_of(histogram_quantile(h, 0.5)));
    json_field_number(w, "p95", ms_of(histogram_quantile(h, 0.95)));
    json_field_number(w, "p99", ms_of(histogram_quantile(h, 0.99)));
    json_write_raw(w, "}");
}
static void write_reasons(struct json_writer *w, const struct bucket_metrics *m) {
    json_field_raw(w, "release", "{");
    for (int i = 0; i < N_RELEASE_REASONS; i++) {
        json_field_int(w, release_reason_names[i], (int64_t)atomic_load(&m->reasons[i]));
    }
    json_write_raw(w, "}");
}
static void write_limits(struct json_writer *w, const struct bucket_limits *b) {
    json_field_int(w, "up_to", b->up_to);
    json_field_int(w, "max_batch_tokens", b->max_batch_tokens);
    json_field_int(w, "max_batch_requests", b->max_batch_requests);
    json_field_number(w, "max_wait_ms", ms_of(b->max_wait_ns));
}
/* fill: rows of its batches by the rows they could have had; above 1 where inputs are longer. */
static void write_counts(struct json_writer *w, const struct bucket_metrics *m) {
    const uint64_t rows = atomic_load(&m->rows), tokens = atomic_load(&m->tokens);
    json_field_int(w, "jobs", (int64_t)atomic_load(&m->jobs));
    json_field_int(w, "batches", (int64_t)atomic_load(&m->batches));
    json_field_int(w, "tokens", (int64_t)tokens);
    json_field_int(w, "rows", (int64_t)rows);
    json_field_number(w, "fill", ratio_of(rows, atomic_load(&m->room)));
    json_field_number(w, "padding_ratio", rows > tokens ? ratio_of(rows - tokens, rows) : 0);
    write_waits(w, &m->wait);
    write_reasons(w, m);
}
static void write_bucket(struct json_writer *w, const struct server_context *ctx,
                         const struct bucket_limits *limits, const struct queues_stats *queues,
                         int index) {
    const int64_t oldest_ns = queues->oldest_ns[index];
    json_write_raw(w, index ? ",{" : "{");
    write_limits(w, limits);
    json_field_int(w, "queued", queues->n_queued[index]);
    json_field_int(w, "queued_tokens", queues->n_queued_tokens[index]);
    json_field_number(w, "oldest_wait_ms", oldest_ns ? ms_of(time_now_ns() - oldest_ns) : 0);
    write_counts(w, metrics_bucket_at(ctx->metrics, limits->up_to));
    json_write_raw(w, "}");
}
static void write_policy(struct json_writer *w, const struct policy_config *p) {
    json_field_text(w, "mode", batch_mode_names[p->mode]);
    json_field_number(w, "max_batch_ms", ms_of(p->max_batch_ns));
    json_field_number(w, "rank_cost_factor", p->rank_cost_factor);
    json_field_raw(w, "interrupt", p->interrupt ? "true" : "false");
    json_field_raw(w, "priority_ms", "{");
    for (int i = 0; i < N_PRIORITIES; i++) {
        json_field_number(w, priority_names[i], ms_of(p->priority_ns[i]));
    }
    json_write_raw(w, "}");
}
void buckets_start(struct server_context *ctx, struct request *r) {
    struct batcher *b = engine_batcher(atomic_load(&ctx->engine));
    struct policy_config policy;
    struct batcher_stats stats;
    struct json_writer w;
    batcher_get_policy(b, &policy);
    batcher_get_stats(b, &stats);
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{");
    write_policy(&w, &policy);
    json_field_raw(&w, "buckets", "[");
    for (int i = 0; i < policy.n_buckets; i++) {
        write_bucket(&w, ctx, &policy.buckets[i], &stats.queues, i);
    }
    json_write_raw(&w, "]}");
    reply_buffer(r, &w);
}

void buckets_put_start(struct server_context *ctx, struct request *r) {
    struct error err = {.text = ""};
    enum status s = json_check(r->body, r->body_len, &r->arena, &err);
    if (s) {
        reply_error(r, s == STATUS_INVALID ? REFUSE_BAD_REQUEST : refusal_of_status(s), "%s",
                    err.text);
        return;
    }
    s = live_set_batching(ctx->live, r->body, r->body_len, &err);
    if (s) {
        reply_error(r, refusal_of_status(s), "%s", err.text);
        return;
    }
    buckets_start(ctx, r);
}

static void write_key_queues(struct json_writer *w, struct keys *keys,
                             const struct queues_stats *q) {
    json_field_raw(w, "keys", "[");
    for (int i = 0; keys && i < keys_count(keys); i++) {
        struct key key;
        keys_at(keys, i, &key);
        if (key.name[0]) {
            json_write_raw(w, w->data && w->data[w->len - 1] == '[' ? "{" : ",{");
            json_field_text(w, "name", key.name);
            json_field_int(w, "weight", key.weight);
            json_field_int(w, "queued", q->n_key_jobs[i]);
            json_write_raw(w, "}");
        }
    }
    json_write_raw(w, "]");
}
void queues_start(struct server_context *ctx, struct request *r) {
    struct batcher_stats stats;
    struct json_writer w;
    batcher_get_stats(engine_batcher(atomic_load(&ctx->engine)), &stats);
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{");
    json_field_int(&w, "jobs", stats.queues.n_jobs);
    json_field_int(&w, "tokens", stats.queues.n_tokens);
    json_field_int(&w, "max_queued_jobs", ctx->cfg->batching.max_queued_jobs);
    json_field_int(&w, "max_queued_tokens", ctx->cfg->batching.max_queued_tokens);
    json_field_number(&w, "drain_ms", ms_of(stats.queues.drain_ns));
    json_field_int(&w, "workers_waiting", stats.n_waiting_workers);
    json_field_int(&w, "requests", (int64_t)atomic_load(&ctx->metrics->slots_used));
    write_key_queues(&w, ctx->keys, &stats.queues);
    json_write_raw(&w, "}");
    reply_buffer(r, &w);
}
