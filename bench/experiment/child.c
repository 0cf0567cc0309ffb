/* child.c - fork, exec of /proc/self/exe, and waiting for the log line that says ready. The log
 * goes into an unnamed file: a pipe that nobody reads would stop the server one day. */
#include "bench/experiment/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/timing.h"

enum { TICK_MS = 20, START_S = 120, STOP_S = 15, LOG_TAIL_BYTES = 65536 };

static void sleep_a_tick(void) {
    const struct timespec tick = {.tv_nsec = TICK_MS * NS_PER_MS};
    nanosleep(&tick, NULL);
}
bool signal_is_pending(void) {
    const struct timespec now = {0};
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    return sigtimedwait(&wanted, NULL, &now) > 0;
}
static void run_server(const char *const *words, int log, pid_t parent) {
    const char *argv[CHILD_MAX_WORDS + 3] = {"berth", "serve"};
    sigset_t none;
    for (int i = 0; words[i] && i < CHILD_MAX_WORDS; i++) {
        argv[i + 2] = words[i];
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(log, STDERR_FILENO) >= 0) {
        execv("/proc/self/exe", (char *const *)argv);
        fprintf(stderr, "/proc/self/exe: %s\n", strerror(errno));
    }
    _exit(127);
}
/* The end of what it has written, as a string. */
static void read_log(const struct child *c, char text[LOG_TAIL_BYTES]) {
    const off_t size = lseek(fileno(c->log), 0, SEEK_END);
    const off_t from = size >= LOG_TAIL_BYTES ? size - LOG_TAIL_BYTES + 1 : 0;
    const ssize_t n = pread(fileno(c->log), text, LOG_TAIL_BYTES - 1, from);
    text[n > 0 ? n : 0] = '\0';
}
static int ready_port(const struct child *c) {
    char text[LOG_TAIL_BYTES];
    read_log(c, text);
    const char *ready = strstr(text, "\"event\":\"ready\"");
    const char *port = ready ? strstr(ready, "\"port\":") : NULL;
    return port ? (int)strtol(port + strlen("\"port\":"), NULL, 10) : 0;
}
static enum status say_why(const struct child *c, struct error *err) {
    char text[LOG_TAIL_BYTES];
    read_log(c, text);
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') {
        text[--n] = '\0';
    }
    const char *line = strrchr(text, '\n');
    return error_set(err, STATUS_IO, "the server did not start: %.300s",
                     *text ? (line ? line + 1 : text) : "it ended without a word");
}
bool child_is_alive(struct child *c) {
    int unused;
    if (c->pid > 0 && wait4(c->pid, &unused, WNOHANG, &c->usage) == c->pid) {
        c->pid = 0;
    }
    return c->pid > 0;
}
static enum status wait_until_ready(struct child *c, int64_t end_by_ns, bool *interrupted,
                                    struct error *err) {
    const int64_t start_ns = time_now_ns(), longest_ns = start_ns + START_S * NS_PER_S;
    const int64_t until_ns = end_by_ns < longest_ns ? end_by_ns : longest_ns;
    while (!(c->port = ready_port(c))) {
        if (!child_is_alive(c)) {
            return say_why(c, err);
        }
        if (signal_is_pending()) {
            *interrupted = true;
            return error_set(err, STATUS_IO, "interrupted");
        }
        if (time_now_ns() > until_ns) {
            return error_set(err, STATUS_IO, "the server was not ready after %.0f s",
                             (double)(until_ns - start_ns) / 1e9);
        }
        sleep_a_tick();
    }
    return STATUS_OK;
}
enum status child_start(struct child *c, const char *const *words, int64_t end_by_ns,
                        bool *interrupted, struct error *err) {
    const pid_t parent = getpid();
    *c = (struct child){.log = tmpfile()};
    *interrupted = false;
    if (!c->log) {
        return error_set(err, STATUS_IO, "no file for the server's log: %s", strerror(errno));
    }
    c->pid = fork();
    if (c->pid == 0) {
        run_server(words, fileno(c->log), parent);
    }
    const enum status s = c->pid < 0 ? error_set(err, STATUS_IO, "no process: %s", strerror(errno))
                                     : wait_until_ready(c, end_by_ns, interrupted, err);
    if (s) {
        child_stop(c);
    }
    return s;
}
void child_ask_to_end(const struct child *c) {
    if (c->pid > 0) {
        kill(c->pid, SIGTERM);
    }
}
void child_stop(struct child *c) {
    const int64_t until_ns = time_now_ns() + STOP_S * NS_PER_S;
    child_ask_to_end(c);
    while (child_is_alive(c) && time_now_ns() < until_ns) {
        sleep_a_tick();
    }
    if (c->pid > 0) {
        int unused;
        kill(c->pid, SIGKILL);
        wait4(c->pid, &unused, 0, &c->usage);
        c->pid = 0;
    }
    if (c->log) {
        fclose(c->log);
        c->log = NULL;
    }
}
double child_cpu_s(const struct child *c) {
    clockid_t clock;
    struct timespec t = {0};
    if (c->pid > 0 && !clock_getcpuclockid(c->pid, &clock)) {
        clock_gettime(clock, &t);
    }
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
