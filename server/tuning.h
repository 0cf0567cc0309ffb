/* tuning.h - what was measured on this machine, kept on disk so that the next start need not.
 * One JSON file (compute.tuning_cache; "" is $XDG_CACHE_HOME/berth/tuning.json or
 * ~/.cache/berth/tuning.json, "off" none): named lists of numbers under a key that names all they
 * depend on (CPU model, ISA, lanes, precision, model shape, version). Written whole to a temporary
 * file and renamed; one that is broken, foreign or unwritable is as good as none, with a log line.
 * Threads: the main thread, while the engine opens. */
#ifndef BERTH_SERVER_TUNING_H
#define BERTH_SERVER_TUNING_H
#include "base/status.h"
#include <stdbool.h>

struct tuning;                                // opaque
struct tuning *tuning_open(const char *path); // never NULL; a missing file is an empty one
/* The numbers under `key`, at most `max`; returns how many there are, 0: none or another number. */
int tuning_get(const struct tuning *t, const char *key, double *out, int max);
void tuning_set(struct tuning *t, const char *key, const double *values, int n);
void tuning_close(struct tuning *t); // writes it if something was set; takes NULL
#endif
