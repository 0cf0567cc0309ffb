/* device.h - what a worker computes with: a backend and an encoder on it; and passes over made-up
 * sequences, to warm one up or to time it.
 * Threads: a device belongs to one thread at a time; a probe too. */
#ifndef BERTH_SERVER_DEVICE_H
#define BERTH_SERVER_DEVICE_H
#include "batching/cost.h"
#include "batching/pack.h"
#include "model/encoder.h"
#include "server/accelerator.h"
#include "server/config.h"

/* By compute.device and compute.isa; of several GPUs the first. first_core: of those that this
 * process may use; -1: not pinned. */
MUST_CHECK enum status device_create_backend(struct backend **out, const struct config *cfg,
                                             int n_lanes, int first_core, struct error *err);
/* The backend that makes the weights for the choice's device `index`; one lane, not pinned. */
MUST_CHECK enum status device_create_loader(struct backend **out, const struct config *cfg,
                                            const struct device_choice *choice, int index,
                                            struct error *err);
struct split {                // of the cores
    int n_workers, n_threads; // threads of each worker
};
struct device_plan { // what every device of an engine is made from; borrowed
    const struct config *cfg;
    const struct model_config *model;
    struct device_choice choice;         // zeroed: the CPU
    const struct model_weights *weights; // [max(1, choice.n)], one for each device
    const struct backend *loader;        // that made the weights: of the devices' kind
    struct batch_limits batch;
    int max_seq_len;
    bool measure; // what the tuning cache does not know
};
struct device {
    struct backend *be;
    struct encoder *encoder;
    struct encoder *urgent; // for what interrupts a batch of the other
};
/* Worker `index`'s. */
MUST_CHECK enum status device_open(struct device *out, const struct device_plan *plan, int index,
                                   struct split split, struct error *err);
void device_close(struct device *d); // takes a zeroed one

struct probe; // buffers for any batch within the plan's limits
struct probe *probe_create(const struct device_plan *plan);
void probe_destroy(struct probe *p); // takes NULL
struct probe_pass {
    struct cost_shape shape;
    int64_t ns, cpu_ns; // on the clock, and of it on a core: less where others want the core too
};
/* One pass over sequences of these lengths, which are cut to what the plan allows, as are their
 * number and their sum; says what ran and what it took. Logits are thrown away. */
MUST_CHECK enum status probe_run(struct probe *p, const struct device *d, const int *lens,
                                 int n_seqs, struct probe_pass *out, struct error *err);
/* A short text and a mixed batch: lanes, code and weights are then where they will be wanted. And
 * every size that the backend wants to see, by both encoders, twice; then the backend is sealed. */
MUST_CHECK enum status probe_warm_up(struct probe *p, const struct device *d, struct error *err);
#endif
