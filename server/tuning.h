/* tuning.h - what was measured on this machine, kept on disk so that the next start need not.
 * One JSON file (compute.tuning_cache; "" is $XDG_CACHE_HOME/berth/tuning.json or
 * ~/.cache/berth/tuning.json, "off" none): named lists of numbers under a key that names all they
 * depend on (CPU model, ISA, lanes, precision, model shape, version). Written whole to a temporary
 * file and renamed; one that is broken, foreign or unwritable is as good as none, with a log line.
 * {"berth_tuning": 1, "entries": {"cost ...": [250000, 130000, 80]}}, oldest first.
 * Threads: the main thread, while the engine opens; later whoever has algorithms.c's lock. */
#ifndef BERTH_SERVER_TUNING_H
#define BERTH_SERVER_TUNING_H
#include "base/status.h"
#include <stdbool.h>

enum {
    TUNING_MAX_KEY = 240,      // bytes
    TUNING_MAX_VALUES = 64,    // of one entry
    TUNING_MAX_ENTRIES = 1024, // when there is one more, the oldest goes; a GPU has a hundred
    TUNING_MAX_FILE_BYTES = 4 << 20
};
struct tuning;                                // opaque
struct tuning *tuning_open(const char *path); // never NULL; a missing file is an empty one
/* The `n` numbers under `key`; false: there are none, or another number of them. */
MUST_CHECK bool tuning_get(const struct tuning *t, const char *key, double *out, int n);
MUST_CHECK bool tuning_has(const struct tuning *t, const char *key); // whatever is under it
/* Non-finite numbers are not kept, nor are keys and lists beyond the limits (asserted). */
void tuning_set(struct tuning *t, const char *key, const double *values, int n);
/* Writes the file if something was set since, what others wrote meanwhile among it. */
void tuning_save(struct tuning *t);
void tuning_close(struct tuning *t); // saves; takes NULL

/* The file's content, strictly read: STATUS_INVALID with the reason, and `t` is as before. */
MUST_CHECK enum status tuning_read_text(struct tuning *t, const char *bytes, size_t len,
                                        struct error *err);
#endif
