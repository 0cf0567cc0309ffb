/* http_gate.h - the first look at a request's headers: is this a request at all?
 * Pure: no sockets, no library. */
#ifndef BERTH_SERVER_HTTP_GATE_H
#define BERTH_SERVER_HTTP_GATE_H
#include "server/access.h"
#include <stdint.h>

/* What the gate has read from the headers. */
struct gate {
    int64_t n_bytes; // names and values
    int n_hosts, n_lengths, n_codings;
    int64_t length; // of the body
    bool is_chunked;
    const char *fault; // why it is no request; NULL: well-formed so far
    const char *content_type;
    struct access_headers access;
};
/* Takes one header line. The strings are borrowed as long as the request lives. */
void gate_header(struct gate *g, const char *name, size_t name_len, const char *value,
                 size_t value_len);
/* After the last header: the rules between them. NULL, or why this is no request. */
const char *gate_framing_fault(const struct gate *g, const char *version);
bool gate_is_json(const char *content_type); // application/json, in UTF-8; NULL is not
#endif
