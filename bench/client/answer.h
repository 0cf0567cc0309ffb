/* answer.h - one HTTP/1.1 response, read as its bytes come, strictly: what is not clearly one
 * response, whole and alone, is refused. The body is counted, not kept.
 * Threads: an answer belongs to one connection. */
#ifndef BERTH_BENCH_CLIENT_ANSWER_H
#define BERTH_BENCH_CLIENT_ANSWER_H
#include "base/status.h"
#include "bench/client/timing_headers.h"

enum { ANSWER_MAX_LINE = 8192, ANSWER_MAX_HEAD = 65536, ANSWER_SNIPPET = 160 };
struct answer_rules { // shared by all answers of a run
    struct stages *stages;
    int64_t max_body_bytes;
    bool reads_tei; // stages from x- headers instead of Server-Timing
};
enum answer_state {
    ANSWER_STATUS_LINE,
    ANSWER_HEADERS,
    ANSWER_BODY,        // `left` bytes of it
    ANSWER_BODY_TO_END, // until the connection ends
    ANSWER_CHUNK_SIZE,
    ANSWER_CHUNK,
    ANSWER_CHUNK_END,
    ANSWER_TRAILERS,
    ANSWER_DONE,
};
struct answer {
    enum answer_state state;
    int http_status;
    bool closes; // the connection ends after it
    struct timing timing;
    int64_t body_bytes;
    char snippet[ANSWER_SNIPPET]; // how the body begins; terminated, printable
    int n_snippet;

    /* The parser's own. */
    bool is_http10, is_chunked, has_length;
    int64_t left;
    size_t head_bytes;
    size_t n_line; // of a line that came in pieces
    char line[ANSWER_MAX_LINE];
};
void answer_start(struct answer *a);
/* Takes bytes until the answer is done, and says in *used how many. STATUS_INVALID: this is no
 * HTTP; STATUS_TOO_LONG: a limit was passed; `err` says what is wrong. */
MUST_CHECK enum status answer_feed(struct answer *a, const struct answer_rules *rules,
                                   const char *data, size_t len, size_t *used, struct error *err);
/* The server has closed. True: the answer was one that ends so, and is done. */
bool answer_end(struct answer *a);
/* Whether a byte of it has come. */
bool answer_has_begun(const struct answer *a);
#endif
