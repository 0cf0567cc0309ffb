/* answer.c - a machine of states that eats lines and bodies from whatever arrives. A line that lies
 * whole in the buffer is read where it lies; only one that came in pieces is put together in the
 * answer. Framing as in RFC 9112: one length or chunks, never both; no folded lines; CR LF. */
#include "bench/client/answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum status bad(struct error *err, const char *what) {
    return error_set(err, STATUS_INVALID, "the answer is no HTTP: %s", what);
}
static enum status too_long(struct error *err, const char *what) {
    return error_set(err, STATUS_TOO_LONG, "the answer's %s", what);
}
void answer_start(struct answer *a) {
    a->state = ANSWER_STATUS_LINE;
    a->http_status = 0;
    a->closes = a->is_http10 = a->is_chunked = a->has_length = false;
    a->body_bytes = a->left = 0;
    a->n_snippet = 0;
    a->snippet[0] = '\0';
    a->head_bytes = a->n_line = 0;
    timing_start(&a->timing);
}
bool answer_has_begun(const struct answer *a) {
    return a->state != ANSWER_STATUS_LINE || a->n_line > 0;
}

struct text {
    const char *bytes;
    size_t len;
};
static bool is_text(struct text t, const char *word) {
    return t.len == strlen(word) && !strncasecmp(t.bytes, word, t.len);
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
/* "HTTP/1.1 200" and perhaps a reason. */
static enum status read_status_line(struct answer *a, struct text line, struct error *err) {
    const char *b = line.bytes;
    if (line.len < 12 || strncmp(b, "HTTP/1.", 7) != 0 || (b[7] != '0' && b[7] != '1') ||
        b[8] != ' ' || !is_digit(b[9]) || !is_digit(b[10]) || !is_digit(b[11]) ||
        (line.len > 12 && b[12] != ' ')) {
        return bad(err, "it does not begin with HTTP/1.1 and a status");
    }
    a->http_status = (b[9] - '0') * 100 + (b[10] - '0') * 10 + (b[11] - '0');
    a->is_http10 = a->closes = b[7] == '0';
    if (a->http_status < 100 || a->http_status == 101) {
        return bad(err, "a status that no client can go on from");
    }
    a->state = ANSWER_HEADERS;
    return STATUS_OK;
}

static enum status read_length(struct answer *a, const struct answer_rules *rules,
                               struct text value, struct error *err) {
    int64_t n = 0;
    if (value.len == 0 || value.len > 15) {
        return bad(err, "a Content-Length that is no length");
    }
    for (size_t i = 0; i < value.len; i++) {
        if (!is_digit(value.bytes[i])) {
            return bad(err, "a Content-Length that is no number");
        }
        n = n * 10 + (value.bytes[i] - '0');
    }
    if (a->has_length && n != a->left) {
        return bad(err, "two lengths");
    }
    if (n > rules->max_body_bytes) {
        return too_long(err, "body is longer than max-body-bytes");
    }
    a->has_length = true;
    a->left = n;
    return STATUS_OK;
}
/* "close" or "keep-alive" anywhere in the list. */
static void read_connection(struct answer *a, struct text value) {
    while (value.len > 0) {
        const char *comma = memchr(value.bytes, ',', value.len);
        struct text word = {value.bytes, comma ? (size_t)(comma - value.bytes) : value.len};
        value.bytes += word.len + (comma != NULL), value.len -= word.len + (comma != NULL);
        while (word.len > 0 && strchr(" \t", word.bytes[0])) {
            word.bytes++, word.len--;
        }
        while (word.len > 0 && strchr(" \t", word.bytes[word.len - 1])) {
            word.len--;
        }
        if (is_text(word, "close")) {
            a->closes = true;
        } else if (is_text(word, "keep-alive") && a->is_http10) {
            a->closes = false;
        }
    }
}
static enum status read_header(struct answer *a, const struct answer_rules *rules, struct text name,
                               struct text value, struct error *err) {
    if (is_text(name, "Content-Length")) {
        return read_length(a, rules, value, err);
    }
    if (is_text(name, "Transfer-Encoding")) {
        if (!is_text(value, "chunked") || a->is_chunked) {
            return bad(err, "a Transfer-Encoding other than one \"chunked\"");
        }
        a->is_chunked = true;
    } else if (is_text(name, "Connection")) {
        read_connection(a, value);
    } else if (is_text(name, "Berth-Batch")) {
        timing_read_batch(&a->timing, value.bytes, value.len);
    } else if (rules->reads_tei) {
        timing_read_tei(&a->timing, rules->stages, name.bytes, name.len, value.bytes, value.len);
    } else if (is_text(name, "Server-Timing")) {
        timing_read_server_timing(&a->timing, rules->stages, value.bytes, value.len);
    }
    return STATUS_OK;
}
static bool is_name(struct text t) {
    for (size_t i = 0; i < t.len; i++) {
        const char c = t.bytes[i];
        if (c <= ' ' || c > '~' || strchr("\"(),/:;<=>?@[\\]{}", c)) {
            return false;
        }
    }
    return t.len > 0;
}
static enum status read_header_line(struct answer *a, const struct answer_rules *rules,
                                    struct text line, struct error *err) {
    const char *colon = memchr(line.bytes, ':', line.len);
    const struct text name = {line.bytes, colon ? (size_t)(colon - line.bytes) : 0};
    if (!colon || !is_name(name)) {
        return bad(err, "a header without a name");
    }
    struct text value = {colon + 1, line.len - name.len - 1};
    while (value.len > 0 && (*value.bytes == ' ' || *value.bytes == '\t')) {
        value.bytes++, value.len--;
    }
    while (value.len > 0 && strchr(" \t", value.bytes[value.len - 1])) {
        value.len--;
    }
    if (memchr(value.bytes, '\0', value.len) || memchr(value.bytes, '\r', value.len)) {
        return bad(err, "a NUL or CR in a header");
    }
    return a->state == ANSWER_TRAILERS ? STATUS_OK : read_header(a, rules, name, value, err);
}
static enum status end_head(struct answer *a, struct error *err) {
    if (a->http_status < 200) { // 100 and 103: the answer itself comes yet
        const size_t head_bytes = a->head_bytes;
        answer_start(a);
        a->head_bytes = head_bytes;
        return STATUS_OK;
    }
    if (a->is_chunked && a->has_length) {
        return bad(err, "both a length and chunks");
    }
    if (a->http_status == 204 || a->http_status == 304) {
        a->state = ANSWER_DONE;
    } else if (a->is_chunked) {
        a->state = ANSWER_CHUNK_SIZE;
    } else if (a->has_length) {
        a->state = a->left > 0 ? ANSWER_BODY : ANSWER_DONE;
    } else {
        a->closes = true;
        a->state = ANSWER_BODY_TO_END;
    }
    return STATUS_OK;
}
static int hex_of(char c) {
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}
static enum status read_chunk_size(struct answer *a, const struct answer_rules *rules,
                                   struct text line, struct error *err) {
    size_t i = 0;
    a->left = 0;
    for (; i < line.len && hex_of(line.bytes[i]) >= 0; i++) {
        a->left = a->left * 16 + hex_of(line.bytes[i]);
        if (a->left > rules->max_body_bytes - a->body_bytes) {
            return too_long(err, "body is longer than max-body-bytes");
        }
    }
    if (i == 0 || (i < line.len && !strchr("; \t", line.bytes[i]))) {
        return bad(err, "a chunk without a size");
    }
    a->state = a->left > 0 ? ANSWER_CHUNK : ANSWER_TRAILERS;
    return STATUS_OK;
}
static enum status read_line(struct answer *a, const struct answer_rules *rules, struct text line,
                             struct error *err) {
    switch (a->state) {
    case ANSWER_STATUS_LINE: return read_status_line(a, line, err);
    case ANSWER_CHUNK_SIZE: return read_chunk_size(a, rules, line, err);
    case ANSWER_CHUNK_END:
        a->state = ANSWER_CHUNK_SIZE;
        return line.len > 0 ? bad(err, "a chunk longer than its size") : STATUS_OK;
    case ANSWER_HEADERS:
        return line.len > 0 ? read_header_line(a, rules, line, err) : end_head(a, err);
    case ANSWER_TRAILERS:
        if (line.len > 0) {
            return read_header_line(a, rules, line, err);
        }
        a->state = ANSWER_DONE;
        return STATUS_OK;
    case ANSWER_BODY:
    case ANSWER_BODY_TO_END:
    case ANSWER_CHUNK:
    case ANSWER_DONE: break;
    }
    return bad(err, "a line where none can be");
}

/* Up to the line's end, or all there is; *line is set when the line is whole. */
static enum status take_line(struct answer *a, const char *data, size_t len, size_t *used,
                             struct text *line, struct error *err) {
    const char *newline = memchr(data, '\n', len);
    const size_t n = newline ? (size_t)(newline - data) + 1 : len;
    line->bytes = NULL;
    *used = n;
    a->head_bytes += a->state == ANSWER_CHUNK_SIZE || a->state == ANSWER_CHUNK_END ? 0 : n;
    if (a->n_line + n > ANSWER_MAX_LINE || a->head_bytes > ANSWER_MAX_HEAD) {
        return error_set(err, STATUS_TOO_LONG,
                         "the answer's head is over %d bytes, or a line of it over %d",
                         ANSWER_MAX_HEAD, ANSWER_MAX_LINE);
    }
    struct text whole = {data, n};
    if (a->n_line > 0 || !newline) {
        memcpy(a->line + a->n_line, data, n);
        a->n_line += n;
        whole = (struct text){a->line, a->n_line};
    }
    if (!newline) {
        return STATUS_OK;
    }
    a->n_line = 0;
    if (whole.len < 2 || whole.bytes[whole.len - 2] != '\r') {
        return bad(err, "a line that does not end in CR LF");
    }
    *line = (struct text){whole.bytes, whole.len - 2};
    return STATUS_OK;
}
static void keep_snippet(struct answer *a, const char *data, size_t len) {
    for (size_t i = 0; i < len && a->n_snippet + 1 < ANSWER_SNIPPET; i++) {
        a->snippet[a->n_snippet++] = data[i] >= ' ' && data[i] <= '~' ? data[i] : ' ';
    }
    a->snippet[a->n_snippet] = '\0';
}
static enum status take_body(struct answer *a, const struct answer_rules *rules, const char *data,
                             size_t len, size_t *used, struct error *err) {
    const bool is_bounded = a->state != ANSWER_BODY_TO_END;
    const size_t n = is_bounded && (int64_t)len > a->left ? (size_t)a->left : len;
    if (a->http_status >= 300) {
        keep_snippet(a, data, n);
    }
    a->body_bytes += (int64_t)n;
    a->left -= is_bounded ? (int64_t)n : 0;
    *used = n;
    if (a->body_bytes > rules->max_body_bytes) {
        return too_long(err, "body is longer than max-body-bytes");
    }
    if (is_bounded && a->left == 0) {
        a->state = a->state == ANSWER_CHUNK ? ANSWER_CHUNK_END : ANSWER_DONE;
    }
    return STATUS_OK;
}
enum status answer_feed(struct answer *a, const struct answer_rules *rules, const char *data,
                        size_t len, size_t *used, struct error *err) {
    *used = 0;
    while (*used < len && a->state != ANSWER_DONE) {
        const char *rest = data + *used;
        const bool is_body =
            a->state == ANSWER_BODY || a->state == ANSWER_BODY_TO_END || a->state == ANSWER_CHUNK;
        size_t n = 0;
        struct text line = {NULL, 0};
        enum status s = is_body ? take_body(a, rules, rest, len - *used, &n, err)
                                : take_line(a, rest, len - *used, &n, &line, err);
        *used += n;
        if (!s && line.bytes) {
            s = read_line(a, rules, line, err);
        }
        if (s) {
            return s;
        }
    }
    return STATUS_OK;
}
bool answer_end(struct answer *a) {
    if (a->state != ANSWER_BODY_TO_END) {
        return false;
    }
    a->state = ANSWER_DONE;
    return true;
}
