/* cores.h - how many cores this process may use. */
#ifndef BERTH_SERVER_CORES_H
#define BERTH_SERVER_CORES_H
/* The affinity mask's cores, or fewer where the control group's quota is smaller; at least 1. */
int cores_available(void);
/* Cores of a cgroup v2 cpu.max line ("200000 100000"), rounded up: a part of a core still needs a
 * thread. 0: no quota. */
int cores_of_quota(const char *cpu_max);
#endif
