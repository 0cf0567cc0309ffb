/* worker.h - the loop that joins batcher and encoder: next, forward, complete.
 * Threads: each worker is one thread and owns its backend and encoder. */
#ifndef BERTH_SERVER_WORKER_H
#define BERTH_SERVER_WORKER_H
#include "batching/batcher.h"
#include "model/encoder.h"
#include "server/config.h"
#include "server/device.h"
#include "server/metrics.h"

struct worker;
/* Takes over `be` and its encoders (on failure they stay the caller's), borrows the rest; the
 * thread starts at once and ends when the batcher is closed and empty. */
struct worker_parts {
    struct batcher *batcher;
    struct backend *be;
    struct encoder *encoder;        // of the backend's slot 0
    struct encoder *urgent_encoder; // of slot 1, for what interrupts a batch
    struct metrics *metrics;
    int n_outputs;
    int n_layers; // of the model, for profiles
    int index;
    enum device_loss on_device_loss;
    /* With DEVICE_LOSS_CPU: what the worker goes on with; zeroed: it ends, and others go on. Called
     * on its thread, between two batches. */
    enum status (*replace)(void *arg, struct device *out, struct error *err);
    void *replace_arg;
};
MUST_CHECK enum status worker_start(struct worker **out, const struct worker_parts *parts,
                                    struct error *err);
/* What job.profile_ns has room for: a time for each layer's steps (kernels/profile.h), in order,
 * and at last those of no layer. */
size_t worker_profile_size(int n_layers);
void worker_join(struct worker *w); // waits for the thread, frees what it owns; takes NULL
/* False from the third failed pass in a row until one that works, and once the device is lost,
 * until another one takes its place; the worker goes on meanwhile. */
bool worker_is_healthy(const struct worker *w);
#endif
