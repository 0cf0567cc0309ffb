/* access.h - whether a request may come in, and as whom: judged from its headers alone, before a
 * byte of its body is read.
 * Health is open to all; everything else needs a key where keys are configured (/metrics unless
 * the configuration opens it), and what lies under /debug/ an admin's. Without keys everything is
 * open, but /debug/ only to this machine. */
#ifndef BERTH_SERVER_ACCESS_H
#define BERTH_SERVER_ACCESS_H
#include "server/response.h"
#include "server/routes.h"

/* Values of the headers that count here; NULL: absent. */
struct access_headers {
    const char *authorization, *api_key; // Bearer KEY; KEY
    const char *deadline, *priority;     // Berth-Deadline-Ms, Berth-Priority
};
struct access {
    struct caller caller; // deadline_ns: relative to the headers' arrival
    enum refusal why;     // when `fault` is set
    const char *fault;    // why not; static text, NULL: come in
};
bool access_is_admin(const struct route *route); // lies under /debug/
/* keys: NULL when none are configured. is_local: the peer is on this machine. */
struct access access_judge(const struct access_headers *headers, const struct route *route,
                           struct keys *keys, bool open_metrics, bool is_local);
#endif
