/* routes_debug_lengths.c - GET /debug/lengths: how long the inputs were since the start, exactly,
 * and how often they came; what `berth tune --lengths` reads. Counts are read one by one while
 * others count on, so "inputs" is the sum of what stands below it. */
#include "server/json.h"
#include "server/response.h"
#include "server/routes_internal.h"

#include "base/timing.h"

static void write_lengths(struct json_writer *w, const struct lengths *lengths) {
    bool any = false;
    for (int len = 1; len <= TRACE_MAX_TOKENS; len++) {
        if (lengths->count[len]) {
            json_write_raw(w, any ? ",\"" : "\"");
            json_write_int(w, len);
            json_write_raw(w, "\":");
            json_write_int(w, lengths->count[len]);
            any = true;
        }
    }
}
static void write_stats(struct json_writer *w, const struct recorder_stats *s) {
    const double since_s = (double)s->since_ns / (double)NS_PER_S;
    json_field_number(w, "since_start_s", since_s);
    json_field_int(w, "inputs", s->n_jobs);
    json_field_int(w, "tokens", s->n_tokens);
    json_field_number(w, "inputs_per_s", since_s > 0 ? (double)s->n_jobs / since_s : 0);
    json_field_number(w, "inputs_per_s_last_minute", s->per_second);
    json_field_int(w, "recorded", s->n_written);
    json_field_int(w, "not_recorded", s->n_dropped);
}
void debug_lengths_start(struct server_context *ctx, struct request *r) {
    struct recorder_stats stats;
    struct lengths *lengths = arena_alloc(&r->arena, 1, sizeof(*lengths));
    if (!lengths || !ctx->recorder) {
        reply_error(r, REFUSE_INTERNAL, "no lengths are recorded");
        return;
    }
    recorder_get(ctx->recorder, &stats, lengths, time_now_ns());
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{");
    write_stats(&w, &stats);
    json_field_raw(&w, "lengths", "{");
    write_lengths(&w, lengths);
    json_write_raw(&w, "}}");
    reply_buffer(r, &w);
}
