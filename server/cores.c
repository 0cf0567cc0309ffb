/* cores.c - the cores there are for this process, not for the machine.
 * A container often has a quota of CPU time rather than a mask of cores; more threads than that
 * quota holds would stop each other in the middle of a pass. */
#include "server/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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
/* Appends the value of a "name : value" line. */
static void append_value(char *out, size_t size, const char *line) {
    const char *colon = strchr(line, ':');
    size_t len = strlen(out);
    if (len > 0 && len + 1 < size) {
        out[len++] = ' ';
    }
    for (const char *c = colon ? colon + 1 : ""; *c && len + 1 < size; c++) {
        if (*c > ' ' && *c <= '~') {
            out[len++] = *c;
        } else if (*c == ' ' && len > 0 && out[len - 1] != ' ') {
            out[len++] = ' ';
        }
    }
    out[len] = '\0';
}
void cores_model(char *out, size_t size) {
    static const char *const names[] = {"model name\t", "cpu family\t",      "model\t",
                                        "stepping\t",   "CPU implementer\t", "CPU part\t"};
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    out[0] = '\0';
    while (f && fgets(line, sizeof(line), f) && line[0] != '\n') { // the first of the cores
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (!strncmp(line, names[i], strlen(names[i]))) {
                append_value(out, size, line);
            }
        }
    }
    if (f) {
        fclose(f);
    }
    if (!*out) {
        snprintf(out, size, "unknown");
    }
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
