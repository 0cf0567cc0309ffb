/* record.c - one answer into all that is counted. The series over time has a fixed number of slots;
 * when a run grows beyond them, neighbours are joined and each slot is twice as long. A batch is
 * told by every request that rode in it, so each tells 1 / requests of it. */
#include "bench/client/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/timing.h"

enum { FIRST_SLOT_MS = 100 };

const char *const failure_names[N_FAILURES] = {
    "ok",  "connect", "closed", "reset", "timeout", "protocol",
    "429", "503",     "504",    "3xx",   "4xx",     "5xx",
};
enum failure failure_of_status(int http_status) {
    switch (http_status) {
    case 429: return FAILURE_429;
    case 503: return FAILURE_503;
    case 504: return FAILURE_504;
    default: break;
    }
    return http_status < 300   ? FAILURE_NONE
           : http_status < 400 ? FAILURE_3XX
           : http_status < 500 ? FAILURE_4XX
                               : FAILURE_5XX;
}
struct record *record_create(int64_t max_samples) {
    struct record *r = xcalloc(1, sizeof(*r));
    r->samples = xcalloc((size_t)max_samples + 1, sizeof(*r->samples));
    r->max_samples = max_samples;
    r->slot_ns = FIRST_SLOT_MS * NS_PER_MS;
    return r;
}
void record_destroy(struct record *r) {
    if (r) {
        free(r->samples);
        free(r);
    }
}
void record_begin(struct record *r, int64_t begin_ns, int64_t end_ns, int64_t offset_ns) {
    r->begin_ns = r->last_done_ns = begin_ns;
    r->end_ns = end_ns;
    r->offset_ns = offset_ns;
}

static void slot_add(struct slot *s, const struct slot *o) {
    s->n_due += o->n_due, s->n_ok += o->n_ok, s->n_failed += o->n_failed;
    s->queue_n += o->queue_n;
    s->latency_ms += o->latency_ms, s->queue_ms += o->queue_ms;
    s->latency_max_ms =
        s->latency_max_ms > o->latency_max_ms ? s->latency_max_ms : o->latency_max_ms;
    s->queue_max_ms = s->queue_max_ms > o->queue_max_ms ? s->queue_max_ms : o->queue_max_ms;
}
static void join_slots(struct record *r) {
    for (int i = 0; i < RECORD_SLOTS / 2; i++) {
        struct slot joined = r->slots[2 * i];
        slot_add(&joined, &r->slots[2 * i + 1]);
        r->slots[i] = joined;
    }
    memset(r->slots + RECORD_SLOTS / 2, 0, sizeof(r->slots) / 2);
    r->slot_ns *= 2;
}
static struct slot *slot_at(struct record *r, int64_t since_ns) {
    const int64_t at = since_ns > 0 ? since_ns : 0;
    while (at / r->slot_ns >= RECORD_SLOTS) {
        join_slots(r);
    }
    return &r->slots[at / r->slot_ns];
}

static int class_of_words(int n_words) {
    int up_to = 1;
    while (up_to < n_words) {
        up_to *= 2;
    }
    return up_to;
}
static struct bucket_record *bucket_of(struct record *r, int up_to, bool is_told) {
    for (int i = 0; i < r->n_buckets; i++) {
        if (r->buckets[i].up_to == up_to && r->buckets[i].is_told == is_told) {
            return &r->buckets[i];
        }
    }
    if (r->n_buckets == RECORD_MAX_BUCKETS) {
        return NULL;
    }
    struct bucket_record *b = &r->buckets[r->n_buckets++];
    b->up_to = up_to, b->is_told = is_told;
    return b;
}
static void record_batch(struct record *r, struct bucket_record *bucket,
                         const struct batch_ride *b) {
    const double weight = 1.0 / b->n_requests;
    const double padding = b->n_rows > 0 ? 1 - (double)b->n_tokens / b->n_rows : 0;
    const int bin = (int)(padding * RECORD_PADDING_BINS);
    r->padding_bins[bin < RECORD_PADDING_BINS ? bin : RECORD_PADDING_BINS - 1] += weight;
    r->n_batches += weight * b->n_batches;
    r->batch_rows += weight * b->n_rows;
    r->batch_tokens += weight * b->n_tokens;
    r->batch_requests += 1;
    if (bucket) {
        bucket->n_rows += weight * b->n_rows;
        bucket->n_tokens += weight * b->n_tokens;
    }
}
/* Only the stages of answers that are well: a refusal has hardly any. */
static void record_stages(struct record *r, const struct timing *t, double latency_ms) {
    for (int i = 0; i < STAGES_MAX; i++) {
        if (t->has & (1U << i)) {
            r->stage_ms[i] += (double)t->ms[i];
            r->stage_n[i]++;
        }
    }
    if (t->total_ms >= 0) {
        r->total_ms += t->total_ms;
        r->outside_ms += latency_ms - t->total_ms;
        r->total_n++;
    }
}
static void keep_sample(struct record *r, const struct shot *shot, enum failure kind,
                        const struct answer *a, int bucket) {
    if (r->n_samples == r->max_samples) {
        return;
    }
    struct sample *s = &r->samples[r->n_samples++];
    *s = (struct sample){.index = shot->index,
                         .due_ns = shot->due_ns - r->begin_ns + r->offset_ns,
                         .latency_ms = (float)(shot->done_ns - shot->due_ns) / 1e6F,
                         .service_ms = (float)(shot->done_ns - shot->sent_ns) / 1e6F,
                         .total_ms = a ? (float)a->timing.total_ms : -1.0F,
                         .n_words = shot->n_words,
                         .bucket = bucket,
                         .http_status = (uint16_t)(a ? a->http_status : 0),
                         .failure = (uint8_t)kind};
    if (a) {
        s->has = a->timing.has;
        memcpy(s->ms, a->timing.ms, sizeof(s->ms));
    }
}
static int queue_stage(const struct stages *s) {
    const int n = atomic_load_explicit(&s->n, memory_order_acquire);
    for (int i = 0; i < n; i++) {
        if (!strcmp(s->names[i], "queue")) {
            return i;
        }
    }
    return -1;
}
static void record_queue(struct slot *slot, struct bucket_record *bucket, double ms) {
    slot->queue_n++;
    slot->queue_ms += ms;
    slot->queue_max_ms = ms > slot->queue_max_ms ? ms : slot->queue_max_ms;
    if (bucket) {
        bucket->queue_n++;
        bucket->queue_ms += ms;
    }
}
static void record_ok(struct record *r, const struct shot *shot, const struct answer *a,
                      const struct stages *stages) {
    const int64_t latency_ns = shot->done_ns - shot->due_ns;
    const struct timing *t = &a->timing;
    struct bucket_record *bucket = t->has_batch
                                       ? bucket_of(r, t->batch.bucket, true)
                                       : bucket_of(r, class_of_words(shot->n_words), false);
    struct slot *slot = slot_at(r, shot->due_ns - r->begin_ns + r->offset_ns);
    const double latency_ms = (double)latency_ns / 1e6;
    const int queue = queue_stage(stages);
    r->n_ok++;
    hist_record(&r->latency, latency_ns);
    hist_record(&r->service, shot->done_ns - shot->sent_ns);
    slot->n_ok++;
    slot->latency_ms += latency_ms;
    slot->latency_max_ms = latency_ms > slot->latency_max_ms ? latency_ms : slot->latency_max_ms;
    record_stages(r, t, latency_ms);
    if (bucket) {
        hist_record(&bucket->latency, latency_ns);
    }
    if (t->has_batch) {
        record_batch(r, bucket, &t->batch);
    }
    if (queue >= 0 && (t->has & (1U << queue))) {
        record_queue(slot, bucket, (double)t->ms[queue]);
    }
    keep_sample(r, shot, FAILURE_NONE, a, bucket ? bucket->up_to : 0);
}
static void count(struct record *r, const struct shot *shot) {
    r->n_due++;
    r->n_waited += shot->has_waited;
    if (!shot->has_waited) { // for what waited the client is not to blame
        hist_record(&r->lateness, shot->turned_ns - shot->due_ns);
    }
    r->last_done_ns = shot->done_ns > r->last_done_ns ? shot->done_ns : r->last_done_ns;
    slot_at(r, shot->due_ns - r->begin_ns + r->offset_ns)->n_due++;
}
static void record_failed(struct record *r, const struct shot *shot, enum failure kind,
                          const char *what) {
    slot_at(r, shot->due_ns - r->begin_ns + r->offset_ns)->n_failed++;
    if (r->n_failed[kind]++ == 0) {
        snprintf(r->example[kind], sizeof(r->example[kind]), "%s", what);
    }
}
void record_answer(struct record *r, const struct shot *shot, const struct answer *a,
                   const struct stages *stages) {
    const enum failure kind = failure_of_status(a->http_status);
    const bool is_in_window = shot->done_ns >= r->begin_ns && shot->done_ns < r->end_ns;
    r->n_ok_in_window += kind == FAILURE_NONE && is_in_window;
    if (!shot->is_recorded) {
        return;
    }
    count(r, shot);
    r->n_bytes += a->body_bytes;
    r->n_malformed += a->timing.is_malformed;
    if (kind == FAILURE_NONE) {
        record_ok(r, shot, a, stages);
        return;
    }
    char what[FAILURE_EXAMPLE_BYTES];
    snprintf(what, sizeof(what), "HTTP %d%s%s", a->http_status, *a->snippet ? ": " : "",
             a->snippet);
    record_failed(r, shot, kind, what);
    keep_sample(r, shot, kind, a, 0);
}
void record_failure(struct record *r, const struct shot *shot, enum failure kind,
                    const char *what) {
    if (!shot->is_recorded) {
        return;
    }
    count(r, shot);
    record_failed(r, shot, kind, what);
    if (kind == FAILURE_TIMEOUT) {
        hist_record(&r->latency, shot->done_ns - shot->due_ns); // it took that long at least
    }
    keep_sample(r, shot, kind, NULL, 0);
}
int64_t record_failures(const struct record *r) {
    int64_t n = 0;
    for (int i = FAILURE_NONE + 1; i < N_FAILURES; i++) {
        n += r->n_failed[i];
    }
    return n;
}

static void add_buckets(struct record *sum, const struct record *other) {
    for (int i = 0; i < other->n_buckets; i++) {
        const struct bucket_record *o = &other->buckets[i];
        struct bucket_record *b = bucket_of(sum, o->up_to, o->is_told);
        if (!b) {
            continue;
        }
        hist_add(&b->latency, &o->latency);
        b->queue_n += o->queue_n, b->queue_ms += o->queue_ms;
        b->n_rows += o->n_rows, b->n_tokens += o->n_tokens;
    }
}
static void add_slots(struct record *sum, const struct record *other) {
    for (int i = 0; i < RECORD_SLOTS; i++) {
        if (other->slots[i].n_due > 0) {
            slot_add(slot_at(sum, i * other->slot_ns), &other->slots[i]);
        }
    }
}
static void add_failures(struct record *sum, const struct record *other) {
    for (int i = 0; i < N_FAILURES; i++) {
        if (sum->n_failed[i] == 0) {
            memcpy(sum->example[i], other->example[i], sizeof(sum->example[i]));
        }
        sum->n_failed[i] += other->n_failed[i];
    }
}
static void add_samples(struct record *sum, const struct record *other) {
    const int64_t room = sum->max_samples - sum->n_samples;
    const int64_t n = other->n_samples < room ? other->n_samples : room;
    memcpy(sum->samples + sum->n_samples, other->samples, (size_t)n * sizeof(*sum->samples));
    sum->n_samples += n;
}
void record_add(struct record *sum, const struct record *other) {
    hist_add(&sum->latency, &other->latency);
    hist_add(&sum->service, &other->service);
    hist_add(&sum->lateness, &other->lateness);
    sum->n_due += other->n_due, sum->n_ok += other->n_ok;
    sum->n_ok_in_window += other->n_ok_in_window;
    sum->n_waited += other->n_waited, sum->n_connects += other->n_connects;
    sum->n_abandoned += other->n_abandoned;
    sum->n_malformed += other->n_malformed, sum->n_bytes += other->n_bytes;
    for (int i = 0; i < STAGES_MAX; i++) {
        sum->stage_ms[i] += other->stage_ms[i], sum->stage_n[i] += other->stage_n[i];
    }
    sum->total_ms += other->total_ms, sum->total_n += other->total_n;
    sum->outside_ms += other->outside_ms;
    for (int i = 0; i < RECORD_PADDING_BINS; i++) {
        sum->padding_bins[i] += other->padding_bins[i];
    }
    sum->n_batches += other->n_batches, sum->batch_rows += other->batch_rows;
    sum->batch_tokens += other->batch_tokens, sum->batch_requests += other->batch_requests;
    sum->cpu_s += other->cpu_s;
    sum->last_done_ns =
        other->last_done_ns > sum->last_done_ns ? other->last_done_ns : sum->last_done_ns;
    add_buckets(sum, other);
    add_slots(sum, other);
    add_failures(sum, other);
    add_samples(sum, other);
}
