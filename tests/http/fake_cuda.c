/* fake_cuda.c - a plugin under the name of berth_cuda.so that computes with the reference backend
 * and has the faults that a test asks for, in BERTH_FAKE_CUDA: words such as "devices=2".
 *   devices=N  there are N (default 1)     rows=N   memory for batches of N rows
 *   fail=N     every Nth pass fails        lost=N   from the Nth pass on the device is lost
 *   abi=N      it is of another build      spared=N device N, from 1 on, is never lost
 * Passes are counted over all backends, those of the start too: "armed" is asked for by a file of
 * the name in BERTH_FAKE_ARMED; before it is there no pass fails. */
#include "kernels/kernels.h"
#include "kernels/plugin.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct backend_fn table;
static const struct backend_fn *real;
static atomic_int n_passes;
static char details[8][32];

/* 0: not asked for. */
static int asked(const char *word) {
    const char *all = getenv("BERTH_FAKE_CUDA"), *at = all ? strstr(all, word) : NULL;
    return at ? (int)strtol(at + strlen(word) + 1, NULL, 10) : 0;
}
static bool is_armed(void) {
    const char *path = getenv("BERTH_FAKE_ARMED");
    return path && !access(path, F_OK);
}

static enum status count(int *n, struct error *err) {
    *n = asked("devices") ? asked("devices") : 1;
    return STATUS_OK;
}
static enum status reserve(struct backend *be, const struct pass_limits *limits,
                           struct error *err) {
    if (asked("rows") && limits->max_rows > asked("rows")) {
        return error_set(err, STATUS_NO_MEMORY, "the device has no room for %d rows",
                         limits->max_rows);
    }
    return real->reserve(be, limits, err);
}
static bool batch_end(struct backend *be, int slot, bool wait, enum status *status,
                      struct op_times *times, struct error *err) {
    const bool is_over = real->batch_end(be, slot, wait, status, times, err);
    if (times) {
        times->launches = 1;
    }
    const int n = is_armed() ? atomic_fetch_add(&n_passes, 1) + 1 : 0;
    const bool is_spared = asked("spared") && be->detail == details[asked("spared") & 7];
    be->is_lost = be->is_lost || (n && !is_spared && asked("lost") && n >= asked("lost"));
    if (be->is_lost || (n && asked("fail") && n % asked("fail") == 0)) {
        *status = error_set(err, STATUS_BACKEND, be->is_lost ? "the device was lost" : "a fault");
    }
    return is_over;
}
static enum status create(struct backend **out, const struct accelerator_options *opt,
                          struct error *err) {
    const enum status s = reference_backend_create(out, err);
    if (s) {
        return s;
    }
    struct backend *be = *out;
    real = be->fn;
    table = *real;
    table.reserve = reserve;
    table.batch_end = batch_end;
    be->fn = &table;
    be->name = "cuda";
    snprintf(details[opt->device & 7], sizeof(details[0]), "device %d", opt->device);
    be->detail = details[opt->device & 7];
    return STATUS_OK;
}
static void bus_id(char *out, size_t size, int device) {
    snprintf(out, size, "0000:%02X:00.0", (unsigned)device + 16);
}

/* Not const: another ABI is put in when the object is loaded. */
__attribute__((visibility("default"))) struct accelerator berth_accelerator = {
    .abi = KERNELS_ABI,
    .struct_size = sizeof(struct accelerator),
    .table_size = sizeof(struct backend_fn),
    .options_size = sizeof(struct accelerator_options),
    .name = "cuda",
    .count = count,
    .create = create,
    .bus_id = bus_id,
};
__attribute__((constructor)) static void choose_abi(void) {
    if (asked("abi")) {
        berth_accelerator.abi = asked("abi");
    }
}
