/* response.h - replies: error bodies, timing headers, and the one table from status to HTTP code.
 * Everything is written to the request's arena. */
#ifndef BERTH_SERVER_RESPONSE_H
#define BERTH_SERVER_RESPONSE_H
#include "server/config.h"
#include "server/request.h"

/* Why a request is refused, as a client sees it; each has one HTTP code and one TEI error_type. */
enum refusal {
    REFUSE_BAD_REQUEST, // 400 malformed JSON or framing
    REFUSE_EMPTY,       // 400 empty input
    REFUSE_KEY,         // 401 no key, or one that is not known
    REFUSE_FORBIDDEN,   // 403 this key (or this peer) may not
    REFUSE_NOT_FOUND,   // 404
    REFUSE_METHOD,      // 405, Allow
    REFUSE_SLOW,        // 408
    REFUSE_NO_LENGTH,   // 411
    REFUSE_TOO_LARGE,   // 413 body
    REFUSE_TYPE,        // 415
    REFUSE_VALIDATION,  // 422 wrong shape, too long without truncate
    REFUSE_TASK,        // 424 this model cannot do it
    REFUSE_RESULT,      // 424 a job's own fault: its result is not finite
    REFUSE_OVERLOADED,  // 429, Retry-After
    REFUSE_HEADERS,     // 431
    REFUSE_INTERNAL,    // 500
    REFUSE_DEVICE,      // 503, Retry-After
    REFUSE_UNAVAILABLE, // 503 loading or draining, Retry-After
    REFUSE_DEADLINE,    // 504
};
int refusal_http_status(enum refusal why);
const char *refusal_error_type(enum refusal why);
enum refusal refusal_of_status(enum status s);
/* Replaces the reply by {"error", "error_type", "request_id"}. Never fails: when the arena is full,
 * a static body stands in. */
void reply_error(struct request *r, enum refusal why, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Retry-After in whole seconds, rounded up, and Retry-After-Ms; in place of the table's. */
void reply_retry_after(struct request *r, int64_t ns);
/* One input has failed. With r->is_partial its place keeps the reason and the rest goes on: true.
 * Else the whole request is refused for it: false. */
bool reply_item_error(struct request *r, struct input *in, enum refusal why, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void reply_json(struct request *r, int http_status, const char *body, size_t len);
void reply_header(struct request *r, const char *name, const char *value); // borrows both
/* X-Request-Id, and for routes that ran jobs (or tokenized) Server-Timing, Berth-Batch and the TEI
 * set. Called last: it ends STAGE_WRITE. */
void reply_add_timing(struct request *r, const struct config *cfg);
#endif
