/* timing_headers.c - a cursor over the value; each reader takes what the grammar allows and stops
 * at the first thing that it does not. A value is read into a copy first, so that a header that
 * goes wrong in its middle leaves nothing half told. */
#include "bench/client/timing_headers.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void stages_init(struct stages *s) {
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
}
void stages_finish(struct stages *s) {
    pthread_mutex_destroy(&s->lock);
}
static int find_known(const struct stages *s, int n, const char *name, size_t len) {
    for (int i = 0; i < n; i++) {
        if (!strncmp(s->names[i], name, len) && !s->names[i][len]) {
            return i;
        }
    }
    return -1;
}
int stages_find(struct stages *s, const char *name, size_t len) {
    if (len == 0 || len >= STAGE_NAME_BYTES) {
        return -1;
    }
    int at = find_known(s, atomic_load_explicit(&s->n, memory_order_acquire), name, len);
    if (at >= 0) {
        return at;
    }
    pthread_mutex_lock(&s->lock);
    const int n = atomic_load(&s->n);
    at = find_known(s, n, name, len);
    if (at < 0 && n < STAGES_MAX) {
        memcpy(s->names[n], name, len);
        atomic_store_explicit(&s->n, n + 1, memory_order_release);
        at = n;
    }
    pthread_mutex_unlock(&s->lock);
    return at;
}

struct cursor {
    const char *at, *end;
};
static bool is_token_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}
static void skip_spaces(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t')) {
        c->at++;
    }
}
/* One character, spaces around it allowed. */
static bool take(struct cursor *c, char wanted) {
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted) {
        return false;
    }
    c->at++;
    skip_spaces(c);
    return true;
}
struct word {
    const char *bytes;
    size_t len;
};
static bool take_token(struct cursor *c, struct word *out) {
    out->bytes = c->at;
    while (c->at < c->end && is_token_char(*c->at)) {
        c->at++;
    }
    out->len = (size_t)(c->at - out->bytes);
    return out->len > 0;
}
/* A token, or a string in quotes, whose escapes stay as they are: no number has any. */
static bool take_value(struct cursor *c, struct word *out) {
    if (c->at == c->end || *c->at != '"') {
        return take_token(c, out);
    }
    out->bytes = ++c->at;
    while (c->at < c->end && *c->at != '"') {
        c->at += *c->at == '\\' && c->at + 1 < c->end ? 2 : 1;
    }
    out->len = (size_t)(c->at - out->bytes);
    const bool is_closed = c->at < c->end;
    c->at += is_closed;
    return is_closed;
}
static bool is_word(const struct word *w, const char *name) {
    return w->len == strlen(name) && !strncasecmp(w->bytes, name, w->len);
}
/* Digits and a fraction, perhaps an exponent; never negative, never more than a day. */
static bool number_of(const struct word *w, double *out) {
    char text[40];
    if (w->len == 0 || w->len >= sizeof(text) || w->bytes[0] < '0' || w->bytes[0] > '9') {
        return false;
    }
    memcpy(text, w->bytes, w->len);
    text[w->len] = '\0';
    char *end = text;
    *out = strspn(text, "0123456789.eE+-") == w->len ? strtod(text, &end) : -1;
    return end == text + w->len && *out >= 0 && *out <= 86400e3;
}

struct metric {
    struct word name;
    double ms;
    bool has_ms;
};
static bool take_metric(struct cursor *c, struct metric *out) {
    *out = (struct metric){.ms = 0};
    if (!take_token(c, &out->name)) {
        return false;
    }
    while (take(c, ';')) {
        struct word name, value = {"", 0};
        if (!take_token(c, &name) || (take(c, '=') && !take_value(c, &value))) {
            return false;
        }
        if (is_word(&name, "dur") && !out->has_ms) {
            out->has_ms = number_of(&value, &out->ms);
            if (!out->has_ms) {
                return false;
            }
        }
    }
    return true;
}
static void keep(struct timing *t, int stage, double ms) {
    if (stage >= 0 && !(t->has & (1U << stage))) {
        t->has |= 1U << stage;
        t->ms[stage] = (float)ms;
    }
}
void timing_start(struct timing *t) {
    t->has = 0;
    t->total_ms = -1;
    t->has_batch = t->is_malformed = false;
    t->batch = (struct batch_ride){.n_batches = 0};
}
/* "layer3_qkv": too many for the table of stages; the kinds of operation sum them up. */
static bool is_of_a_layer(const struct word *name) {
    static const char prefix[] = "layer";
    const size_t n = sizeof(prefix) - 1;
    return name->len > n && !memcmp(name->bytes, prefix, n) && name->bytes[n] >= '0' &&
           name->bytes[n] <= '9';
}
static void keep_metric(struct timing *t, struct stages *s, const struct metric *m) {
    if (m->has_ms && is_word(&m->name, "total")) {
        t->total_ms = t->total_ms < 0 ? m->ms : t->total_ms;
    } else if (m->has_ms && !is_of_a_layer(&m->name)) {
        keep(t, stages_find(s, m->name.bytes, m->name.len), m->ms);
    }
}
void timing_read_server_timing(struct timing *t, struct stages *s, const char *value, size_t len) {
    struct cursor c = {value, value + len};
    struct timing told = *t;
    do {
        struct metric m;
        skip_spaces(&c);
        if (c.at == c.end || *c.at == ',') {
            continue; // an empty element, which a list may have
        }
        if (!take_metric(&c, &m)) {
            t->is_malformed = true;
            return;
        }
        keep_metric(&told, s, &m);
    } while (take(&c, ','));
    if (c.at < c.end) {
        t->is_malformed = true;
        return;
    }
    *t = told;
}

static int *field_of(struct batch_ride *b, const struct word *name) {
    const struct {
        const char *name;
        int *field;
    } fields[] = {
        {"requests", &b->n_requests}, {"jobs", &b->n_jobs},     {"tokens", &b->n_tokens},
        {"rows", &b->n_rows},         {"longest", &b->longest}, {"bucket", &b->bucket},
        {"batches", &b->n_batches},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (is_word(name, fields[i].name)) {
            return fields[i].field;
        }
    }
    return NULL;
}
static bool take_batch_field(struct cursor *c, struct batch_ride *b) {
    struct word name, value;
    double number;
    if (!take_token(c, &name) || !take(c, '=') || !take_value(c, &value)) {
        return false;
    }
    int *field = field_of(b, &name);
    const bool is_padding = is_word(&name, "padding");
    if (!field && !is_padding) {
        return true; // a word that this client does not know yet
    }
    if (!number_of(&value, &number)) {
        return false;
    }
    if (is_padding) {
        b->padding = number;
        return number <= 1;
    }
    *field = (int)number;
    return number == *field;
}
void timing_read_batch(struct timing *t, const char *value, size_t len) {
    struct cursor c = {value, value + len};
    struct batch_ride b = {.n_batches = 1};
    do {
        if (!take_batch_field(&c, &b)) {
            t->is_malformed = true;
            return;
        }
    } while (take(&c, ','));
    if (c.at < c.end || b.n_requests < 1 || b.n_rows < b.n_tokens) {
        t->is_malformed = true;
        return;
    }
    t->batch = b;
    t->has_batch = true;
}

void timing_read_tei(struct timing *t, struct stages *s, const char *name, size_t n_name,
                     const char *value, size_t len) {
    static const struct {
        const char *header, *stage;
    } known[] = {{"x-tokenization-time", "tokenize"},
                 {"x-queue-time", "queue"},
                 {"x-inference-time", "infer"},
                 {"x-total-time", "total"}};
    const struct word header = {name, n_name}, number = {value, len};
    double ms;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!is_word(&header, known[i].header)) {
            continue;
        }
        if (!number_of(&number, &ms)) {
            t->is_malformed = true;
        } else if (!strcmp(known[i].stage, "total")) {
            t->total_ms = t->total_ms < 0 ? ms : t->total_ms;
        } else {
            keep(t, stages_find(s, known[i].stage, strlen(known[i].stage)), ms);
        }
        return;
    }
}
