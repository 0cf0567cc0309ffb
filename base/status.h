/* status.h - the one error convention: an enum, and one sentence where a person reads the reason.
 */
#ifndef BERTH_BASE_STATUS_H
#define BERTH_BASE_STATUS_H
#include <stddef.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define N_ITEMS(array) (sizeof(array) / sizeof((array)[0]))

enum status {
    STATUS_OK = 0,
    STATUS_INVALID,    // the input is wrong, and will be wrong again
    STATUS_TOO_LONG,   // a limit on length or size was passed
    STATUS_OVERLOADED, // a queue or pool is full; later it may work
    STATUS_TIMEOUT,    // the deadline passed before the work began
    STATUS_IO,         // the operating system said no
    STATUS_BACKEND,    // the device is faulty
    STATUS_RESULT,     // the device works, but this job's result is not finite
    STATUS_NO_MEMORY,
    STATUS_CANCELLED,   // the client hung up
    STATUS_UNAVAILABLE, // not ready yet, or draining
};
/* The enum's word in lower case, for logs and metrics: "ok", "too_long", ... */
const char *status_name(enum status s);

struct error {
    char text[512]; // one sentence, no newline, always terminated
};
/* Formats the reason into `err` (which may be NULL) and gives `s` back: `return error_set(err,
 * ...)`. */
enum status error_set(struct error *err, enum status s, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Puts "prefix: " before the text that `err` holds, and gives `s` back. */
enum status error_prefix(struct error *err, enum status s, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* For start-up only: no memory ends the process with a message. The caller frees with free(). */
void *xcalloc(size_t n, size_t size) MUST_CHECK;
char *xstrdup(const char *s) MUST_CHECK;
#endif
