/* response.c - how a reply looks: error bodies and the one table of refusals.
 * An error is formatted on the stack first and then written to the arena; should that be full, a
 * body of its own kind stands in that needs no memory. The timing headers are in
 * response_timing.c. */
#include "server/response.h"

#include "server/json.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Words that TEI knows are spelled as there; the others are ours. */
struct refusal_row {
    int http_status;
    const char *error_type;
    const char *retry_after; // seconds; NULL: trying again does not help
    const char *spare_body;
};
#define ROW(code, type, retry, reason)                                                             \
    { code, type, retry, "{\"error\":\"" reason "\",\"error_type\":\"" type "\"}" }
static const struct refusal_row rows[] = {
    [REFUSE_BAD_REQUEST] = ROW(400, "BadRequest", NULL, "the request is malformed"),
    [REFUSE_EMPTY] = ROW(400, "Empty", NULL, "the input is empty"),
    [REFUSE_KEY] = ROW(401, "Unauthorized", NULL, "an API key is needed"),
    [REFUSE_FORBIDDEN] = ROW(403, "Forbidden", NULL, "this is not allowed"),
    [REFUSE_NOT_FOUND] = ROW(404, "NotFound", NULL, "no such path"),
    [REFUSE_METHOD] = ROW(405, "MethodNotAllowed", NULL, "this path takes other methods"),
    [REFUSE_SLOW] = ROW(408, "RequestTimeout", NULL, "the request did not arrive in time"),
    [REFUSE_NO_LENGTH] = ROW(411, "LengthRequired", NULL, "Content-Length is missing"),
    [REFUSE_TOO_LARGE] = ROW(413, "TooLarge", NULL, "the request needs more memory than it may"),
    [REFUSE_TYPE] = ROW(415, "UnsupportedMediaType", NULL, "the body must be application/json"),
    [REFUSE_VALIDATION] = ROW(422, "Validation", NULL, "the request is not valid"),
    [REFUSE_TASK] = ROW(424, "Backend", NULL, "this model cannot do that"),
    [REFUSE_RESULT] = ROW(424, "Backend", NULL, "the model's result is not finite"),
    [REFUSE_OVERLOADED] = ROW(429, "Overloaded", "1", "too many requests are waiting"),
    [REFUSE_HEADERS] = ROW(431, "HeadersTooLarge", NULL, "the headers are too large"),
    [REFUSE_INTERNAL] = ROW(500, "Internal", NULL, "the server failed"),
    [REFUSE_DEVICE] = ROW(503, "Backend", "1", "the device failed"),
    [REFUSE_UNAVAILABLE] = ROW(503, "Unhealthy", "1", "the server is not ready"),
    [REFUSE_DEADLINE] = ROW(504, "Timeout", NULL, "the request took too long"),
};

int refusal_http_status(enum refusal why) {
    return rows[why].http_status;
}

const char *refusal_error_type(enum refusal why) {
    return rows[why].error_type;
}

enum refusal refusal_of_status(enum status s) {
    switch (s) {
    case STATUS_INVALID:
    case STATUS_TOO_LONG: return REFUSE_VALIDATION;
    case STATUS_NO_MEMORY: return REFUSE_TOO_LARGE; // the request's own arena is full
    case STATUS_OVERLOADED: return REFUSE_OVERLOADED;
    case STATUS_TIMEOUT: return REFUSE_DEADLINE;
    case STATUS_BACKEND: return REFUSE_DEVICE;
    case STATUS_RESULT: return REFUSE_RESULT;
    case STATUS_CANCELLED: // nobody reads it, unless a shutdown cancelled
    case STATUS_UNAVAILABLE: return REFUSE_UNAVAILABLE;
    case STATUS_IO:
    case STATUS_OK: break;
    }
    return REFUSE_INTERNAL;
}

void reply_header(struct request *r, const char *name, const char *value) {
    struct reply *reply = &r->reply;
    assert(reply->n_headers < REPLY_MAX_HEADERS);
    reply->headers[reply->n_headers++] = (struct request_header){name, value};
}

void reply_json(struct request *r, int http_status, const char *body, size_t len) {
    r->reply.http_status = http_status;
    r->reply.content_type = "application/json";
    r->reply.body = body;
    r->reply.body_len = len;
}

void reply_error(struct request *r, enum refusal why, const char *fmt, ...) {
    const struct refusal_row *row = &rows[why];
    char reason[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);

    struct json_writer w;
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{\"error\":");
    json_write_string(&w, reason, strlen(reason));
    json_write_raw(&w, ",\"error_type\":\"");
    json_write_raw(&w, row->error_type);
    json_write_raw(&w, "\",\"request_id\":");
    json_write_string(&w, r->id, strlen(r->id));
    json_write_raw(&w, "}");

    r->reply.n_headers = 0; // what an answer would have said is void
    if (w.failed) {
        reply_json(r, row->http_status, row->spare_body, strlen(row->spare_body));
    } else {
        reply_json(r, row->http_status, w.data, w.len);
    }
    if (row->retry_after) {
        reply_header(r, "Retry-After", row->retry_after);
    }
    if (why == REFUSE_KEY) {
        reply_header(r, "WWW-Authenticate", "Bearer realm=\"berth\"");
    }
}

static void set_header(struct request *r, const char *name, const char *value) {
    for (int i = 0; i < r->reply.n_headers; i++) {
        if (!strcmp(r->reply.headers[i].name, name)) {
            r->reply.headers[i].value = value;
            return;
        }
    }
    reply_header(r, name, value);
}
void reply_retry_after(struct request *r, int64_t ns) {
    enum { BYTES = 32, MAX_S = 3600 };
    const int64_t most_ns = MAX_S * NS_PER_S;
    const int64_t wait_ns = ns < 1 ? 1 : ns > most_ns ? most_ns : ns;
    char *text = arena_alloc(&r->arena, 2, BYTES);
    if (text) { // else the table's stays
        snprintf(text, BYTES, "%lld", (long long)((wait_ns + NS_PER_S - 1) / NS_PER_S));
        snprintf(text + BYTES, BYTES, "%lld", (long long)((wait_ns + NS_PER_MS - 1) / NS_PER_MS));
        set_header(r, "Retry-After", text);
        set_header(r, "Retry-After-Ms", text + BYTES);
    }
}

bool reply_item_error(struct request *r, struct input *in, enum refusal why, const char *fmt, ...) {
    char reason[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);
    const size_t n = strlen(reason) + 1;
    char *copy = r->is_partial ? arena_alloc(&r->arena, n, 1) : NULL;
    if (!copy) {
        reply_error(r, r->is_partial ? REFUSE_TOO_LARGE : why, "%s", reason);
        return false;
    }
    memcpy(copy, reason, n);
    in->error = copy;
    in->error_type = refusal_error_type(why);
    return true;
}
