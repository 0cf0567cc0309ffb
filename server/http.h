/* http.h - the HTTP front end: libmicrohttpd daemons that share one listening socket.
 * Threads: start and stop from the main thread; everything else runs on the daemons' own threads
 * and on the watch thread (hang-ups, deadlines). */
#ifndef BERTH_SERVER_HTTP_H
#define BERTH_SERVER_HTTP_H
#include "server/routes.h"

struct http;
/* Listens at once, so that health answers while the model loads. *port gets the port in use. */
MUST_CHECK enum status http_start(struct http **out, struct server_context *ctx, int *port,
                                  struct error *err);
/* Gives back the jobs of clients that have hung up by now. Any thread, until http_close(). */
void http_look(struct http *h);
/* Sets ctx->draining, stops accepting, answers what was accepted (at most drain_timeout_ms; what
 * still waits then gets 503, what runs is awaited), ends its threads. The engine has to stay open
 * until this returns. Takes NULL. */
void http_stop(struct http *h);
void http_close(struct http *h); // frees it, after http_stop(); takes NULL
#endif
