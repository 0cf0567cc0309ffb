/* routes_debug_cost.c - what the batcher believes that passes take, and how right it was of late.
 * Coefficients are told with the unit in the name; beside them what they come to for some shapes,
 * up to the longest input, because nobody multiplies in his head. */
#include "server/json.h"
#include "server/response.h"
#include "server/routes_internal.h"

static void write_coefficients(struct json_writer *w, const struct cost_model *m) {
    json_field_raw(w, "coefficients", "{");
    json_field_number(w, "batch_ns", m->coef[0]);
    json_field_number(w, "row_ns", m->coef[1]);
    json_field_number(w, "token_pair_ns", m->coef[2]);
    json_write_raw(w, "}");
}
static void write_shape(struct json_writer *w, const struct cost_model *m, int n_seqs, int len) {
    const int64_t rows = (int64_t)n_seqs * len;
    const int64_t ns = cost_predict_ns(m, (struct cost_shape){rows, rows * len});
    const bool is_first = w->len > 0 && w->data[w->len - 1] == '[';
    json_write_raw(w, is_first ? "{" : ",{");
    json_field_int(w, "sequences", n_seqs);
    json_field_int(w, "tokens_each", len);
    json_field_number(w, "ms", (double)ns / (double)NS_PER_MS);
    json_write_raw(w, "}");
}
static void write_predictions(struct json_writer *w, const struct cost_model *m, int longest) {
    static const int shapes[][2] = {{1, 8},  {1, 32},  {1, 128}, {1, 512},
                                    {8, 32}, {32, 32}, {8, 128}, {32, 128}};
    json_field_raw(w, "predicted", "[");
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        if (shapes[i][1] <= longest) {
            write_shape(w, m, shapes[i][0], shapes[i][1]);
        }
    }
    write_shape(w, m, 1, longest);
    json_write_raw(w, "]");
}
void cost_start(struct server_context *ctx, struct request *r) {
    struct engine *engine = atomic_load(&ctx->engine);
    const struct engine_info *info = engine_get_info(engine);
    struct engine_device device;
    struct policy_config policy;
    struct batcher_stats stats;
    struct json_writer w;
    engine_get_device(engine, &device);
    batcher_get_policy(engine_batcher(engine), &policy);
    batcher_get_stats(engine_batcher(engine), &stats);
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{");
    json_field_text(&w, "backend", device.backend);
    json_field_text(&w, "backend_detail", device.detail);
    json_field_text(&w, "precision", device.dtype);
    json_field_text(&w, "mode", batch_mode_names[policy.mode]);
    json_field_text(&w, "started_from", info->cost_from);
    write_coefficients(&w, &stats.cost);
    json_field_number(&w, "error_median", cost_error(&stats.cost));
    json_field_int(&w, "n_updates", stats.cost.n_updates);
    write_predictions(&w, &stats.cost, info->max_input_tokens);
    json_write_raw(&w, "}");
    reply_buffer(r, &w);
}
