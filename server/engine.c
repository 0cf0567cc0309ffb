/* engine.c - opens everything that answers a text, in the order in which mistakes are cheapest to
 * find: tokenizer, config.json, limits, weights, and then what needs memory and threads.
 * The weights are made once, by a backend of one lane that does nothing else and lives until they
 * are gone; every worker has a backend and an encoder of its own and borrows them. Encoders are
 * warmed up before their workers start, so that the first request finds pages and caches in place
 * and the metrics hold requests alone. */
#include "server/engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/timing.h"
#include "kernels/backend.h"
#include "model/encoder.h"
#include "model/weights.h"
#include "server/cores.h"
#include "server/worker.h"

enum { MAX_AUTO_THREADS = 16 };

struct engine {
    struct tokenizer *tokenizer;
    struct model_config model;
    struct backend *loader; // made the weights, runs nothing
    struct model_weights weights;
    struct batcher *batcher;
    struct worker **workers; // [info.n_workers], NULL from the first that did not start
    struct engine_info info;
    char model_name[128];
    char backend_detail[128];
};

static double ms_since(int64_t start_ns) {
    return (double)(time_now_ns() - start_ns) / NS_PER_MS;
}
static void log_stage(const char *stage, double ms) {
    log_event(LOG_INFO, "cold_start", LOG_STR("stage", stage), LOG_NUM("ms", ms));
}

/* first_core: of those that this process may use; -1: not pinned. */
static enum status create_backend(struct backend **out, const struct config *cfg, int n_lanes,
                                  int first_core, struct error *err) {
    if (!strcmp(cfg->compute.device, "reference")) {
        return reference_backend_create(out, err);
    }
    const struct cpu_options opt = {
        .n_lanes = n_lanes,
        .first_core = first_core,
        .isa = *cfg->compute.isa ? cfg->compute.isa : NULL,
        .precision = cfg->compute.precision,
    };
    const enum status s = cpu_backend_create(out, &opt, err);
    return s ? error_prefix(err, s, "settings of compute") : STATUS_OK;
}

/* The last part of the directory's true name; what was written where that cannot be told. */
static void set_model_name(struct engine *e, const struct config *cfg) {
    char *whole = realpath(cfg->model.dir, NULL);
    const char *dir = whole ? whole : cfg->model.dir, *slash = strrchr(dir, '/');
    const char *name = *cfg->model.served_name ? cfg->model.served_name : slash ? slash + 1 : dir;
    snprintf(e->model_name, sizeof(e->model_name), "%.127s", name);
    e->info.model_name = e->model_name;
    free(whole);
}

/* Every number that the tokenizer can give has to have a row in the model's tables. */
static enum status check_ids(struct engine *e, struct error *err) {
    const int n = tokenizer_vocab_size(e->tokenizer), pad = tokenizer_pad_id(e->tokenizer);
    const int n_types = tokenizer_n_types(e->tokenizer, false);
    if (n > e->model.vocab_size) {
        return error_set(err, STATUS_INVALID,
                         "the tokenizer has %d token ids, but config.json's vocab_size is %d: the "
                         "two are not of one model",
                         n, e->model.vocab_size);
    }
    if (pad >= e->model.vocab_size) {
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: padding.pad_id is %d, expected less than config.json's "
                         "vocab_size, %d",
                         pad, e->model.vocab_size);
    }
    if (n_types > e->model.type_vocab_size) {
        return error_set(err, STATUS_INVALID,
                         "tokenizer.json: post_processor.single has the type_id %d, expected less "
                         "than config.json's type_vocab_size, %d",
                         n_types - 1, e->model.type_vocab_size);
    }
    e->info.takes_pairs = tokenizer_n_types(e->tokenizer, true) <= e->model.type_vocab_size;
    return STATUS_OK;
}
static enum status set_max_input(struct engine *e, const struct config *cfg, struct error *err) {
    const int said = tokenizer_max_length(e->tokenizer), wanted = cfg->model.max_input_tokens;
    const int least = tokenizer_n_special(e->tokenizer, true) + 1;
    int limit = e->model.max_position;
    if (said > 0 && said < limit) {
        limit = said;
    }
    if (wanted > limit) {
        return error_set(err, STATUS_INVALID,
                         "model.max_input_tokens is %d, but the model takes at most %d: lower it, "
                         "or leave it at 0",
                         wanted, limit);
    }
    limit = wanted ? wanted : limit;
    if (limit < least) {
        return error_set(err, STATUS_INVALID,
                         "inputs may have %d tokens, but a pair with its special tokens has at "
                         "least %d",
                         limit, least);
    }
    e->info.max_input_tokens = limit;
    return STATUS_OK;
}
static enum status open_tokenizer_and_config(struct engine *e, const struct config *cfg,
                                             struct error *err) {
    const int64_t start_ns = time_now_ns();
    enum status s = model_config_read(&e->model, cfg->model.dir, err);
    if (s) {
        return s;
    }
    s = tokenizer_open(&e->tokenizer, cfg->model.dir, err);
    if (s) {
        return s;
    }
    log_stage("tokenizer", ms_since(start_ns));
    s = check_ids(e, err);
    if (s) {
        return error_prefix(err, s, "%s", cfg->model.dir);
    }
    return set_max_input(e, cfg, err);
}

static enum status create_batcher(struct engine *e, const struct config *cfg, struct error *err) {
    const enum status s = config_policy(&e->info.policy, cfg, e->info.max_input_tokens, err);
    if (s) {
        return s;
    }
    const struct batcher_config batcher = {
        .policy = e->info.policy,
        .max_seq_len = e->info.max_input_tokens,
        .max_queued_jobs = cfg->batching.max_queued_jobs,
        .max_queued_tokens = cfg->batching.max_queued_tokens,
        .pad_token_id = tokenizer_pad_id(e->tokenizer),
    };
    return batcher_create(&e->batcher, &batcher, err);
}

static enum status load_weights(struct engine *e, const struct config *cfg, struct error *err) {
    struct load_times times = {0};
    enum status s = create_backend(&e->loader, cfg, 1, -1, err);
    if (s) {
        return s;
    }
    s = model_weights_load(&e->weights, e->loader, &e->model, cfg->model.dir, &times, err);
    if (s) {
        return s;
    }
    e->info.map_ms = times.map_ms, e->info.check_ms = times.check_ms;
    e->info.convert_ms = times.convert_ms;
    log_stage("map", times.map_ms);
    log_stage("check", times.check_ms);
    log_stage("convert", times.convert_ms);
    log_stage("tune", e->info.tune_ms); // 0: one kernel an ISA, nothing to choose by timing yet
    return STATUS_OK;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}
/* One pass over sequences of the same token; its logits are thrown away. */
static enum status warm_up_shape(struct encoder *encoder, const struct engine *e, int n_seqs,
                                 int seq_len, struct error *err) {
    const int n_rows = n_seqs * seq_len;
    int32_t *zeros = xcalloc((size_t)n_rows, sizeof(*zeros));
    int32_t *starts = xcalloc((size_t)n_seqs + 1, sizeof(*starts));
    int32_t *lens = xcalloc((size_t)n_seqs, sizeof(*lens));
    float *logits = xcalloc((size_t)n_seqs * (size_t)e->model.n_labels, sizeof(*logits));
    for (int i = 0; i < n_seqs; i++) {
        starts[i + 1] = starts[i] + seq_len, lens[i] = seq_len;
    }
    const struct token_batch batch = {.token_ids = zeros,
                                      .token_type_ids = zeros,
                                      .cu_seqlens = starts,
                                      .seq_lens = lens,
                                      .n_seqs = n_seqs,
                                      .n_rows = n_rows,
                                      .max_seq_len = seq_len};
    const enum status s = encoder_forward(encoder, logits, &batch, NULL, err);
    free(zeros), free(starts), free(lens), free(logits);
    return s;
}
/* A short text, a full batch, a longer text: the shapes whose first time would be seen. */
static enum status warm_up(struct encoder *encoder, const struct engine *e, struct error *err) {
    static const int shapes[][2] = {{1, 8}, {8, 32}, {1, 128}}; // sequences, tokens of each
    const struct batch_limits limits = batcher_batch_limits(e->batcher);
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        const int len = min_int(shapes[i][1], min_int(e->info.max_input_tokens, limits.max_rows));
        const int fit = min_int(limits.max_jobs, limits.max_rows / len);
        const enum status s = warm_up_shape(encoder, e, min_int(shapes[i][0], fit), len, err);
        if (s) {
            return s;
        }
    }
    return STATUS_OK;
}
static enum status start_worker(struct engine *e, const struct config *cfg, struct metrics *metrics,
                                int index, struct error *err) {
    const struct batch_limits batch = batcher_batch_limits(e->batcher);
    const struct encoder_limits limits = {batch.max_rows, batch.max_jobs, e->info.max_input_tokens};
    struct backend *be = NULL;
    struct encoder *encoder = NULL;
    const struct cores_mask own = cores_mask_get(); // warming up pins this thread as lane 0
    const bool pin = cfg->compute.pin && cores_are_ours(e->info.n_workers * e->info.n_threads);
    const int first_core = pin ? index * e->info.n_threads : -1;
    enum status s = create_backend(&be, cfg, e->info.n_threads, first_core, err);
    if (!s) {
        s = encoder_create(&encoder, be, &e->model, &e->weights, &limits, err);
    }
    const int64_t start_ns = time_now_ns();
    if (!s) {
        s = warm_up(encoder, e, err);
        e->info.warm_up_ms += ms_since(start_ns);
        cores_mask_set(&own);
    }
    if (!s) {
        const struct worker_parts parts = {.batcher = e->batcher,
                                           .be = be,
                                           .encoder = encoder,
                                           .metrics = metrics,
                                           .n_outputs = e->model.n_labels,
                                           .index = index};
        s = worker_start(&e->workers[index], &parts, err);
    }
    if (s) {
        encoder_destroy(encoder);
        backend_destroy(be);
        return s;
    }
    snprintf(e->backend_detail, sizeof(e->backend_detail), "%s", be->detail);
    e->info.backend = be->name, e->info.backend_detail = e->backend_detail; // name: a literal
    e->info.dtype = dtype_name(be->dtype);
    return STATUS_OK;
}
static enum status start_workers(struct engine *e, const struct config *cfg,
                                 struct metrics *metrics, struct error *err) {
    const int n = cfg->compute.workers ? cfg->compute.workers : 1;
    const int share = min_int(cores_available(), MAX_AUTO_THREADS) / n;
    e->info.n_workers = n;
    e->info.n_threads = cfg->compute.threads ? cfg->compute.threads : share > 1 ? share : 1;
    e->workers = xcalloc((size_t)n, sizeof(*e->workers));
    for (int i = 0; i < n; i++) {
        const enum status s = start_worker(e, cfg, metrics, i, err);
        if (s) {
            return s;
        }
    }
    log_stage("warm_up", e->info.warm_up_ms);
    return STATUS_OK;
}

enum status engine_open(struct engine **out, const struct config *cfg, struct metrics *metrics,
                        struct error *err) {
    struct engine *e = xcalloc(1, sizeof(*e));
    enum status s = open_tokenizer_and_config(e, cfg, err);
    if (s) {
        goto fail;
    }
    s = create_batcher(e, cfg, err);
    if (s) {
        goto fail;
    }
    s = load_weights(e, cfg, err);
    if (s) {
        goto fail;
    }
    s = start_workers(e, cfg, metrics, err);
    if (s) {
        goto fail;
    }
    set_model_name(e, cfg);
    *out = e;
    return STATUS_OK;
fail:
    engine_close(e);
    return s;
}
void engine_close(struct engine *e) {
    if (!e) {
        return;
    }
    if (e->batcher) {
        batcher_close(e->batcher);
    }
    for (int i = 0; e->workers && i < e->info.n_workers; i++) {
        worker_join(e->workers[i]);
    }
    free(e->workers);
    batcher_destroy(e->batcher);
    model_weights_finish(&e->weights);
    backend_destroy(e->loader);
    model_config_finish(&e->model);
    tokenizer_close(e->tokenizer);
    free(e);
}

struct batcher *engine_batcher(struct engine *e) {
    return e->batcher;
}
const struct tokenizer *engine_tokenizer(const struct engine *e) {
    return e->tokenizer;
}
const struct model_config *engine_model(const struct engine *e) {
    return &e->model;
}
const struct engine_info *engine_get_info(const struct engine *e) {
    return &e->info;
}
bool engine_is_healthy(const struct engine *e) {
    for (int i = 0; i < e->info.n_workers; i++) {
        if (!worker_is_healthy(e->workers[i])) {
            return false;
        }
    }
    return true;
}
