/* signals.h - SIGTERM, SIGINT and SIGHUP as events to wait for.
 * Threads: one of its own takes every signal; signals_start() before any other thread is made, so
 * that all of them inherit the blocked mask. */
#ifndef BERTH_SERVER_SIGNALS_H
#define BERTH_SERVER_SIGNALS_H
#include "base/status.h"

struct signals;
/* The first SIGTERM or SIGINT ends signals_wait(), then and for good; one that comes
 * SIGNALS_APART_MS later or more ends the process. (timeout(1), for one, sends its signal twice in
 * a row.) SIGHUP ends one signals_wait(); several before it count as one. SIGPIPE is ignored. */
enum { SIGNALS_APART_MS = 500 };
MUST_CHECK enum status signals_start(struct signals **out, struct error *err);
int signals_wait(struct signals *s);  // the signal
void signals_stop(struct signals *s); // takes NULL; the mask stays
#endif
