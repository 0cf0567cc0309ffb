/* tune_settings.c - the proposal as a config file.
 * The settings that tuning moves are put into a config and printed by the config's own table, so
 * that what is written reads back to what was simulated. */
#include "server/tune.h"

#include "base/timing.h"

static void put_comment(FILE *out, const char *text) { // one line, whatever a file is called
    fputs("// ", out);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
    fputc('\n', out);
}
/* The caps of all buckets are the same, so they stand once, beside the list of bounds. */
static void fill_config(struct config *c, const struct policy_config *p) {
    const struct bucket_limits *b = &p->buckets[0];
    const double wait_ms = (double)b->max_wait_ns / NS_PER_MS;
    c->batching.max_batch_ms = (double)p->max_batch_ns / NS_PER_MS;
    c->batching.rank_cost_factor = p->rank_cost_factor;
    if (p->mode == BATCH_PADDED) {
        c->batching.padded_max_batch_tokens = b->max_batch_tokens;
        c->batching.padded_max_batch_requests = b->max_batch_requests;
        c->batching.padded_max_wait_ms = wait_ms;
        return;
    }
    c->batching.max_batch_tokens = b->max_batch_tokens;
    c->batching.max_batch_requests = b->max_batch_requests;
    c->batching.max_wait_ms = wait_ms;
    c->batching.n_buckets = p->n_buckets;
    for (int i = 0; i < p->n_buckets; i++) {
        c->batching.buckets[i] = (struct bucket_limits){p->buckets[i].up_to, 0, 0, -1};
    }
}
static void print_keys(FILE *out, const struct config *c) {
    static const char *const padded[] = {"batching.mode",
                                         "batching.max_batch_ms",
                                         "batching.rank_cost_factor",
                                         "batching.padded_max_batch_tokens",
                                         "batching.padded_max_batch_requests",
                                         "batching.padded_max_wait_ms"};
    static const char *const others[] = {"batching.mode",
                                         "batching.max_batch_ms",
                                         "batching.rank_cost_factor",
                                         "batching.max_batch_tokens",
                                         "batching.max_batch_requests",
                                         "batching.max_wait_ms",
                                         "batching.buckets"};
    if (c->batching.mode == BATCH_PADDED) {
        config_print_keys(out, c, padded, (int)N_ITEMS(padded));
    } else {
        config_print_keys(out, c, others, (int)N_ITEMS(others));
    }
}
void tune_print_settings(FILE *out, const struct tune_task *t, const struct tune_report *r) {
    const struct tune_row *before = &r->rows[0], *best = &r->rows[r->best];
    struct config c = *t->cfg;
    char text[500];
    put_comment(out,
                "Proposed by berth tune " BERTH_VERSION "; berth serve MODEL_DIR --config FILE.");
    put_comment(out, t->load_text);
    snprintf(text, sizeof(text),
             "p99 %.1f ms instead of %.1f ms, %.1f inputs/s at most instead of "
             "%.1f: simulated, not measured.",
             (double)best->at_load.all.p99_ns / NS_PER_MS,
             (double)before->at_load.all.p99_ns / NS_PER_MS, best->capacity, before->capacity);
    put_comment(out, text);
    if (r->best > 0) {
        fill_config(&c, &best->policy);
    }
    print_keys(out, &c);
}
