/* exchange.h - a request for tests, without HTTP: a body in its arena, and what the reply says. */
#ifndef BERTH_TESTS_EXCHANGE_H
#define BERTH_TESTS_EXCHANGE_H
#include "server/config.h"
#include "server/json.h"
#include "server/response.h"
#include "tests/unit/test.h"
#include <stdio.h>
#include <string.h>

static inline struct config test_config(void) {
    struct config cfg;
    memset(&cfg, 0, sizeof(cfg));
    cfg.server.max_client_batch_size = 4;
    cfg.server.max_concurrent_requests = 16;
    cfg.server.http_threads = 2;
    cfg.server.timing_headers = true;
    cfg.server.profile_header = true;
    cfg.model.auto_truncate = true;
    return cfg;
}
static inline void exchange_init(struct request *r) {
    memset(r, 0, sizeof(*r));
    assert_int_equal(arena_init(&r->arena, 4 << 20, NULL), STATUS_OK);
}
/* Begins the next exchange with `body` of `len` bytes. */
static inline void exchange_body(struct request *r, const char *body, size_t len) {
    arena_reset(&r->arena);
    const struct arena kept = r->arena;
    memset(r, 0, sizeof(*r));
    r->arena = kept;
    memcpy(r->id, "test-1", sizeof("test-1"));
    char *copy = arena_alloc(&r->arena, len, 1);
    assert_non_null(copy);
    memcpy(copy, body, len);
    r->body = copy;
    r->body_len = len;
    stage_clock_start(&r->clock, time_now_ns());
    stage_clock_end(&r->clock, STAGE_READ, time_now_ns());
}
static inline const char *header_of(const struct request *r, const char *name) {
    for (int i = 0; i < r->reply.n_headers; i++) {
        if (strcmp(r->reply.headers[i].name, name) == 0) {
            return r->reply.headers[i].value;
        }
    }
    return NULL;
}
/* The reply's body as a string, on the heap of the test's arena. */
static inline const char *body_of(struct request *r) {
    char *text = arena_alloc(&r->arena, r->reply.body_len + 1, 1);
    assert_non_null(text);
    memcpy(text, r->reply.body, r->reply.body_len);
    text[r->reply.body_len] = '\0';
    return text;
}
/* A field of the reply's body, which must be JSON that our own check takes. */
static inline const char *field_of(struct request *r, const char *name) {
    cJSON *root = NULL;
    struct error err = {""};
    if (json_parse(&root, r->reply.body, r->reply.body_len, &r->arena, &err)) {
        fail_msg("%s: %.*s", err.text, (int)r->reply.body_len, r->reply.body);
    }
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(root, name);
    assert_true(cJSON_IsString(v));
    return v->valuestring;
}
#endif
