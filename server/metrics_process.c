/* metrics_process.c - what the kernel says about this process, under the names that Prometheus'
 * client libraries have made common. Files under /proc are read whole into the stack, so asking for
 * metrics allocates nothing. */
#include "server/metrics_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/timing.h"
#include "server/exposition.h"

/* The file's beginning, as a string; false when it cannot be read. */
static bool read_file(char *out, size_t bytes, const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, out, bytes - 1);
    if (fd >= 0) {
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}
/* Field `index` (from 1, as proc(5) counts) of /proc/self/stat; the second, a name that may hold
 * spaces, ends at the last parenthesis. */
static bool read_stat_field(uint64_t *out, int index) {
    char text[1024];
    if (!read_file(text, sizeof(text), "/proc/self/stat")) {
        return false;
    }
    const char *p = strrchr(text, ')');
    for (int i = 2; p && i < index; i++) {
        p = strchr(p + 1, ' ');
    }
    *out = p ? strtoull(p, NULL, 10) : 0;
    return p != NULL;
}
/* Seconds since 1970 when the machine was started. */
static bool read_boot_time(uint64_t *out) {
    char text[16384];
    if (!read_file(text, sizeof(text), "/proc/stat")) {
        return false;
    }
    const char *p = strstr(text, "\nbtime ");
    *out = p ? strtoull(p + strlen("\nbtime "), NULL, 10) : 0;
    return p != NULL;
}

static void expose_gauge(struct json_writer *w, const char *name, const char *help, uint64_t value,
                         enum unit unit) {
    expose_family(w, name, "gauge", help);
    expose_sample(w, name, NO_LABELS, value, unit);
}
static void expose_cpu(struct json_writer *w) {
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        const uint64_t s = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec);
        const uint64_t us = (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
        expose_family(w, "process_cpu_seconds_total", "counter",
                      "User and system CPU time, in seconds.");
        expose_sample(w, "process_cpu_seconds_total", NO_LABELS, s * (uint64_t)NS_PER_S + us * 1000,
                      UNIT_NS_AS_SECONDS);
    }
}
static void expose_memory(struct json_writer *w) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes, pages;
    if (read_stat_field(&bytes, 23)) {
        expose_gauge(w, "process_virtual_memory_bytes", "Virtual memory, reserved arenas included.",
                     bytes, UNIT_NONE);
    }
    if (read_stat_field(&pages, 24)) {
        expose_gauge(w, "process_resident_memory_bytes", "Resident memory.", pages * page,
                     UNIT_NONE);
    }
}
static void expose_start_time(struct json_writer *w) {
    const uint64_t ticks_a_second = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t ticks, boot;
    if (read_stat_field(&ticks, 22) && read_boot_time(&boot)) {
        const uint64_t ns = ticks * ((uint64_t)NS_PER_S / ticks_a_second);
        expose_gauge(w, "process_start_time_seconds", "Start of the process, since 1970.",
                     boot * (uint64_t)NS_PER_S + ns, UNIT_NS_AS_SECONDS);
    }
}
static void expose_files(struct json_writer *w) {
    struct rlimit limit;
    uint64_t threads;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        expose_gauge(w, "process_max_fds", "Limit on open file descriptors.", limit.rlim_cur,
                     UNIT_NONE);
    }
    if (read_stat_field(&threads, 20)) {
        expose_gauge(w, "process_threads", "Threads of the process.", threads, UNIT_NONE);
    }
}
void expose_process(struct json_writer *w) {
    expose_cpu(w);
    expose_memory(w);
    expose_start_time(w);
    expose_files(w);
}
