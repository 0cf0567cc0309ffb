/* metrics_scheduling.c - buckets, queues, refusals, waste and keys as Prometheus text.
 * Buckets are told by bound, those of earlier configurations too: a counter that vanished would
 * read as a restart. Keys are told by name, and there are never more than a file may have. */
#include "server/keys.h"
#include "server/metrics_internal.h"

#include <stddef.h>
#include <stdio.h>

struct bucket_name {
    char text[16];
};
static struct bucket_name name_of(int up_to) {
    struct bucket_name n;
    snprintf(n.text, sizeof(n.text), "%d", up_to);
    return n;
}
/* The places in use, by rising bound. */
struct bucket_list {
    const struct bucket_metrics *at[METRIC_MAX_BUCKETS];
    int up_to[METRIC_MAX_BUCKETS], n;
};
static void list_buckets(struct bucket_list *out, const struct metrics *m) {
    out->n = 0;
    for (int i = 0; i < METRIC_MAX_BUCKETS; i++) {
        const int up_to = atomic_load(&m->buckets[i].up_to);
        int k = up_to > 0 ? out->n++ : -1;
        for (; k > 0 && out->up_to[k - 1] > up_to; k--) {
            out->at[k] = out->at[k - 1];
            out->up_to[k] = out->up_to[k - 1];
        }
        if (k >= 0) {
            out->at[k] = &m->buckets[i];
            out->up_to[k] = up_to;
        }
    }
}
static void write_bucket_counts(struct json_writer *w, const struct bucket_list *list) {
    static const struct {
        const char *name, *help;
        size_t offset;
    } families[] = {
        {"berth_bucket_jobs_total", "Inputs that were computed, by the bucket of their own length.",
         offsetof(struct bucket_metrics, jobs)},
        {"berth_bucket_batches_total", "Batches, by the bucket of the input that began them.",
         offsetof(struct bucket_metrics, batches)},
        {"berth_bucket_tokens_total", "Tokens of those batches.",
         offsetof(struct bucket_metrics, tokens)},
        {"berth_bucket_rows_total", "Rows of those batches, padding included.",
         offsetof(struct bucket_metrics, rows)},
        {"berth_bucket_room_total", "Rows that those batches could have had (max_batch_tokens).",
         offsetof(struct bucket_metrics, room)},
    };
    for (size_t f = 0; f < N_ITEMS(families); f++) {
        expose_family(w, families[f].name, "counter", families[f].help);
        for (int i = 0; i < list->n; i++) {
            const counter *c = (const void *)((const char *)list->at[i] + families[f].offset);
            expose_sample(w, families[f].name, LABEL("bucket", name_of(list->up_to[i]).text),
                          metric_value(c), UNIT_NONE);
        }
    }
}
static void write_buckets(struct json_writer *w, const struct metrics *m) {
    struct bucket_list list;
    list_buckets(&list, m);
    write_bucket_counts(w, &list);
    expose_family(w, "berth_bucket_releases_total", "counter",
                  "Those batches, by why they were started.");
    for (int i = 0; i < list.n; i++) {
        for (int k = 0; k < N_RELEASE_REASONS; k++) {
            expose_sample(
                w, "berth_bucket_releases_total",
                LABELS("bucket", name_of(list.up_to[i]).text, "reason", release_reason_names[k]),
                metric_value(&list.at[i]->reasons[k]), UNIT_NONE);
        }
    }
    expose_family(w, "berth_bucket_wait_seconds", "histogram",
                  "Time of an input in its queue, by the bucket of its own length.");
    for (int i = 0; i < list.n; i++) {
        const struct bucket_name name = name_of(list.up_to[i]);
        expose_durations(w, "berth_bucket_wait_seconds", (struct label){"bucket", name.text},
                         &list.at[i]->wait);
    }
}
static void write_queues(struct json_writer *w, const struct metrics_view *view) {
    const struct queues_stats *q = &view->batcher.queues;
    expose_family(w, "berth_queue_jobs", "gauge", "Inputs that wait now, by bucket.");
    for (int i = 0; i < view->policy->n_buckets; i++) {
        expose_sample(w, "berth_queue_jobs",
                      LABEL("bucket", name_of(view->policy->buckets[i].up_to).text),
                      (uint64_t)q->n_queued[i], UNIT_NONE);
    }
    const struct metric_row rows[] = {
        {"berth_queue_tokens", "gauge", "Tokens of the inputs that wait now.",
         (uint64_t)q->n_tokens},
        {"berth_workers_waiting", "gauge", "Workers that have nothing to do now.",
         (uint64_t)view->batcher.n_waiting_workers},
    };
    expose_rows(w, rows, N_ITEMS(rows));
    expose_family(w, "berth_queue_drain_seconds", "gauge",
                  "Predicted time until all that waits and runs now is done.");
    expose_sample(w, "berth_queue_drain_seconds", NO_LABELS, (uint64_t)q->drain_ns,
                  UNIT_NS_AS_SECONDS);
}

static void write_limited(struct json_writer *w, const struct metrics *m) {
    static const char *const names[N_LIMITS] = {[LIMIT_QUEUE] = "queue",
                                                [LIMIT_DEADLINE] = "deadline",
                                                [LIMIT_RATE] = "rate",
                                                [LIMIT_SLOTS] = "slots",
                                                [LIMIT_CONNECTIONS] = "connections"};
    expose_family(w, "berth_limited_total", "counter",
                  "Requests that were turned away because there was too much to do, by limit.");
    for (int i = 0; i < N_LIMITS; i++) {
        expose_sample(w, "berth_limited_total", LABEL("limit", names[i]),
                      metric_value(&m->limited[i]), UNIT_NONE);
    }
}
static void write_waste(struct json_writer *w, const struct metrics *m) {
    static const char *const names[N_WASTES] = {
        [WASTE_CANCELLED] = "cancelled", [WASTE_EXPIRED] = "expired"};
    const struct {
        const char *name, *help;
        const counter *counts;
        enum unit unit;
    } families[] = {
        {"berth_wasted_jobs_total", "Inputs that were computed although nobody waited any more.",
         m->wasted_jobs, UNIT_NONE},
        {"berth_wasted_tokens_total", "Their tokens.", m->wasted_tokens, UNIT_NONE},
        {"berth_wasted_seconds_total", "Their share of the time of forward passes.", m->wasted_ns,
         UNIT_NS_AS_SECONDS},
    };
    for (size_t f = 0; f < N_ITEMS(families); f++) {
        expose_family(w, families[f].name, "counter", families[f].help);
        for (int i = 0; i < N_WASTES; i++) {
            expose_sample(w, families[f].name, LABEL("reason", names[i]),
                          metric_value(&families[f].counts[i]), families[f].unit);
        }
    }
}

static void write_key(struct json_writer *w, const struct key_metrics *k, const char *name) {
    const struct {
        const char *outcome;
        const counter *count;
    } outcomes[] = {{"answered", &k->answered},
                    {"refused", &k->refused},
                    {"cancelled", &k->cancelled},
                    {"expired", &k->expired},
                    {"limited", &k->limited}};
    for (size_t i = 0; i < N_ITEMS(outcomes); i++) {
        expose_sample(w, "berth_key_requests_total",
                      LABELS("key", name, "outcome", outcomes[i].outcome),
                      metric_value(outcomes[i].count), UNIT_NONE);
    }
}
static void write_keys(struct json_writer *w, const struct metrics *m,
                       const struct metrics_view *view) {
    struct key key;
    const int n = keys_count(view->keys);
    expose_family(w, "berth_key_requests_total", "counter",
                  "Requests of each API key, by how they ended; limited: over the key's rate.");
    for (int i = 0; i < n; i++) {
        keys_at(view->keys, i, &key);
        if (key.name[0]) {
            write_key(w, &m->keys[i], key.name);
        }
    }
    expose_family(w, "berth_key_tokens_total", "counter",
                  "Tokens of each API key's answered requests.");
    for (int i = 0; i < n; i++) {
        keys_at(view->keys, i, &key);
        if (key.name[0]) {
            expose_sample(w, "berth_key_tokens_total", LABEL("key", key.name),
                          metric_value(&m->keys[i].tokens), UNIT_NONE);
        }
    }
    expose_family(w, "berth_key_queue_jobs", "gauge", "Inputs of each API key that wait now.");
    for (int i = 0; i < n; i++) {
        keys_at(view->keys, i, &key);
        if (key.name[0]) {
            expose_sample(w, "berth_key_queue_jobs", LABEL("key", key.name),
                          (uint64_t)view->batcher.queues.n_key_jobs[i], UNIT_NONE);
        }
    }
}

void expose_scheduling(struct json_writer *w, const struct metrics *m,
                       const struct metrics_view *view) {
    if (view->policy) {
        write_buckets(w, m);
        write_queues(w, view);
        expose_cost(w, &view->batcher.cost);
    }
    write_limited(w, m);
    write_waste(w, m);
    if (view->keys) {
        write_keys(w, m, view);
    }
    const struct metric_row rows[] = {
        {"berth_reloads_total", "counter", "Configurations that were read again and applied.",
         metric_value(&m->reloads)},
        {"berth_reloads_failed_total", "counter", "Those that were refused.",
         metric_value(&m->reloads_failed)},
    };
    expose_rows(w, rows, N_ITEMS(rows));
}
