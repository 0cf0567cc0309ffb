/* plugin.c - finds and checks a backend's shared object.
 * Whatever is wrong with one is told in a sentence and is no reason to stop: who can do without it
 * goes on. It is opened with its symbols to itself, and never closed. */
#include "kernels/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/kernels.h"

enum { PATH_BYTES = 4096 };

const char *const gelu_names[GELU_TANH + 1] = {
    [GELU_AUTO] = "auto", [GELU_ERF] = "erf", [GELU_TANH] = "tanh"};

static void beside_program(char out[PATH_BYTES]) {
    const ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash) {
        *slash = '\0';
    }
}

static enum status check(const struct accelerator *a, const char *path, struct error *err) {
    const bool fits = a->abi == KERNELS_ABI && a->struct_size == sizeof(struct accelerator) &&
                      a->table_size == sizeof(struct backend_fn) &&
                      a->options_size == sizeof(struct accelerator_options);
    return fits ? STATUS_OK
                : error_set(err, STATUS_INVALID,
                            "%s is of another build of Berth: it has ABI %d, %d is needed, with "
                            "structs of the same sizes",
                            path, a->abi, (int)KERNELS_ABI);
}
static enum status open_at(const struct accelerator **out, const char *folder, const char *name,
                           struct error *err) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof(path), "%s/berth_%s.so", folder, name);
    if (access(path, F_OK)) {
        return error_set(err, STATUS_UNAVAILABLE, "there is no %s", path);
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        return error_set(err, STATUS_UNAVAILABLE, "%s does not load: %s", path, dlerror());
    }
    const struct accelerator *a = dlsym(object, "berth_accelerator");
    const enum status s =
        a ? check(a, path, err)
          : error_set(err, STATUS_INVALID, "%s is no backend of Berth's: it exports none", path);
    if (!s) {
        *out = a;
    }
    return s;
}

enum status plugin_open(const struct accelerator **out, const char *name, struct error *err) {
    char folder[PATH_BYTES];
    const char *only = getenv("BERTH_PLUGIN_DIR");
    if (only) {
        return open_at(out, only, name, err);
    }
    beside_program(folder);
    struct error first;
    enum status s = open_at(out, folder, name, &first);
    if (s == STATUS_UNAVAILABLE && open_at(out, BERTH_PLUGIN_DIR, name, err) == STATUS_OK) {
        return STATUS_OK;
    }
    if (s && err) {
        *err = first;
    }
    return s;
}
