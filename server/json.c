/* json.c - from checked bytes to a cJSON tree in the request's arena.
 * cJSON has one pair of allocation hooks for the whole process. Ours take from the arena that this
 * thread is parsing into, and from the heap at all other times (the loaders of tokenizer and model
 * use cJSON too). A tree in an arena is never freed: it goes when the arena is reset. */
#include "server/json.h"

#include <stdlib.h>

struct parse {
    struct arena *arena; // NULL: this thread is not parsing a request
    bool is_full;
};
static _Thread_local struct parse parse;

static void *take(size_t bytes) {
    if (!parse.arena) {
        return malloc(bytes);
    }
    void *p = arena_alloc(parse.arena, bytes, 1);
    parse.is_full = parse.is_full || !p;
    return p;
}
static void give_back(void *p) {
    if (!parse.arena) {
        free(p);
    }
}
void json_init(void) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = take, .free_fn = give_back});
}

static bool is_space(char b) {
    return b == ' ' || b == '\t' || b == '\n' || b == '\r';
}

enum status json_parse(cJSON **out, const char *bytes, size_t len, struct arena *arena,
                       struct error *err) {
    const enum status s = json_check(bytes, len, arena, err);
    if (s) {
        return s;
    }
    const char *end = NULL;
    parse = (struct parse){.arena = arena};
    cJSON *tree = cJSON_ParseWithLengthOpts(bytes, len, &end, 0);
    const bool is_full = parse.is_full;
    parse = (struct parse){0};
    if (is_full) {
        return error_set(err, STATUS_NO_MEMORY,
                         "the JSON document has more values than a request has memory for");
    }
    while (tree && end < bytes + len && is_space(*end)) {
        end++;
    }
    if (!tree || end != bytes + len) { // the one thing that the check lets pass and cJSON does not
        return error_set(err, STATUS_INVALID,
                         "invalid JSON at byte %zu: a number has more than %d characters",
                         end ? (size_t)(end - bytes) : 0, JSON_MAX_NUMBER_BYTES);
    }
    *out = tree;
    return STATUS_OK;
}
