/* tune_device.c - what the simulation is of: the time of a pass, the longest input, the workers.
 * From the options alone, from a server that runs, or from the model itself, opened as a server
 * would open it: its start measures passes (or finds them in the tuning cache) for the very
 * backend, precision and mode. */
#include "server/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"
#include "model/config.h"
#include "model/json_file.h"
#include "server/engine.h"

static int smaller(int a, int b) {
    return a < b ? a : b;
}
/* The limit without a loaded model: what is set, what config.json says, or the last bucket. */
static enum status find_limit(struct tune_task *t, struct error *err) {
    const struct config *cfg = t->cfg;
    int limit = cfg->batching.buckets[cfg->batching.n_buckets - 1].up_to;
    if (*cfg->model.dir) {
        struct model_config model;
        const enum status s = model_config_read(&model, cfg->model.dir, err);
        if (s) {
            return s;
        }
        limit = model.max_position;
        model_config_finish(&model);
    }
    const int wanted = cfg->model.max_input_tokens;
    t->max_input_tokens = wanted && *cfg->model.dir ? smaller(wanted, limit)
                          : wanted                  ? wanted
                                                    : limit;
    t->sim.queues.n_workers = cfg->compute.workers ? cfg->compute.workers : 1;
    return STATUS_OK;
}

static enum status read_server_info(struct tune_task *t, struct error *err) {
    cJSON *root = NULL;
    enum status s = tune_ask(&root, t, "/info", err);
    if (s) {
        return s;
    }
    const cJSON *longest = tune_member(root, "max_input_length");
    const cJSON *workers = tune_member(tune_member(root, "berth"), "workers");
    if (!json_is_integer(longest, 1, TRACE_MAX_TOKENS) || !json_is_integer(workers, 1, 256)) {
        s = error_set(err, STATUS_INVALID,
                      "%.100s/info: no max_input_length or workers: is this "
                      "a Berth server?",
                      t->request.url);
    } else {
        t->max_input_tokens = (int)longest->valuedouble;
        t->sim.queues.n_workers = (int)workers->valuedouble;
    }
    cJSON_Delete(root);
    return s;
}
/* {"coefficients": {"batch_ns": a, "row_ns": b, "token_pair_ns": c}, ...} */
static enum status read_server_cost(struct tune_task *t, struct error *err) {
    static const char *const names[COST_TERMS] = {"batch_ns", "row_ns", "token_pair_ns"};
    cJSON *root = NULL;
    enum status s = tune_ask(&root, t, "/debug/cost", err);
    if (s) {
        return s;
    }
    for (int i = 0; i < COST_TERMS; i++) {
        const cJSON *v = tune_member(tune_member(root, "coefficients"), names[i]);
        if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0 && v->valuedouble < 1e12)) {
            s = error_set(err, STATUS_INVALID, "/debug/cost: no coefficients.%s", names[i]);
            break;
        }
        t->sim.coef[i] = v->valuedouble;
    }
    cJSON_Delete(root);
    snprintf(t->cost_text, sizeof(t->cost_text), "learnt by %.200s", t->request.url);
    return s;
}

static enum status measure(struct tune_task *t, struct error *err) {
    struct engine *engine = NULL;
    struct metrics *metrics = xcalloc(1, sizeof(*metrics));
    struct batcher_stats stats;
    const enum status s = engine_open(&engine, t->cfg, metrics, err);
    if (!s) {
        const struct engine_info *info = engine_get_info(engine);
        struct engine_device device;
        engine_get_device(engine, &device);
        batcher_get_stats(engine_batcher(engine), &stats);
        memcpy(t->sim.coef, stats.cost.coef, sizeof(t->sim.coef));
        t->max_input_tokens = info->max_input_tokens;
        t->sim.queues.n_workers = device.n_workers;
        t->sim.n_layers = engine_model(engine)->n_layers;
        snprintf(t->cost_text, sizeof(t->cost_text), "measured: %s, %s, %s", info->model_name,
                 device.detail, device.dtype);
    }
    engine_close(engine);
    free(metrics);
    return s;
}

static enum status read_cost(struct tune_task *t, struct error *err) {
    const struct tune_request *q = &t->request;
    enum status s = STATUS_OK;
    if (q->url) {
        s = read_server_info(t, err);
        if (!s && !q->has_cost) {
            s = read_server_cost(t, err);
        }
    } else {
        s = q->has_cost ? find_limit(t, err) : measure(t, err);
    }
    if (!s && q->has_cost) {
        memcpy(t->sim.coef, q->coef, sizeof(t->sim.coef));
        snprintf(t->cost_text, sizeof(t->cost_text), "as given");
    }
    return s;
}
enum status tune_read_device(struct tune_task *t, struct error *err) {
    enum status s = read_cost(t, err);
    if (!s && t->request.confirm_s > 0) {
        s = tune_read_in_force(t, err);
    }
    if (s) {
        return s;
    }
    const struct config *cfg = t->cfg;
    if (t->max_input_tokens > TRACE_MAX_TOKENS) {
        return error_set(err, STATUS_INVALID,
                         "inputs of up to %d tokens cannot be tuned for, %d at most: set "
                         "model.max_input_tokens",
                         t->max_input_tokens, TRACE_MAX_TOKENS);
    }
    t->sim.queues.max_seq_len = t->max_input_tokens;
    t->sim.queues.max_queued_jobs = cfg->batching.max_queued_jobs;
    t->sim.queues.max_queued_tokens = cfg->batching.max_queued_tokens;
    t->sim.timeout_ns = cfg->server.request_timeout_ms * NS_PER_MS;
    t->sim.seed = t->request.seed;
    return config_policy(&t->sim.queues.policy, cfg, t->max_input_tokens, err);
}
