/* engine.h - tokenizer, model, batcher and workers joined: what `serve` and `classify` both run.
 * Threads: open and close from the main thread; the accessors from any thread. */
#ifndef BERTH_SERVER_ENGINE_H
#define BERTH_SERVER_ENGINE_H
#include "batching/batcher.h"
#include "model/config.h"
#include "server/accelerator.h"
#include "server/config.h"
#include "server/metrics.h"
#include "tokenizer/tokenizer.h"

struct engine;
/* Loads the model directory, times or warms up its devices, starts the workers. Logs the cold start
 * by stage (map, check, convert, tune, warm_up). Errors name file, field and expected value. */
MUST_CHECK enum status engine_open(struct engine **out, const struct config *cfg,
                                   struct metrics *metrics, struct error *err);
/* Whether these settings and this model would go together: reads the model's tokenizer and
 * config.json, no weights. */
MUST_CHECK enum status engine_check(const struct config *cfg, struct error *err);
/* For a short life: what the tuning cache does not tell is not measured. */
MUST_CHECK enum status engine_open_unmeasured(struct engine **out, const struct config *cfg,
                                              struct metrics *metrics, struct error *err);
/* Closes the batcher, lets the workers finish what is queued, joins them, frees all. Takes NULL. */
void engine_close(struct engine *e);

struct batcher *engine_batcher(struct engine *e);
const struct tokenizer *engine_tokenizer(const struct engine *e);
const struct model_config *engine_model(const struct engine *e);
const struct device_choice *engine_devices(const struct engine *e); // those of the start
struct engine_info {
    const char *model_name; // served name
    const char *cost_from;  // "sweep", "cache", "nothing": its cost model at start
    int max_input_tokens;
    bool takes_pairs; // false: a second text would need a token type that the model has not
    struct policy_config policy; // in force at start
    double map_ms, check_ms, convert_ms, tune_ms, warm_up_ms;
};
const struct engine_info *engine_get_info(const struct engine *e);
/* What computes now: changes when a worker loses its device (compute.on_device_loss: cpu). */
struct engine_device {
    const char *backend, *dtype; // "cpu", "float32"; literals
    char detail[192];            // "avx2, 2 lanes"
    int n_workers, n_threads;    // those that are left; threads of each
};
void engine_get_device(struct engine *e, struct engine_device *out);
/* What `cfg` asks of this engine: where it leaves out how large batches are, its device says.
 * Errors: those of config_policy(). */
MUST_CHECK enum status engine_policy(const struct engine *e, struct policy_config *out,
                                     const struct config *cfg, struct error *err);
/* Puts a policy into force, with no more rows a batch than the devices take: `policy` is changed
 * accordingly. Any thread. Errors: those of batcher_configure(). */
MUST_CHECK enum status engine_configure(struct engine *e, struct policy_config *policy,
                                        struct error *err);
bool engine_is_healthy(const struct engine *e); // false once a device has failed for good
#endif
