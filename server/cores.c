/* cores.c - the cores there are for this process, not for the machine.
 * A container often has a quota of CPU time rather than a mask of cores; more threads than that
 * quota holds would stop each other in the middle of a pass. */
#include "server/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int cores_of_quota(const char *cpu_max) {
    long long quota, period;
    if (sscanf(cpu_max, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) {
        return 0; // "max 100000"
    }
    const long long n = quota / period + (quota % period != 0);
    return n > INT_MAX ? INT_MAX : (int)n;
}
static int quota_cores(void) {
    char line[64] = "";
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!f) {
        return 0; // no cgroup v2, or its root, which has no quota
    }
    const char *got = fgets(line, sizeof(line), f);
    fclose(f);
    return got ? cores_of_quota(line) : 0;
}
static int masked_cores(void) {
    const struct cores_mask m = cores_mask_get();
    return m.known ? CPU_COUNT(&m.set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}
int cores_available(void) {
    const int masked = masked_cores();
    const int quota = quota_cores(), n = quota && quota < masked ? quota : masked;
    return n > 1 ? n : 1;
}
bool cores_are_ours(int n_threads) {
    return n_threads == masked_cores() && !quota_cores();
}
struct cores_mask cores_mask_get(void) {
    struct cores_mask m = {.known = false};
    m.known = !sched_getaffinity(0, sizeof(m.set), &m.set); // fails where cpu_set_t is too small
    return m;
}
void cores_mask_set(const struct cores_mask *m) {
    if (m->known) {
        sched_setaffinity(0, sizeof(m->set), &m->set);
    }
}
