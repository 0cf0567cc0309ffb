/* http_gate.c - what a request's head must look like before anything of it is believed.
 * libmicrohttpd takes framing that two parsers in a row would read differently (RFC 9112, section
 * 11.2: request smuggling): both lengths, a length twice, a coding it does not know, a folded line
 * glued to its name. All that is refused here with 400, and a refusal in the first call closes the
 * connection, so that nothing after it is taken for a request. Pure: no sockets, no library. */
#include "server/http_gate.h"

#include <string.h>
#include <strings.h>

static bool is_token_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}
static bool is_token(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!is_token_char(s[i])) {
            return false;
        }
    }
    return n > 0;
}
static bool equals(const char *s, size_t n, const char *word) {
    return n == strlen(word) && !strncasecmp(s, word, n);
}
static bool starts_with(const char *s, size_t n, const char *word) {
    return n > strlen(word) && !strncasecmp(s, word, strlen(word));
}

static bool read_length(int64_t *out, const char *s, size_t n) {
    int64_t v = 0;
    if (n == 0 || n > 18) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') {
            return false;
        }
        v = v * 10 + (s[i] - '0');
    }
    *out = v;
    return true;
}
/* Headers of which there is one at most; with two it would be chance which one counts. */
static const char *read_single(struct gate *g, const char *name, size_t name_len,
                               const char *value) {
    const struct {
        const char *name, **value, *fault;
    } singles[] = {
        {"Content-Type", &g->content_type, "more than one Content-Type header"},
        {"Authorization", &g->access.authorization, "more than one Authorization header"},
        {"X-API-Key", &g->access.api_key, "more than one X-API-Key header"},
        {"Berth-Deadline-Ms", &g->access.deadline, "more than one Berth-Deadline-Ms header"},
        {"Berth-Priority", &g->access.priority, "more than one Berth-Priority header"},
    };
    for (size_t i = 0; i < N_ITEMS(singles); i++) {
        if (equals(name, name_len, singles[i].name)) {
            const bool again = *singles[i].value != NULL;
            *singles[i].value = value;
            return again ? singles[i].fault : NULL;
        }
    }
    return NULL;
}
static const char *read_header(struct gate *g, const char *name, size_t name_len, const char *value,
                               size_t value_len) {
    if (!is_token(name, name_len)) {
        return "a header's name has a character that is not allowed in names";
    }
    if (memchr(value, '\0', value_len)) {
        return "a header's value holds a NUL";
    }
    if (equals(name, name_len, "Host")) {
        return g->n_hosts++ ? "more than one Host header" : NULL;
    }
    if (equals(name, name_len, "Content-Length")) {
        if (g->n_lengths++) {
            return "more than one Content-Length header";
        }
        return read_length(&g->length, value, value_len) ? NULL : "Content-Length is no number";
    }
    if (equals(name, name_len, "Transfer-Encoding")) {
        g->is_chunked = equals(value, value_len, "chunked");
        if (g->n_codings++) {
            return "more than one Transfer-Encoding header";
        }
        return g->is_chunked ? NULL : "Transfer-Encoding may only be \"chunked\"";
    }
    if (starts_with(name, name_len, "Content-Length") ||
        starts_with(name, name_len, "Transfer-Encoding")) {
        return "a framing header is folded or misspelt"; // a folded line is glued to the name
    }
    return read_single(g, name, name_len, value);
}
void gate_header(struct gate *g, const char *name, size_t name_len, const char *value,
                 size_t value_len) {
    g->n_bytes += (int64_t)(name_len + value_len);
    if (!g->fault) {
        g->fault = read_header(g, name, name_len, value ? value : "", value ? value_len : 0);
    }
}

const char *gate_framing_fault(const struct gate *g, const char *version) {
    const bool is_1_1 = !strcmp(version, "HTTP/1.1");
    if (!is_1_1 && strcmp(version, "HTTP/1.0") != 0) {
        return "only HTTP/1.1 and HTTP/1.0 are spoken here";
    }
    if (g->fault) {
        return g->fault;
    }
    if (g->n_codings && g->n_lengths) {
        return "Content-Length and Transfer-Encoding exclude each other";
    }
    if (g->n_codings && !is_1_1) {
        return "HTTP/1.0 has no Transfer-Encoding";
    }
    return is_1_1 && !g->n_hosts ? "the Host header is missing" : NULL;
}

static const char *skip_spaces(const char *s) {
    return s + strspn(s, " \t");
}
static bool is_utf8_charset(const char *v) {
    const bool is_quoted = *v == '"';
    v += is_quoted;
    if (strncasecmp(v, "utf-8", 5) != 0) {
        return false;
    }
    v += 5;
    if (is_quoted && *v++ != '"') {
        return false;
    }
    v = skip_spaces(v);
    return !*v || *v == ';';
}
bool gate_is_json(const char *content_type) {
    static const char type[] = "application/json";
    if (!content_type || strncasecmp(content_type, type, sizeof(type) - 1) != 0) {
        return false;
    }
    const char *p = skip_spaces(content_type + sizeof(type) - 1);
    if (*p && *p != ';') {
        return false;
    }
    for (; p && *p; p = strchr(p, ';')) {
        p = skip_spaces(p + 1);
        if (!strncasecmp(p, "charset=", 8) && !is_utf8_charset(p + 8)) {
            return false;
        }
    }
    return true;
}
