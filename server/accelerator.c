/* accelerator.c - from the word in the settings to a plugin and its devices.
 * With `auto` a missing GPU is no fault, only worth a line in the log; when the word is a device's
 * own, nothing else will do, and the start ends with the reason. */
#include "server/accelerator.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/timing.h"

/* N of "cuda:N"; -1: every device. The table of settings has no other words with a colon. */
static int device_number(const char *name) {
    const char *colon = strchr(name, ':');
    return colon ? (int)strtol(colon + 1, NULL, 10) : -1;
}

static enum status find_devices(struct device_choice *out, const char *plugin, int number,
                                struct error *err) {
    struct device_choice c = {.first = number > 0 ? number : 0};
    enum status s = plugin_open(&c.accelerator, plugin, err);
    s = s ? s : c.accelerator->count(&c.n, err);
    if (!s && number >= c.n) {
        return error_set(err, STATUS_UNAVAILABLE, "there is no device %d: %d are there", number,
                         c.n);
    }
    c.n = number >= 0 ? 1 : c.n;
    if (!s) {
        *out = c;
    }
    return s;
}
bool device_is_gpu(const struct device_choice *choice) {
    return choice->accelerator && !strcmp(choice->accelerator->name, "cuda");
}
enum status device_choose(struct device_choice *out, const struct config *cfg, struct error *err) {
    const char *name = cfg->compute.device;
    *out = (struct device_choice){.n = 0};
    if (!strcmp(name, "cpu") || !strcmp(name, "reference")) {
        return STATUS_OK;
    }
    if (strcmp(name, "auto") != 0) {
        const char *plugin = strcmp(name, "simt") ? "cuda" : "simt";
        const enum status s = find_devices(out, plugin, device_number(name), err);
        return s ? error_prefix(err, s, "compute.device is %s", name) : s;
    }
    struct error why = {.text = ""};
    if (find_devices(out, "cuda", -1, &why)) {
        log_event(LOG_INFO, "device", LOG_STR("used", "cpu"), LOG_STR("no_gpu_because", why.text));
    }
    return STATUS_OK;
}

enum status accelerator_create(struct backend **out, const struct config *cfg,
                               const struct device_choice *choice, int index, struct error *err) {
    const struct accelerator_options opt = {
        .device = choice->first + index,
        .precision = cfg->compute.precision,
        .gelu = cfg->compute.gelu,
        .graph_max_rows = cfg->compute.graph_max_rows,
        .pass_timeout_ns = cfg->compute.pass_timeout_ms * NS_PER_MS,
        .max_bytes = cfg->compute.max_device_bytes,
        .deterministic = cfg->compute.deterministic,
        .notes = choice->notes,
    };
    const enum status s = choice->accelerator->create(out, &opt, err);
    return s ? error_prefix(err, s, "device %d", opt.device) : s;
}
