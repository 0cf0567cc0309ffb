/* request.c - fuzzes the bodies of /predict and /tokenize: whatever comes in, there are either
 * texts within the limits, or a reply of 4xx whose body is JSON. */
#include "server/body.h"
#include "server/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef bool read_fn(struct text_body *out, struct request *r, const struct config *cfg);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}
static void require_input(const struct input *in, bool is_partial) {
    require(!in->error == !in->error_type && (is_partial || !in->error));
    if (in->error) {
        return;
    }
    require(in->first.len + in->second.len > 0);
    require(in->is_pair || in->second.len == 0);
    require(!in->first.len || memchr(in->first.bytes, '\0', in->first.len) == NULL);
}
static void run(struct request *r, const struct config *cfg, read_fn *read, const uint8_t *data,
                size_t size) {
    struct text_body b;
    memset(&r->reply, 0, sizeof(r->reply));
    arena_reset(&r->arena);
    r->is_partial = false;
    r->body = (const char *)data;
    r->body_len = size;
    if (read(&b, r, cfg)) {
        require(r->reply.http_status == 0);
        require(b.n_inputs >= 1 && b.n_inputs <= cfg->server.max_client_batch_size);
        require((b.n_chars > 0 || r->is_partial) && (uint64_t)b.n_chars <= size);
        for (int i = 0; i < b.n_inputs; i++) {
            require_input(&b.inputs[i], r->is_partial);
        }
    } else {
        require(r->reply.http_status >= 400 && r->reply.http_status < 500);
        require(json_check(r->reply.body, r->reply.body_len, &r->arena, NULL) == STATUS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct request request;
    static struct config cfg;
    if (!request.arena.data) {
        json_init();
        cfg.server.max_client_batch_size = 8;
        require(arena_init(&request.arena, 64 << 20, NULL) == STATUS_OK);
    }
    run(&request, &cfg, body_read_predict, data, size);
    run(&request, &cfg, body_read_tokenize, data, size);
    return 0;
}
