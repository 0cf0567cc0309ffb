/* lengths_file.c - counts of lengths, strictly.
 * JSON is what begins with a brace; everything else is lines of digits. A count is bounded so that
 * sums and products of counts stay exact in 64 bits and in a double. */
#include "server/lengths_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/json_file.h"
#include "server/json.h"

enum { MAX_FILE_BYTES = 8 << 20, TREE_BYTES = 256 << 20 };
#define MAX_COUNT INT64_C(1000000000000)

static enum status add_count(struct lengths_file *f, int64_t tokens, int64_t count, int64_t *sum,
                             struct error *err) {
    if (tokens < 1 || tokens > TRACE_MAX_TOKENS) {
        return error_set(err, STATUS_INVALID, "a length must be 1 to %d tokens", TRACE_MAX_TOKENS);
    }
    if (count < 0 || *sum + count > MAX_COUNT) {
        return error_set(err, STATUS_INVALID, "counts must be whole, and together at most %lld",
                         (long long)MAX_COUNT);
    }
    f->lengths.count[tokens] += count;
    *sum += count;
    return STATUS_OK;
}

/* Digits up to the end of `text`; -1: something else, or too many. */
static int64_t whole_number(const char *text, size_t len) {
    int64_t n = 0;
    if (len < 1 || len > 15) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        n = 10 * n + (text[i] - '0');
    }
    return n;
}
static enum status parse_line(struct lengths_file *f, const char *line, size_t len, int64_t *sum,
                              struct error *err) {
    const char *comma = memchr(line, ',', len);
    const size_t n = comma ? (size_t)(comma - line) : len;
    const int64_t tokens = whole_number(line, n);
    const int64_t count = comma ? whole_number(comma + 1, len - n - 1) : 1;
    if (tokens < 0 || count < 0) {
        return error_set(err, STATUS_INVALID, "TOKENS or TOKENS,COUNT is expected, in digits");
    }
    return add_count(f, tokens, count, sum, err);
}
static enum status parse_lines(struct lengths_file *f, const char *bytes, size_t len,
                               const char *name, int64_t *sum, struct error *err) {
    int number = 0;
    for (size_t i = 0; i < len;) {
        const char *line = bytes + i, *end = memchr(line, '\n', len - i);
        size_t n = end ? (size_t)(end - line) : len - i;
        i += n + 1;
        number++;
        n -= n > 0 && line[n - 1] == '\r';
        if (n == 0 || (number == 1 && n == 12 && !memcmp(line, "tokens,count", 12))) {
            continue;
        }
        const enum status s = parse_line(f, line, n, sum, err);
        if (s) {
            return error_prefix(err, s, "%s:%d", name, number);
        }
    }
    return STATUS_OK;
}

static enum status read_members(struct lengths_file *f, const cJSON *root, int64_t *sum,
                                struct error *err) {
    const cJSON *object = cJSON_GetObjectItemCaseSensitive(root, "lengths"), *v;
    const cJSON *rate = cJSON_GetObjectItemCaseSensitive(root, "inputs_per_s");
    if (!cJSON_IsObject(object)) {
        return error_set(err, STATUS_INVALID,
                         "no object \"lengths\", like {\"lengths\": {\"12\": "
                         "3}}, as GET /debug/lengths gives it");
    }
    cJSON_ArrayForEach (v, object) {
        const bool whole = cJSON_IsNumber(v) && v->valuedouble >= 0 &&
                           v->valuedouble <= (double)MAX_COUNT &&
                           v->valuedouble == floor(v->valuedouble);
        const enum status s = add_count(f, whole_number(v->string, strlen(v->string)),
                                        whole ? (int64_t)v->valuedouble : -1, sum, err);
        if (s) {
            return error_prefix(err, s, "lengths[\"%.40s\"]", v->string);
        }
    }
    f->per_second = cJSON_IsNumber(rate) && rate->valuedouble > 0 ? rate->valuedouble : 0;
    return STATUS_OK;
}
static enum status parse_json(struct lengths_file *f, const char *bytes, size_t len,
                              const char *name, int64_t *sum, struct error *err) {
    struct arena tree = {.data = NULL};
    cJSON *root = NULL;
    enum status s = arena_init(&tree, TREE_BYTES, err);
    if (!s) {
        s = json_parse(&root, bytes, len, &tree, err);
    }
    if (!s) {
        s = read_members(f, root, sum, err);
    }
    arena_finish(&tree);
    return s ? error_prefix(err, s, "%s", name) : STATUS_OK;
}

enum status lengths_file_parse(struct lengths_file *out, const char *bytes, size_t len,
                               const char *name, struct error *err) {
    int64_t sum = 0;
    memset(out, 0, sizeof(*out));
    const bool is_json = len > 0 && bytes[0] == '{';
    const enum status s = is_json ? parse_json(out, bytes, len, name, &sum, err)
                                  : parse_lines(out, bytes, len, name, &sum, err);
    if (!s && sum == 0) {
        return error_set(err, STATUS_INVALID, "%s: no lengths in it", name);
    }
    return s;
}
enum status lengths_file_read(struct lengths_file *out, const char *path, struct error *err) {
    char *text = NULL;
    size_t len = 0;
    enum status s = file_read(&text, &len, path, MAX_FILE_BYTES, err);
    if (!s) {
        s = lengths_file_parse(out, text, len, path, err);
    }
    free(text);
    return s;
}
