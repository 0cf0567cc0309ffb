/* url.c - the few URLs that a load test needs, strictly: what is refused here would otherwise be a
 * load against another place than was meant. */
#include "bench/client/url.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHOOSE_MS = 1000 };

static enum status refuse(struct error *err, const char *text, const char *why) {
    return error_set(err, STATUS_INVALID,
                     "\"%.120s\" is no URL to load: %s (expected http://HOST:PORT/PATH)", text,
                     why);
}
static bool is_host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr(".-_", c) != NULL;
}
/* What is between scheme and path, into host and port. */
static const char *split_authority(struct url *out, const char *text, size_t n) {
    const char *host = text;
    size_t n_host = 0;
    if (n > 0 && *text == '[') {
        host++;
        while (n_host + 1 < n && host[n_host] != ']') {
            n_host++;
        }
        if (n_host + 1 >= n || strspn(host, "0123456789abcdefABCDEF:.") < n_host) {
            return "the IPv6 address in brackets is wrong";
        }
    } else {
        while (n_host < n && is_host_char(host[n_host])) {
            n_host++;
        }
    }
    if (n_host == 0 || n_host >= sizeof(out->host)) {
        return "the host is missing or too long";
    }
    const char *rest = host + n_host + (*text == '[');
    const size_t n_rest = n - (size_t)(rest - text);
    snprintf(out->host, sizeof(out->host), "%.*s", (int)n_host, host);
    snprintf(out->authority, sizeof(out->authority), "%.*s", (int)n, text);
    snprintf(out->port, sizeof(out->port), "80");
    if (n_rest == 0) {
        return NULL;
    }
    const size_t n_digits = strspn(rest + 1, "0123456789");
    if (*rest != ':' || n_digits != n_rest - 1 || n_digits < 1 || n_digits > 5 ||
        strtol(rest + 1, NULL, 10) < 1 || strtol(rest + 1, NULL, 10) > 65535) {
        return "behind the host only :PORT may follow, 1 to 65535";
    }
    snprintf(out->port, sizeof(out->port), "%.*s", (int)n_digits, rest + 1);
    return NULL;
}
static const char *take_path(struct url *out, const char *path) {
    if (strlen(path) + 1 >= sizeof(out->path)) {
        return "the path is too long";
    }
    for (const char *c = path; *c; c++) {
        if (*c <= ' ' || *c > '~' || *c == '#') {
            return "white space, \"#\" or a letter beyond ASCII in the path";
        }
    }
    const size_t has_slash = *path != '?';
    out->path[0] = '/';
    memcpy(out->path + !has_slash, path, strlen(path) + 1);
    return NULL;
}
enum status url_parse(struct url *out, const char *text, struct error *err) {
    struct url u = {.host = ""};
    if (!strncmp(text, "https://", 8)) {
        return refuse(err, text, "TLS is not spoken here; bench the plain port behind the proxy");
    }
    if (strncmp(text, "http://", 7) != 0) {
        return refuse(err, text, "it does not begin with http://");
    }
    const char *authority = text + 7;
    const size_t n = strcspn(authority, "/?#");
    const char *why = split_authority(&u, authority, n);
    why = why ? why : take_path(&u, authority + n);
    if (why) {
        return refuse(err, text, why);
    }
    *out = u;
    return STATUS_OK;
}
static bool takes_a_connection(const struct addrinfo *a) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int code = 0;
    socklen_t len = sizeof(code);
    if (fd < 0) {
        return false;
    }
    bool is_well = connect(fd, a->ai_addr, a->ai_addrlen) == 0;
    if (!is_well && errno == EINPROGRESS) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        is_well = poll(&wait, 1, CHOOSE_MS) == 1 &&
                  getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) == 0 && code == 0;
    }
    close(fd);
    return is_well;
}
void url_choose(struct address *out, const struct addrinfo *found) {
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *a = found; found->ai_next && a; a = a->ai_next) {
        if (takes_a_connection(a)) {
            chosen = a;
            break;
        }
    }
    memcpy(&out->storage, chosen->ai_addr, chosen->ai_addrlen);
    out->len = chosen->ai_addrlen;
    out->family = chosen->ai_family;
}
enum status url_resolve(struct address *out, const struct url *u, struct error *err) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(u->host, u->port, &hints, &found);
    if (code || !found) {
        return error_set(err, STATUS_IO, "%s: no such host: %s", u->host, gai_strerror(code));
    }
    url_choose(out, found);
    freeaddrinfo(found);
    return STATUS_OK;
}
