/* fallback.c - weights and a device on the CPU, made when the last GPU is lost.
 * Nothing is kept ready: a second copy of the weights would cost every server what one in a
 * thousand needs. So the checkpoint has to be where it was at start; when it is not, the caller is
 * told, and does what it does without a fallback. */
#include "server/fallback.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/cores.h"
#include "server/split.h"

struct fallback {
    struct device_plan plan;
    pthread_mutex_t lock;
    int n_left; // workers that have a device
    struct backend *loader;
    struct model_weights weights;
};

struct fallback *fallback_create(const struct device_plan *plan, int n_workers) {
    struct fallback *f = xcalloc(1, sizeof(*f));
    f->plan = *plan;
    memset(&f->plan.choice, 0, sizeof(f->plan.choice)); // the CPU
    f->plan.weights = &f->weights;
    f->n_left = n_workers;
    pthread_mutex_init(&f->lock, NULL);
    return f;
}
void fallback_destroy(struct fallback *f) {
    if (f) {
        model_weights_finish(&f->weights);
        backend_destroy(f->loader);
        pthread_mutex_destroy(&f->lock);
        free(f);
    }
}

static struct split whole_machine(const struct config *cfg) {
    const int n = cores_available();
    return (struct split){1, cfg->compute.threads    ? cfg->compute.threads
                             : n < SPLIT_MAX_THREADS ? n
                                                     : SPLIT_MAX_THREADS};
}
static enum status open_on_cpu(struct fallback *f, struct device *out, struct error *err) {
    struct load_times unused = {0};
    const struct device_plan *p = &f->plan;
    enum status s = device_create_loader(&f->loader, p->cfg, &p->choice, 0, err);
    s = s ? s
          : model_weights_load(&f->weights, f->loader, p->model, p->cfg->model.dir, &unused, err);
    f->plan.loader = f->loader;
    return s ? s : device_open(out, p, 0, whole_machine(p->cfg), err);
}
enum status fallback_take(struct fallback *f, struct device *out, struct error *err) {
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&f->lock);
    const bool is_last = --f->n_left == 0; // the lock is for this alone: nobody comes after it
    pthread_mutex_unlock(&f->lock);
    return is_last ? open_on_cpu(f, out, err) : STATUS_OK;
}
