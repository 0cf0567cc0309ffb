/* http_get.h - asks a Berth server for one of its own pages, or sets it. For commands, not for the
 * server: it waits, at most some seconds. */
#ifndef BERTH_SERVER_HTTP_GET_H
#define BERTH_SERVER_HTTP_GET_H
#include "base/status.h"
#include <stddef.h>

/* GET `path` of http://HOST[:PORT]; secret: sent as a bearer token, NULL: none. The caller frees
 * *body, which ends in a NUL that *len does not count. Errors: STATUS_INVALID: the URL, or a status
 * of 400 to 499 (named, with what the server said); STATUS_IO: no connection, no HTTP, another
 * status than 200. */
MUST_CHECK enum status http_get(char **body, size_t *len, const char *url, const char *path,
                                const char *secret, struct error *err);
/* PUT `json` there; what the server answers is not kept. Errors as above. */
MUST_CHECK enum status http_put(const char *url, const char *path, const char *json,
                                const char *secret, struct error *err);
#endif
