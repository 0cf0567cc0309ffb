/* exchange.c - one HTTP exchange a line of a file, without sockets: the gate on a client's headers,
 * the body's check and parse, and the reply's JSON and timing headers. Does nothing that depends on
 * time or chance, so that its instructions can be counted (bench/regress); prints what came out. */
#include "base/timing.h"
#include "server/body.h"
#include "server/http_gate.h"
#include "server/json.h"
#include "server/response.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE_BYTES = 1 << 16, ARENA_BYTES = 16 << 20, MAX_INPUTS = 32 };

/* What a Python client sends. */
static const struct request_header sent[] = {
    {"Host", "127.0.0.1:8080"},
    {"User-Agent", "python-requests/2.32.3"},
    {"Accept-Encoding", "gzip, deflate"},
    {"Accept", "*/*"},
    {"Connection", "keep-alive"},
    {"Content-Type", "application/json"},
    {"Authorization", "Bearer 0123456789abcdef0123456789abcdef"},
    {"Content-Length", "321"},
};
struct sums {
    long long n_texts, n_chars, n_reply_bytes;
};

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "bench_exchange: %s\n", what);
        exit(1);
    }
}
static void read_headers(void) {
    struct gate g = {.n_bytes = 0};
    for (size_t i = 0; i < N_ITEMS(sent); i++) {
        gate_header(&g, sent[i].name, strlen(sent[i].name), sent[i].value, strlen(sent[i].value));
    }
    require(!gate_framing_fault(&g, "HTTP/1.1") && gate_is_json(g.content_type), "a gate's fault");
}
static void write_body(struct request *r, const char *text, size_t len) {
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "{");
    json_field(&w, "inputs");
    json_write_string(&w, text, len);
    json_write_raw(&w, ",\"truncate\":true}");
    require(!w.failed, "the arena is full");
    r->body = w.data, r->body_len = w.len;
}
static void write_reply(struct request *r, const struct config *cfg) {
    struct json_writer w;
    json_writer_init(&w, &r->arena);
    json_write_raw(&w, "[{");
    json_field(&w, "score");
    json_write_float(&w, 0.9724956f);
    json_field_text(&w, "label", "POSITIVE");
    json_write_raw(&w, "}]");
    require(!w.failed, "the arena is full");
    reply_json(r, 200, w.data, w.len);
    reply_add_timing(r, cfg);
}
static void exchange(struct request *r, const struct config *cfg, struct sums *sums,
                     const char *text, size_t len) {
    static const struct route route = {.method = "POST", .metric = ROUTE_PREDICT};
    struct text_body b;
    request_reset(r);
    r->route = &route;
    request_set_id(r, NULL, "bench-1"); // which it takes, so that no random bits are asked for
    stage_clock_start(&r->clock, 0);    // a made-up clock: digits cost instructions
    read_headers();
    write_body(r, text, len);
    stage_clock_end(&r->clock, STAGE_READ, 5000);
    require(body_read_predict(&b, r, cfg), "a body is refused");
    stage_clock_end(&r->clock, STAGE_PARSE, 9000);
    write_reply(r, cfg);
    sums->n_texts += b.n_inputs;
    sums->n_chars += b.n_chars;
    sums->n_reply_bytes += (long long)r->reply.body_len;
}

int main(int argc, char **argv) {
    static char line[MAX_LINE_BYTES];
    struct request r = {.n_jobs = 0};
    struct config cfg = {.server.max_client_batch_size = MAX_INPUTS};
    struct sums sums = {0, 0, 0};
    struct error err;
    FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
    require(f != NULL, "usage: bench_exchange FILE (a text a line)");
    cfg.server.timing_headers = true;
    json_init();
    require(!arena_init(&r.arena, ARENA_BYTES, &err), "no arena");
    while (fgets(line, sizeof(line), f)) {
        exchange(&r, &cfg, &sums, line, strcspn(line, "\n"));
    }
    fclose(f);
    arena_finish(&r.arena);
    printf("%lld texts, %lld characters, %lld bytes of replies\n", sums.n_texts, sums.n_chars,
           sums.n_reply_bytes);
    return 0;
}
