/* url.h - where the load goes: http://HOST[:PORT][/PATH], HOST a name, IPv4 or [IPv6]. */
#ifndef BERTH_BENCH_CLIENT_URL_H
#define BERTH_BENCH_CLIENT_URL_H
#include "base/status.h"
#include <netdb.h>
#include <sys/socket.h>

struct url {
    char host[256]; // without brackets
    char port[8];
    char path[1024];     // "" when the URL has none; with its query
    char authority[272]; // as it stands in the URL: for the Host header
};
/* STATUS_INVALID says what is wrong; https too, which this client does not speak. */
MUST_CHECK enum status url_parse(struct url *out, const char *text, struct error *err);

struct address {
    struct sockaddr_storage storage;
    socklen_t len;
    int family;
};
struct addrinfo;
/* The first of `found` that takes a connection within a second; the first of all when it is the
 * only one or none does. "localhost" is ::1 and 127.0.0.1, and a server listens on one of them. */
void url_choose(struct address *out, const struct addrinfo *found);
/* The address of the name so chosen. STATUS_IO: it has none. May wait for a name server. */
MUST_CHECK enum status url_resolve(struct address *out, const struct url *u, struct error *err);
#endif
