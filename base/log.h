/* log.h - JSON lines, one event a line, written to a file descriptor.
 * Threads: log_event() from any thread. Lines go through a bounded queue to a writer thread, so a
 *          stuck reader of the log never stops a request; what does not fit is dropped and counted.
 *          Before log_start() and after log_stop() a line is written at once by its caller. */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };
void log_set_level(enum log_level level);
bool log_level_parse(enum log_level *out,
                     const char *name); // "debug", "info", "warn", "error", "off"
const char *log_level_name(enum log_level level);

MUST_CHECK enum status log_start(int fd, struct error *err); // borrows fd until log_stop()
void log_stop(void);                                         // writes what is queued
uint64_t log_dropped(void);

/* One typed field of a line. Make them with the macros; keys and strings are borrowed for the call;
 * strings are escaped and, beyond 1 KiB, cut. */
struct log_field {
    const char *key;
    enum { LOG_FIELD_STRING, LOG_FIELD_INT, LOG_FIELD_DOUBLE, LOG_FIELD_BOOL } type;
    const char *string;
    int64_t integer;
    double number;
};
#define LOG_STR(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_STRING, .string = (v)})
#define LOG_INT(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_INT, .integer = (v)})
#define LOG_NUM(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_DOUBLE, .number = (v)})
#define LOG_FLAG(k, v) ((struct log_field){.key = (k), .type = LOG_FIELD_BOOL, .integer = (v)})
/* {"time":"2026-11-30T20:00:00.000Z","level":"info","event":"ready","port":8080} */
void log_write(enum log_level level, const char *event, const struct log_field *fields,
               int n_fields);
/* log_event(LOG_INFO, "ready", LOG_INT("port", 8080)); at least one field. */
#define log_event(level, event, ...)                                                               \
    log_write((level), (event), (const struct log_field[]){__VA_ARGS__},                           \
              (int)N_ITEMS(((const struct log_field[]){__VA_ARGS__})))
#endif
