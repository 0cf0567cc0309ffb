/* plugin.h - backends of their own shared objects, opened at run time: berth_cuda.so for NVIDIA's
 * GPUs, berth_simt.so, the same kernels on a simulated one. The program needs neither, nor any
 * library of theirs.
 * An object exports `berth_accelerator`, a struct accelerator. Once opened it stays: its threads
 * and its driver's may still be running. */
#ifndef BERTH_KERNELS_PLUGIN_H
#define BERTH_KERNELS_PLUGIN_H
#include "base/status.h"
#include "kernels/backend.h"
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What `gelu` in a model means. AUTO: the exact form in fp32; in 16 bits, where the two differ by
 * less than the type's rounding, the tanh form, which costs nothing. */
enum gelu { GELU_AUTO, GELU_ERF, GELU_TANH };
extern const char *const gelu_names[GELU_TANH + 1];

/* What was chosen by timing, kept from one start to the next by whoever runs the backend; without
 * it everything is timed anew. Keys are up to 240 printable characters and say all that the choice
 * depends on; values are whole numbers. Called while a backend is run, by several threads if there
 * are several backends. */
struct choice_notes {
    void *arg;
    bool (*get)(void *arg, const char *key, double *values, int n); // false: nothing is noted
    void (*set)(void *arg, const char *key, const double *values, int n);
};

struct accelerator_options {
    int device; // 0 <= device < count
    enum precision precision;
    enum gelu gelu;
    /* Batches up to these rows are filled up to a bucket, within the limits of reserve(), and
     * replayed as graphs; tensors have to hold what those limits say. 0: none. */
    int graph_max_rows;
    int64_t pass_timeout_ns;          // then the device counts as lost
    int64_t max_bytes;                // of device memory; 0: what there is
    bool deterministic;               // no algorithm is chosen by timing
    const struct choice_notes *notes; // borrowed for as long as the backend lives; may be NULL
};
struct accelerator {
    int abi;             // KERNELS_ABI
    size_t struct_size;  // sizeof(struct accelerator)
    size_t table_size;   // sizeof(struct backend_fn)
    size_t options_size; // sizeof(struct accelerator_options)
    const char *name;    // "cuda"
    /* Errors: STATUS_UNAVAILABLE with the reason: no driver, no device. */
    enum status (*count)(int *n, struct error *err);
    /* Errors: STATUS_UNAVAILABLE; STATUS_NO_MEMORY; STATUS_BACKEND. */
    enum status (*create)(struct backend **out, const struct accelerator_options *opt,
                          struct error *err);
    /* The device's PCI address, as drivers know it: "0000:3B:00.0"; "": it has none. */
    void (*bus_id)(char *out, size_t size, int device);
};

/* `name`: "cuda" or "simt". Looks beside the program, then where it was installed; the environment
 * variable BERTH_PLUGIN_DIR names another folder, alone. Errors: STATUS_UNAVAILABLE (there is
 * none, or it does not load); STATUS_INVALID (of another build of Berth). Any thread. */
MUST_CHECK enum status plugin_open(const struct accelerator **out, const char *name,
                                   struct error *err);
#ifdef __cplusplus
}
#endif
#endif
