/* json.c - fuzzes the JSON check, and holds it to what follows from it: a document that passes is
 * one that cJSON reads to its end, with strings that are UTF-8 without NUL; written again as a
 * string, any bytes become a document that passes. */
#include "server/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}
static void require_utf8(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        const size_t n = json_utf8_sequence(text, left);
        require(n > 0);
        text += n;
        left -= n;
    }
}
/* The tree is at most JSON_MAX_DEPTH deep, so a stack of that size walks it. */
static void require_sound_tree(const cJSON *root) {
    const cJSON *stack[JSON_MAX_DEPTH + 2] = {root};
    int depth = 0;
    while (depth >= 0) {
        const cJSON *v = stack[depth];
        if (!v) {
            depth--;
            continue;
        }
        if (v->string) {
            require_utf8(v->string);
        }
        if (cJSON_IsString(v)) {
            require_utf8(v->valuestring);
        }
        stack[depth] = v->next;
        if (v->child) {
            require(depth + 1 < JSON_MAX_DEPTH + 2);
            stack[++depth] = v->child;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct arena arena;
    if (!arena.data) {
        json_init();
        require(arena_init(&arena, 64 << 20, NULL) == STATUS_OK);
    }
    arena_reset(&arena);
    const char *bytes = (const char *)data;
    struct error err = {""};
    const enum status checked = json_check(bytes, size, &arena, &err);
    require(arena.used == 0);
    require(checked == STATUS_OK || err.text[0] != '\0');
    cJSON *tree = NULL;
    const enum status parsed = json_parse(&tree, bytes, size, &arena, &err);
    require(parsed || checked == STATUS_OK);
    if (!checked && parsed) {
        require(strstr(err.text, "a number has more than") != NULL);
    }
    if (!parsed) {
        require_sound_tree(tree);
    }
    struct json_writer w;
    json_writer_init(&w, &arena);
    json_write_string(&w, bytes, size);
    require(!w.failed);
    if (!memchr(bytes, '\0', size)) { // NUL is written as an escape that the check refuses
        require(json_check(w.data, w.len, &arena, NULL) == STATUS_OK);
    }
    return 0;
}
