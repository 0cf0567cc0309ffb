/* config_buckets.c - the list of buckets: reading it, and what the batcher is told.
 * A bucket may leave its caps to batching.max_*: 0 (or -1 for the wait) in the struct says so, and
 * only config_policy() puts the numbers in, so that --print-config prints what was written. The
 * default list stands for any model: it is cut at the model's limit, or ends with it. A list of the
 * user's own must fit by itself, because a bound that silently moved would be hard to find. */
#include "server/config_table.h"

#include <math.h>
#include <string.h>

#include "base/timing.h"

struct bucket_field {
    const char *name;
    double min, max;
    bool is_whole;
};
static const struct bucket_field fields[] = {
    {"up_to", 1, 1 << 20, true},
    {"max_batch_tokens", 1, 1 << 20, true},
    {"max_batch_requests", 1, 65536, true},
    {"max_wait_ms", 0, 60e3, false},
};
enum { UP_TO, TOKENS, REQUESTS, WAIT };

static int find_field(const char *name) {
    for (int i = 0; i < (int)N_ITEMS(fields); i++) {
        if (!strcmp(name, fields[i].name)) {
            return i;
        }
    }
    return -1;
}
static enum status check_field(int index, const cJSON *v, int place, struct error *err) {
    const double value = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    const struct bucket_field *f = &fields[index];
    if (value >= f->min && value <= f->max && (!f->is_whole || value == floor(value))) {
        return STATUS_OK;
    }
    char text[40] = "no number";
    if (cJSON_IsNumber(v)) {
        snprintf(text, sizeof(text), "%.15g", v->valuedouble);
    }
    return error_set(err, STATUS_INVALID,
                     "batching.buckets[%d].%s: %s, where %s, %.0f to %.0f, is "
                     "expected",
                     place, f->name, text, f->is_whole ? "an integer" : "a number", f->min, f->max);
}
static enum status read_bucket(struct bucket_limits *out, const cJSON *object, int place,
                               const cJSON **where, struct error *err) {
    double values[N_ITEMS(fields)] = {0, 0, 0, -1};
    bool seen[N_ITEMS(fields)] = {false};
    const cJSON *v;
    cJSON_ArrayForEach (v, object) {
        *where = v;
        const int i = find_field(v->string);
        if (i < 0) {
            return error_set(err, STATUS_INVALID,
                             "batching.buckets[%d]: unknown key \"%.60s\"; "
                             "known: up_to, max_batch_tokens, max_batch_requests, max_wait_ms",
                             place, v->string);
        }
        if (seen[i]) {
            return error_set(err, STATUS_INVALID, "batching.buckets[%d].%s stands twice", place,
                             fields[i].name);
        }
        const enum status s = check_field(i, v, place, err);
        if (s) {
            return s;
        }
        seen[i] = true, values[i] = v->valuedouble;
    }
    *where = object;
    if (!seen[UP_TO]) {
        return error_set(err, STATUS_INVALID,
                         "batching.buckets[%d]: needs an object with up_to, "
                         "like {\"up_to\": 64}",
                         place);
    }
    *out =
        (struct bucket_limits){.up_to = (int)values[UP_TO],
                               .max_batch_tokens = (int)values[TOKENS],
                               .max_batch_requests = (int)values[REQUESTS],
                               .max_wait_ns = seen[WAIT] ? llround(values[WAIT] * NS_PER_MS) : -1};
    return STATUS_OK;
}
enum status buckets_set_json(struct config *c, const cJSON *value, const cJSON **where,
                             struct error *err) {
    struct bucket_limits list[POLICY_MAX_BUCKETS];
    int n = 0;
    const cJSON *object;
    cJSON_ArrayForEach (object, value) {
        if (n == POLICY_MAX_BUCKETS) {
            return error_set(err, STATUS_INVALID, "batching.buckets: more than %d buckets",
                             POLICY_MAX_BUCKETS);
        }
        const enum status s = read_bucket(&list[n], object, n, where, err);
        if (s) {
            return s;
        }
        if (n > 0 && list[n].up_to <= list[n - 1].up_to) { // told here, where the place is known
            return error_set(err, STATUS_INVALID,
                             "batching.buckets[%d].up_to is %d and follows %d: list buckets by "
                             "rising up_to",
                             n, list[n].up_to, list[n - 1].up_to);
        }
        n++;
    }
    if (n == 0) {
        return error_set(err, STATUS_INVALID,
                         "batching.buckets: an empty list; leave the key out "
                         "for the default, or write one bucket like {\"up_to\": 512}");
    }
    memset(&c->origin, 0, sizeof(c->origin)); // the reader of a file knows better
    memset(c->batching.buckets, 0, sizeof(c->batching.buckets));
    memcpy(c->batching.buckets, list, (size_t)n * sizeof(list[0]));
    c->batching.n_buckets = n;
    return STATUS_OK;
}

/* What a pass costs beside its rows is spread over some hundred of them on a CPU, and needs
 * thousands on a GPU. */
enum { CPU_BATCH_TOKENS = 256, GPU_BATCH_TOKENS = 8192 };
int config_batch_tokens(const struct config *c, bool on_gpu) {
    const int said = c->batching.max_batch_tokens;
    return said ? said : on_gpu ? GPU_BATCH_TOKENS : CPU_BATCH_TOKENS;
}

static struct bucket_limits fill(const struct config *c, struct bucket_limits b) {
    if (!b.max_batch_tokens) {
        b.max_batch_tokens = config_batch_tokens(c, false);
    }
    if (!b.max_batch_requests) {
        b.max_batch_requests = c->batching.max_batch_requests;
    }
    if (b.max_wait_ns < 0) {
        b.max_wait_ns = llround(c->batching.max_wait_ms * NS_PER_MS);
    }
    return b;
}
static bool same_bucket(const struct bucket_limits *a, const struct bucket_limits *b) {
    return a->up_to == b->up_to && a->max_batch_tokens == b->max_batch_tokens &&
           a->max_batch_requests == b->max_batch_requests && a->max_wait_ns == b->max_wait_ns;
}
static bool has_default_buckets(const struct config *c) {
    struct config defaults;
    config_defaults(&defaults);
    bool same = c->batching.n_buckets == defaults.batching.n_buckets;
    for (int i = 0; same && i < c->batching.n_buckets; i++) {
        same = same_bucket(&c->batching.buckets[i], &defaults.batching.buckets[i]);
    }
    return same;
}
/* Puts "file:line: " before what is wrong with a bucket that was read from a file. */
static enum status at_bucket(const struct config *c, int index, struct error *err) {
    return c->origin.file[0] ? error_prefix(err, STATUS_INVALID, "%s:%d", c->origin.file,
                                            c->origin.bucket_lines[index])
                             : STATUS_INVALID;
}
static enum status check_last(const struct config *c, int max_seq_len, struct error *err) {
    const int n = c->batching.n_buckets, last = c->batching.buckets[n - 1].up_to;
    int above = 0;
    while (above < n && c->batching.buckets[above].up_to <= max_seq_len) {
        above++;
    }
    if (above < n) {
        (void)error_set(
            err, STATUS_INVALID,
            "batching.buckets[%d] takes inputs of up to %d tokens, but the limit is %d "
            "(the model's, or model.max_input_tokens): end the list with {\"up_to\": %d}",
            above, c->batching.buckets[above].up_to, max_seq_len, max_seq_len);
        return at_bucket(c, above, err);
    }
    if (last < max_seq_len) {
        (void)error_set(err, STATUS_INVALID,
                        "batching.buckets: the last bucket ends at %d tokens, but inputs may have "
                        "%d: add {\"up_to\": %d}, or set model.max_input_tokens to %d",
                        last, max_seq_len, max_seq_len, last);
        return at_bucket(c, n - 1, err);
    }
    return STATUS_OK;
}
/* The default list, cut at the model's limit or made to end with it. */
static void fit_buckets(struct policy_config *out, const struct config *c, int max_seq_len) {
    for (int i = 0; i < c->batching.n_buckets; i++) {
        if (c->batching.buckets[i].up_to < max_seq_len) {
            out->buckets[out->n_buckets++] = fill(c, c->batching.buckets[i]);
        }
    }
    out->buckets[out->n_buckets] = fill(c, c->batching.buckets[c->batching.n_buckets - 1]);
    out->buckets[out->n_buckets++].up_to = max_seq_len; // the default list leaves room for it
}
static enum status copy_buckets(struct policy_config *out, const struct config *c, int max_seq_len,
                                struct error *err) {
    for (int i = 0; i < c->batching.n_buckets; i++) {
        out->buckets[out->n_buckets++] = fill(c, c->batching.buckets[i]);
    }
    return check_last(c, max_seq_len, err);
}
static struct bucket_limits only_bucket(const struct config *c, int max_seq_len) {
    if (c->batching.mode == BATCH_NONE) {
        return (struct bucket_limits){max_seq_len, config_batch_tokens(c, false), 1, 0};
    }
    return (struct bucket_limits){max_seq_len, c->batching.padded_max_batch_tokens,
                                  c->batching.padded_max_batch_requests,
                                  llround(c->batching.padded_max_wait_ms * NS_PER_MS)};
}
enum status config_policy(struct policy_config *out, const struct config *c, int max_seq_len,
                          struct error *err) {
    const int64_t shift_ns = llround(c->batching.priority_shift_ms * NS_PER_MS);
    struct policy_config p = {
        .mode = c->batching.mode,
        .max_batch_ns = llround(c->batching.max_batch_ms * NS_PER_MS),
        .rank_cost_factor = c->batching.rank_cost_factor,
        .priority_ns = {[PRIORITY_HIGH] = -shift_ns, [PRIORITY_LOW] = shift_ns},
        .n_keys = 1,
        .key_weights = {1},
        .interrupt = c->batching.interrupt,
    };
    enum status s = STATUS_OK;
    if (p.mode == BATCH_NONE || p.mode == BATCH_PADDED) {
        p.buckets[p.n_buckets++] = only_bucket(c, max_seq_len);
    } else if (has_default_buckets(c)) {
        fit_buckets(&p, c, max_seq_len);
    } else {
        s = copy_buckets(&p, c, max_seq_len, err);
    }
    if (s) {
        return s;
    }
    s = policy_config_check(&p, max_seq_len, err);
    if (!s) {
        *out = p;
    }
    return s ? error_prefix(err, s, "batching.buckets") : STATUS_OK;
}
void config_cap_rows(struct policy_config *p, int rows) {
    for (int i = 0; rows > 0 && i < p->n_buckets; i++) {
        int *most = &p->buckets[i].max_batch_tokens;
        *most = *most < rows ? *most : rows;
    }
}
void config_reserve(int *tokens, int *jobs, const struct config *c,
                    const struct policy_config *at_start) {
    *tokens = *jobs = 0;
    for (int i = 0; i < at_start->n_buckets && at_start->mode != BATCH_NONE; i++) {
        const struct bucket_limits *b = &at_start->buckets[i];
        *tokens = b->max_batch_tokens > *tokens ? b->max_batch_tokens : *tokens;
        *jobs = b->max_batch_requests > *jobs ? b->max_batch_requests : *jobs;
    }
    const int said = c->batching.reload_max_batch_tokens;
    *tokens = said ? said : *tokens * RELOAD_GROWTH;
    *jobs = *jobs * RELOAD_GROWTH < *tokens ? *jobs * RELOAD_GROWTH : *tokens;
}
