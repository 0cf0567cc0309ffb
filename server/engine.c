/* engine.c - opens everything that answers a text, in the order in which mistakes are cheapest to
 * find: tokenizer, config.json, limits, weights, and then what needs memory and threads.
 * The weights are made once, by a backend of one lane that does nothing else and lives until they
 * are gone; every worker has a device (a backend and an encoder) of its own and borrows them.
 * Devices are timed or warmed up before their workers start, so that the first request finds pages
 * and caches in place, the batcher knows what passes cost, and the metrics hold requests alone. */
#include "server/engine.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/timing.h"
#include "kernels/backend.h"
#include "model/weights.h"
#include "server/algorithms.h"
#include "server/cores.h"
#include "server/device.h"
#include "server/fallback.h"
#include "server/split.h"
#include "server/sweep.h"
#include "server/worker.h"

struct engine {
    struct tokenizer *tokenizer;
    struct model_config model;
    struct device_choice choice;
    int n_weights;                 // one for each device; 1 on a CPU
    struct backend **loaders;      // [n_weights]: made the weights, run nothing
    struct model_weights *weights; // [n_weights]
    struct tuning *tuning;
    struct algorithms *algorithms; // a GPU's, of the tuning cache
    struct batcher *batcher;
    int n_workers;           // at start
    struct device *devices;  // [n_workers], zeroed once a worker has them
    struct worker **workers; // [n_workers], NULL from the first that did not start
    struct engine_info info;
    struct metrics *metrics;
    struct fallback *fallback; // NULL: there is none
    pthread_mutex_t configuring;
    int rows_cap; // of every batch, where the device is not for more; 0: none; under `configuring`
    struct engine_device device; // under `configuring`
    bool measure;
    char model_name[128];
};

static double ms_since(int64_t start_ns) {
    return (double)(time_now_ns() - start_ns) / NS_PER_MS;
}
static void log_stage(const char *stage, double ms) {
    log_event(LOG_INFO, "cold_start", LOG_STR("stage", stage), LOG_NUM("ms", ms));
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

/* Nobody gets another precision than was asked for without being told. */
static void warn_of_precision(const struct config *cfg, const struct backend *be) {
    const enum precision wanted = cfg->compute.precision;
    if (wanted != PRECISION_AUTO && strcmp(precision_names[wanted], dtype_name(be->dtype))) {
        log_event(LOG_WARN, "precision", LOG_STR("wanted", precision_names[wanted]),
                  LOG_STR("used", dtype_name(be->dtype)), LOG_STR("detail", be->detail),
                  LOG_STR("reason", "this backend or CPU has no instructions for it"));
    }
}

static enum status load_weights(struct engine *e, const struct config *cfg, struct error *err) {
    struct load_times times = {0};
    enum status s = device_choose(&e->choice, cfg, err);
    if (s) {
        return s;
    }
    e->choice.notes = algorithms_notes(e->algorithms);
    e->n_weights = e->choice.n > 1 ? e->choice.n : 1;
    e->loaders = xcalloc((size_t)e->n_weights, sizeof(*e->loaders));
    e->weights = xcalloc((size_t)e->n_weights, sizeof(*e->weights));
    for (int i = 0; i < e->n_weights && !s; i++) {
        s = device_create_loader(&e->loaders[i], cfg, &e->choice, i, err);
        s = s ? s
              : model_weights_load(&e->weights[i], e->loaders[i], &e->model, cfg->model.dir, &times,
                                   err);
    }
    if (s) {
        return s;
    }
    warn_of_precision(cfg, e->loaders[0]);
    e->info.map_ms = times.map_ms, e->info.check_ms = times.check_ms;
    e->info.convert_ms = times.convert_ms;
    log_stage("map", times.map_ms);
    log_stage("check", times.check_ms);
    log_stage("convert", times.convert_ms);
    return STATUS_OK;
}

enum status engine_policy(const struct engine *e, struct policy_config *out,
                          const struct config *cfg, struct error *err) {
    struct config settled = *cfg;
    settled.batching.max_batch_tokens = config_batch_tokens(cfg, device_is_gpu(&e->choice));
    return config_policy(out, &settled, e->info.max_input_tokens, err);
}
static void log_batch_size(const struct engine *e, const struct config *cfg) {
    const bool on_gpu = device_is_gpu(&e->choice);
    if (!cfg->batching.max_batch_tokens) {
        log_event(LOG_INFO, "batch_size",
                  LOG_INT("max_batch_tokens", config_batch_tokens(cfg, on_gpu)),
                  LOG_STR("default_of", on_gpu ? "gpu" : "cpu"));
    }
}
static enum status plan_devices(struct engine *e, struct device_plan *plan,
                                struct batcher_config *batcher, const struct config *cfg,
                                struct error *err) {
    const enum status s = engine_policy(e, &e->info.policy, cfg, err);
    if (s) {
        return s;
    }
    log_batch_size(e, cfg);
    *batcher = (struct batcher_config){
        .queues = {.policy = e->info.policy,
                   .max_seq_len = e->info.max_input_tokens,
                   .max_queued_jobs = cfg->batching.max_queued_jobs,
                   .max_queued_tokens = cfg->batching.max_queued_tokens},
        .pad_token_id = tokenizer_pad_id(e->tokenizer),
    };
    config_reserve(&batcher->reserve_tokens, &batcher->reserve_jobs, cfg, &e->info.policy);
    *plan = (struct device_plan){.cfg = cfg,
                                 .model = &e->model,
                                 .choice = e->choice,
                                 .weights = e->weights,
                                 .loader = e->loaders[0],
                                 .batch = batcher_limits(batcher),
                                 .max_seq_len = e->info.max_input_tokens,
                                 .measure = e->measure};
    return STATUS_OK;
}
/* Split, devices, and what their passes cost: all that is measured or remembered. */
static enum status open_devices(struct engine *e, const struct device_plan *plan,
                                struct cost_model *cost, struct tuning *tuning, struct error *err) {
    const int64_t start_ns = time_now_ns();
    struct split split = {0};
    enum cost_source from = COST_NOTHING;
    enum status s = split_choose(&split, plan, tuning, err);
    if (s) {
        return s;
    }
    const int n = split.n_workers;
    e->n_workers = e->device.n_workers = n;
    e->devices = xcalloc((size_t)n, sizeof(*e->devices));
    e->workers = xcalloc((size_t)n, sizeof(*e->workers));
    for (int i = 0; i < n && !s; i++) {
        s = device_open(&e->devices[i], plan, i, split, err);
    }
    s = s ? s : sweep_cost(cost, &from, &e->devices[0], plan, split, tuning, err);
    e->info.cost_from = cost_source_names[from];
    e->info.tune_ms = ms_since(start_ns);
    log_stage("tune", e->info.tune_ms);
    const int64_t warm_ns = time_now_ns();
    struct probe *probe = probe_create(plan);
    const bool is_warm = from == COST_SWEEP && !plan->choice.accelerator;
    for (int i = is_warm ? 1 : 0; i < n && !s; i++) {
        s = probe_warm_up(probe, &e->devices[i], err);
    }
    probe_destroy(probe);
    e->info.warm_up_ms = ms_since(warm_ns);
    log_stage("warm_up", e->info.warm_up_ms);
    return s;
}
/* Under `configuring`. */
static enum status configure(struct engine *e, struct policy_config *policy, struct error *err) {
    config_cap_rows(policy, e->rows_cap);
    const enum status s = batcher_configure(e->batcher, policy, err);
    if (!s) {
        metrics_set_buckets(e->metrics, policy);
    }
    return s;
}
enum status engine_configure(struct engine *e, struct policy_config *policy, struct error *err) {
    pthread_mutex_lock(&e->configuring);
    const enum status s = configure(e, policy, err);
    pthread_mutex_unlock(&e->configuring);
    return s;
}
/* Under `configuring`, or before there are jobs. */
static void note_device(struct engine *e, const struct backend *be) {
    snprintf(e->device.detail, sizeof(e->device.detail), "%s", be->detail);
    e->device.backend = be->name; // a literal
    e->device.dtype = dtype_name(be->dtype);
    e->device.n_threads = be->n_lanes;
}
/* Once the CPU has taken over, batches are as it likes them. Under `configuring`. */
static enum status move_to(struct engine *e, const struct device *d, struct error *err) {
    struct policy_config policy;
    e->rows_cap = e->rows_cap && e->rows_cap < FALLBACK_ROWS ? e->rows_cap : FALLBACK_ROWS;
    batcher_get_policy(e->batcher, &policy);
    const enum status s = configure(e, &policy, err);
    if (!s) {
        note_device(e, d->be);
    }
    return s;
}
/* A worker's, whose device is lost. */
static enum status replace_device(void *arg, struct device *out, struct error *err) {
    struct engine *e = arg;
    enum status s = fallback_take(e->fallback, out, err);
    if (s) {
        return s;
    }
    pthread_mutex_lock(&e->configuring);
    if (out->be) {
        s = move_to(e, out, err);
    } else {
        e->device.n_workers--;
        batcher_worker_left(e->batcher);
    }
    pthread_mutex_unlock(&e->configuring);
    if (s) {
        device_close(out);
    }
    return s;
}
static enum status start_workers(struct engine *e, const struct config *cfg,
                                 struct metrics *metrics, struct error *err) {
    enum status s = STATUS_OK;
    for (int i = 0; i < e->n_workers && !s; i++) {
        struct device *d = &e->devices[i];
        const struct worker_parts parts = {.batcher = e->batcher,
                                           .be = d->be,
                                           .encoder = d->encoder,
                                           .urgent_encoder = d->urgent,
                                           .metrics = metrics,
                                           .n_outputs = e->model.n_labels,
                                           .n_layers = e->model.n_layers,
                                           .index = i,
                                           .on_device_loss = cfg->compute.on_device_loss,
                                           .replace = replace_device,
                                           .replace_arg = e};
        note_device(e, d->be);
        s = worker_start(&e->workers[i], &parts, err);
        if (!s) {
            *d = (struct device){.be = NULL}; // the worker's now
        }
    }
    return s;
}
static void close_devices(struct engine *e) { // those that no worker has taken over
    for (int i = 0; e->devices && i < e->n_workers; i++) {
        device_close(&e->devices[i]);
    }
    free(e->devices), free(e->workers);
    e->devices = NULL, e->workers = NULL;
}
/* Half the rows of every batch: they are what device memory is for. */
static void halve_batches(struct engine *e, struct device_plan *plan, struct batcher_config *b) {
    struct policy_config *policy = &e->info.policy;
    int most = 0;
    for (int i = 0; i < policy->n_buckets; i++) {
        const int rows = policy->buckets[i].max_batch_tokens;
        most = rows > most ? rows : most;
    }
    e->rows_cap = most > 1 ? most / 2 : 1; // no worker runs yet
    config_cap_rows(policy, e->rows_cap);
    b->queues.policy = *policy;
    b->reserve_tokens /= 2;
    plan->batch = batcher_limits(b);
}
/* Where a device's memory is too small for the batches that were asked for, half of them may do. */
static enum status open_fitting_devices(struct engine *e, struct device_plan *plan,
                                        struct batcher_config *b, struct tuning *tuning,
                                        struct error *err) {
    enum status s = open_devices(e, plan, &b->cost, tuning, err);
    if (s != STATUS_NO_MEMORY || !plan->choice.accelerator) {
        return s;
    }
    log_event(LOG_WARN, "batches_halved", LOG_INT("rows_were", plan->batch.max_rows),
              LOG_STR("reason", err->text));
    close_devices(e);
    halve_batches(e, plan, b);
    return open_devices(e, plan, &b->cost, tuning, err);
}
static enum status open_workers(struct engine *e, const struct config *cfg, struct metrics *metrics,
                                struct error *err) {
    struct device_plan plan;
    struct batcher_config batcher;
    enum status s = plan_devices(e, &plan, &batcher, cfg, err);
    if (s) {
        return s;
    }
    const struct cores_mask own = cores_mask_get(); // who runs a pass is pinned as lane 0
    s = open_fitting_devices(e, &plan, &batcher, e->tuning, err);
    cores_mask_set(&own);
    tuning_save(e->tuning);
    algorithms_log(e->algorithms);
    metrics_give_back_memory();
    batcher.queues.n_workers = e->n_workers;
    if (!s && cfg->compute.on_device_loss == DEVICE_LOSS_CPU) {
        e->fallback = fallback_create(&plan, e->n_workers);
    }
    s = s ? s : batcher_create(&e->batcher, &batcher, err);
    return s ? s : start_workers(e, cfg, metrics, err);
}

static struct engine *create(void) {
    struct engine *e = xcalloc(1, sizeof(*e));
    pthread_mutex_init(&e->configuring, NULL);
    return e;
}
static enum status open_all(struct engine **out, const struct config *cfg, struct metrics *metrics,
                            bool measure, struct error *err) {
    struct engine *e = create();
    e->measure = measure;
    e->metrics = metrics;
    enum status s = open_tokenizer_and_config(e, cfg, err);
    if (s) {
        goto fail;
    }
    e->tuning = tuning_open(cfg->compute.tuning_cache);
    e->algorithms = algorithms_create(e->tuning);
    s = load_weights(e, cfg, err);
    if (s) {
        goto fail;
    }
    s = open_workers(e, cfg, metrics, err);
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
enum status engine_check(const struct config *cfg, struct error *err) {
    struct engine *e = create();
    struct policy_config policy;
    enum status s = open_tokenizer_and_config(e, cfg, err);
    s = s ? s : config_policy(&policy, cfg, e->info.max_input_tokens, err);
    engine_close(e);
    return s;
}
enum status engine_open(struct engine **out, const struct config *cfg, struct metrics *metrics,
                        struct error *err) {
    return open_all(out, cfg, metrics, true, err);
}
enum status engine_open_unmeasured(struct engine **out, const struct config *cfg,
                                   struct metrics *metrics, struct error *err) {
    return open_all(out, cfg, metrics, false, err);
}
void engine_close(struct engine *e) {
    if (!e) {
        return;
    }
    if (e->batcher) {
        batcher_close(e->batcher);
    }
    for (int i = 0; e->workers && i < e->n_workers; i++) {
        worker_join(e->workers[i]);
    }
    close_devices(e);
    fallback_destroy(e->fallback);
    batcher_destroy(e->batcher);
    const bool is_hung = e->metrics && atomic_load(&e->metrics->device_hung);
    for (int i = 0; i < e->n_weights && !is_hung; i++) { // else freeing would wait for the device
        model_weights_finish(&e->weights[i]);
        backend_destroy(e->loaders[i]);
    }
    free(e->weights);
    free(e->loaders);
    algorithms_destroy(e->algorithms);
    tuning_close(e->tuning);
    model_config_finish(&e->model);
    tokenizer_close(e->tokenizer);
    pthread_mutex_destroy(&e->configuring);
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
const struct device_choice *engine_devices(const struct engine *e) {
    return &e->choice;
}
const struct engine_info *engine_get_info(const struct engine *e) {
    return &e->info;
}
void engine_get_device(struct engine *e, struct engine_device *out) {
    pthread_mutex_lock(&e->configuring);
    *out = e->device;
    pthread_mutex_unlock(&e->configuring);
}
bool engine_is_healthy(const struct engine *e) {
    for (int i = 0; i < e->n_workers; i++) {
        if (!worker_is_healthy(e->workers[i])) {
            return false;
        }
    }
    return true;
}
