/* cores.h - how many cores this process may use. */
#ifndef BERTH_SERVER_CORES_H
#define BERTH_SERVER_CORES_H
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* The affinity mask's cores, or fewer where the control group's quota is smaller; at least 1. */
int cores_available(void);
/* Cores of a cgroup v2 cpu.max line ("200000 100000"), rounded up: a part of a core still needs a
 * thread. 0: no quota. */
int cores_of_quota(const char *cpu_max);
/* Whether `n_threads` busy threads have all that there is: every core of the mask, and no quota.
 * Only then may each be kept on a core: fewer could meet another server's on the same ones. */
bool cores_are_ours(int n_threads);
/* Which CPU this is, in printable characters: name, family, model, stepping, as the system tells
 * them; "unknown" where it does not. */
void cores_model(char *out, size_t size);
/* The calling thread's mask, to be put back after something else has pinned the thread. */
struct cores_mask {
    cpu_set_t set;
    bool known;
};
struct cores_mask cores_mask_get(void);
void cores_mask_set(const struct cores_mask *m);
#endif
