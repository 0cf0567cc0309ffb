/* answer.c - fuzzes the reader of HTTP answers: what it makes of the bytes must not depend on how
 * they were cut, and it takes no more than there is. The first byte says how they are. */
#include "bench/client/answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}
static enum status feed(struct answer *a, const struct answer_rules *rules, const uint8_t *data,
                        size_t size, size_t step, size_t *taken) {
    struct error err = {""};
    answer_start(a);
    for (*taken = 0; *taken < size && a->state != ANSWER_DONE;) {
        const size_t n = size - *taken < step ? size - *taken : step;
        size_t used = 0;
        char *piece = malloc(n); // of exact size, for the sanitizer
        require(piece != NULL);
        memcpy(piece, data + *taken, n);
        const enum status s = answer_feed(a, rules, piece, n, &used, &err);
        free(piece);
        require(used <= n);
        *taken += used;
        if (s) {
            require(err.text[0] != '\0');
            return s;
        }
        require(used == n || a->state == ANSWER_DONE);
    }
    return STATUS_OK;
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct stages stages;
    stages_init(&stages);
    const struct answer_rules rules = {&stages, 1 << 16, data[0] & 0x80};
    struct answer *whole = malloc(sizeof(*whole)), *cut = malloc(sizeof(*cut));
    size_t n_whole, n_cut;
    require(whole && cut);
    const enum status a = feed(whole, &rules, data + 1, size - 1, size, &n_whole);
    const enum status b = feed(cut, &rules, data + 1, size - 1, 1 + (data[0] & 0x7f), &n_cut);
    require(!a == !b);
    if (!a) {
        require(n_whole == n_cut && whole->state == cut->state);
        require(whole->http_status == cut->http_status && whole->closes == cut->closes);
        require(whole->body_bytes == cut->body_bytes && whole->timing.has == cut->timing.has);
        require(whole->body_bytes <= rules.max_body_bytes);
        require(!strcmp(whole->snippet, cut->snippet));
    }
    free(whole);
    free(cut);
    stages_finish(&stages);
    return 0;
}
