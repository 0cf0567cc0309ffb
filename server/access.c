/* access.c - headers to a caller, or to the reason why not.
 * What a path needs follows from the path, not from a list of routes: so a new one is closed until
 * somebody opens it here. A key answers for its class of priority; a request may ask for less.
 * Pure but for the look-up of the key. */
#include "server/access.h"

#include <string.h>
#include <strings.h>

#include "base/timing.h"

enum need { NEED_NOTHING, NEED_KEY, NEED_ADMIN };

bool access_is_admin(const struct route *route) {
    static const char debug[] = "/debug/";
    return !strncmp(route->path, debug, sizeof(debug) - 1);
}
static enum need need_of(const struct route *route, bool open_metrics) {
    if (access_is_admin(route)) {
        return NEED_ADMIN;
    }
    const bool is_open =
        route->metric == ROUTE_HEALTH || (route->metric == ROUTE_METRICS && open_metrics);
    return is_open ? NEED_NOTHING : NEED_KEY;
}

static struct access refuse(enum refusal why, const char *fault) {
    return (struct access){.why = why, .fault = fault};
}
/* Blanks at the end are no part of a field's value (RFC 9110, 5.5); the library leaves them. */
static size_t value_len(const char *text) {
    size_t n = strlen(text);
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t')) {
        n--;
    }
    return n;
}
/* The secret after "Bearer "; NULL when it is of another scheme. */
static const char *bearer_of(const char *authorization) {
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0) {
        return NULL;
    }
    const char *secret = authorization + sizeof(scheme) - 1;
    return secret + strspn(secret, " ");
}
static struct access identify(const struct access_headers *h, struct keys *keys, struct key *key) {
    const char *bearer = bearer_of(h->authorization);
    if (!bearer && !h->api_key) {
        return refuse(REFUSE_KEY,
                      "an API key is needed: Authorization: Bearer KEY, or X-API-Key: KEY");
    }
    struct key other;
    const char *secret = bearer ? bearer : h->api_key;
    const bool known = keys_find(keys, secret, value_len(secret), key);
    const bool agree = !bearer || !h->api_key ||
                       (keys_find(keys, h->api_key, value_len(h->api_key), &other) && known &&
                        other.index == key->index);
    if (!known || !agree) {
        return refuse(REFUSE_KEY, known ? "Authorization and X-API-Key name different keys"
                                        : "this API key is not known");
    }
    return (struct access){.fault = NULL};
}
static struct access admit(const struct access_headers *h, enum need need, struct keys *keys,
                           bool is_local, struct key *key) {
    if (need == NEED_NOTHING) {
        return (struct access){.fault = NULL};
    }
    if (!keys) {
        return need == NEED_ADMIN && !is_local
                   ? refuse(REFUSE_FORBIDDEN, "without API keys /debug answers this machine alone")
                   : (struct access){.fault = NULL};
    }
    const struct access a = identify(h, keys, key);
    return !a.fault && need == NEED_ADMIN && !key->is_admin
               ? refuse(REFUSE_FORBIDDEN, "/debug needs a key with \"admin\": true")
               : a;
}

/* Digits alone: what a stricter or laxer reader would take for another number is no number. */
static bool read_deadline(int64_t *out_ns, const char *text) {
    enum { MAX_DIGITS = 7, MAX_MS = 3600000 };
    const size_t n = strspn(text, "0123456789");
    int64_t ms = 0;
    if (n == 0 || n > MAX_DIGITS || n != value_len(text)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        ms = ms * 10 + (text[i] - '0');
    }
    *out_ns = ms * NS_PER_MS;
    return ms >= 1 && ms <= MAX_MS;
}
static bool read_priority(enum priority *out, const char *text) {
    for (int i = 0; i < N_PRIORITIES; i++) {
        const char *name = priority_names[i];
        if (value_len(text) == strlen(name) && !strncmp(text, name, strlen(name))) {
            *out = (enum priority)i;
            return true;
        }
    }
    return false;
}
static enum priority lower(enum priority a, enum priority b) {
    static const int urgency[] = {[PRIORITY_LOW] = 0, [PRIORITY_NORMAL] = 1, [PRIORITY_HIGH] = 2};
    return urgency[a] < urgency[b] ? a : b;
}

struct access access_judge(const struct access_headers *headers, const struct route *route,
                           struct keys *keys, bool open_metrics, bool is_local) {
    const enum need need = need_of(route, open_metrics);
    struct key key = {.priority = PRIORITY_HIGH}; // nobody's limit, where there are no keys
    struct access a = admit(headers, need, keys, is_local, &key);
    if (a.fault || need == NEED_NOTHING) {
        return a;
    }
    memcpy(a.caller.key_name, key.name, sizeof(a.caller.key_name));
    a.caller.key = key.index;
    if (headers->deadline && !read_deadline(&a.caller.deadline_ns, headers->deadline)) {
        return refuse(REFUSE_BAD_REQUEST,
                      "Berth-Deadline-Ms has to be an integer, 1 to 3600000 (milliseconds)");
    }
    enum priority wanted = keys ? key.priority : PRIORITY_NORMAL;
    if (headers->priority && !read_priority(&wanted, headers->priority)) {
        return refuse(REFUSE_BAD_REQUEST, "Berth-Priority has to be high, normal or low");
    }
    a.caller.priority = lower(wanted, key.priority);
    return a;
}
