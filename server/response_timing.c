/* response_timing.c - the headers that tell where a request's time went.
 * Server-Timing is printed from rounded instants, not rounded durations, so its stages add up to
 * its total to the last digit. Each header is one piece of the request's arena; one that does not
 * fit is left out rather than cut. Integers only: no locale can put a comma into a number. */
#include "server/response.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/profile.h"
#include "server/routes.h"

enum { VALUE_BYTES = 1024, PROFILE_BYTES = 4096 };

/* A header's value under construction, the arena's last piece. */
struct value {
    struct arena *arena;
    char *text;
    size_t len, room;
    bool failed;
};
static struct value value_begin(struct request *r, size_t room) {
    struct value v = {.arena = &r->arena, .text = arena_alloc(&r->arena, room, 1), .room = room};
    v.failed = !v.text;
    return v;
}
static void PRINTF_LIKE(2, 3) value_add(struct value *v, const char *fmt, ...) {
    if (v->failed) {
        return;
    }
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(v->text + v->len, v->room - v->len, fmt, args);
    va_end(args);
    v->failed = n < 0 || (size_t)n >= v->room - v->len;
    v->len += v->failed ? 0 : (size_t)n;
}
static void value_end(struct value *v, struct request *r, const char *name) {
    if (!v->text) {
        return;
    }
    arena_resize_last(v->arena, v->text, v->failed ? 0 : v->len + 1, 1);
    if (!v->failed) {
        reply_header(r, name, v->text);
    }
}
static void add_integer(struct request *r, const char *name, int64_t n) {
    struct value v = value_begin(r, VALUE_BYTES);
    value_add(&v, "%lld", (long long)n);
    value_end(&v, r, name);
}

static int64_t to_us(int64_t ns) { // rounded
    return (ns + 500) / 1000;
}
static void add_dur(struct value *v, const char *name, int64_t us) {
    value_add(v, "%s%s;dur=%lld.%03d", v->len ? ", " : "", name, (long long)(us / 1000),
              (int)(us % 1000));
}

/* Does `seen` hold `id`? The last one first: a request's jobs ride in few batches, in turn. */
static bool is_seen(const int64_t *seen, int n, int64_t id) {
    for (int i = n - 1; i >= 0; i--) {
        if (seen[i] == id) {
            return true;
        }
    }
    return false;
}
/* The rides of all jobs, each batch once. */
struct rides {
    struct ride sum; // longest and bucket_up_to are the largest
    int n_batches;
};
static struct rides rides_of(struct request *r) {
    struct rides out = {.n_batches = 0};
    int64_t *seen = arena_alloc(&r->arena, (size_t)r->n_jobs, sizeof(*seen));
    if (!seen) {
        return out;
    }
    for (int i = 0; i < r->n_jobs; i++) {
        const struct ride *ride = &r->jobs[i].ride;
        if (ride->batch_id == 0 || is_seen(seen, out.n_batches, ride->batch_id)) {
            continue; // 0: expired, it rode in none
        }
        seen[out.n_batches++] = ride->batch_id;
        out.sum.mode = ride->mode;
        out.sum.n_requests += ride->n_requests;
        out.sum.n_jobs += ride->n_jobs;
        out.sum.n_tokens += ride->n_tokens;
        out.sum.n_rows += ride->n_rows;
        out.sum.longest = ride->longest > out.sum.longest ? ride->longest : out.sum.longest;
        out.sum.bucket_up_to =
            ride->bucket_up_to > out.sum.bucket_up_to ? ride->bucket_up_to : out.sum.bucket_up_to;
        for (int k = 0; k < JOB_OP_KINDS; k++) {
            out.sum.op_ns[k] += ride->op_ns[k];
        }
        out.sum.launches += ride->launches;
    }
    arena_resize_last(&r->arena, seen, 0, 1);
    return out;
}

/* What the jobs' batches took, each batch once; NULL: not asked for, or no room. */
static int64_t *sum_profiles(struct request *r, int n_batches) {
    const size_t n = ((size_t)r->n_profile_layers + 1) * N_OP_STEPS;
    if (!r->n_profile_layers) {
        return NULL;
    }
    int64_t *sum = arena_alloc(&r->arena, n, sizeof(*sum));
    int64_t *seen = arena_alloc(&r->arena, (size_t)n_batches, sizeof(*seen));
    if (!sum || !seen) {
        return NULL;
    }
    memset(sum, 0, n * sizeof(*sum));
    for (int i = 0, n_seen = 0; i < r->n_jobs; i++) {
        const struct job *job = &r->jobs[i];
        if (job->ride.batch_id == 0 || is_seen(seen, n_seen, job->ride.batch_id)) {
            continue;
        }
        seen[n_seen++] = job->ride.batch_id;
        for (size_t k = 0; k < n; k++) {
            sum[k] += job->profile_ns[k];
        }
    }
    return sum;
}
/* layerN_OP for every op of every layer; where that would be too long, layerN. */
static void add_layers(struct value *v, const int64_t *ns, int n_layers) {
    const struct value before = *v;
    char name[48];
    for (int i = 0; i < n_layers * N_OP_STEPS; i++) {
        if (ns[i] > 0) {
            snprintf(name, sizeof(name), "layer%d_%s", i / N_OP_STEPS,
                     op_step_names[i % N_OP_STEPS]);
            add_dur(v, name, to_us(ns[i]));
        }
    }
    if (!v->failed) {
        return;
    }
    *v = before;
    for (int layer = 0; layer < n_layers && !v->failed; layer++) {
        int64_t sum = 0;
        for (int step = 0; step < N_OP_STEPS; step++) {
            sum += ns[layer * N_OP_STEPS + step];
        }
        snprintf(name, sizeof(name), "layer%d", layer);
        add_dur(v, name, to_us(sum));
    }
    if (v->failed) { // hundreds of layers
        *v = before;
    }
}
static void add_server_timing(struct request *r, const struct rides *profile) {
    const int64_t *layers = profile ? sum_profiles(r, profile->n_batches) : NULL;
    struct value v = value_begin(r, profile ? PROFILE_BYTES : VALUE_BYTES);
    int64_t before = 0;
    for (int s = 0; s < N_STAGES; s++) {
        const int64_t end = to_us(r->clock.ends_ns[s] - r->clock.start_ns);
        add_dur(&v, stage_names[s], end - before);
        before = end;
    }
    add_dur(&v, "total", before);
    for (int k = 0; profile && k < JOB_OP_KINDS; k++) {
        add_dur(&v, op_kind_names[k], to_us(profile->sum.op_ns[k]));
    }
    if (layers) {
        add_layers(&v, layers, r->n_profile_layers);
    }
    value_end(&v, r, "Server-Timing");
}
_Static_assert((int)JOB_OP_KINDS == (int)N_OP_KINDS, "op_ns is indexed by op_kind");

static void add_batch(struct request *r, const struct rides *rides, bool profile) {
    const struct ride *s = &rides->sum;
    struct value v = value_begin(r, VALUE_BYTES);
    const int64_t idle = s->n_rows - s->n_tokens, rows = s->n_rows > 0 ? s->n_rows : 1;
    const int64_t padding = (idle * 1000 + rows / 2) / rows; // thousandths
    value_add(&v, "requests=%d, jobs=%d, tokens=%d, rows=%d, longest=%d, bucket=%d", s->n_requests,
              s->n_jobs, s->n_tokens, s->n_rows, s->longest, s->bucket_up_to);
    value_add(&v, ", padding=%lld.%03lld, mode=%s", (long long)(padding / 1000),
              (long long)(padding % 1000), batch_mode_names[s->mode]);
    if (rides->n_batches > 1) {
        value_add(&v, ", batches=%d", rides->n_batches);
    }
    if (profile && s->launches > 0) {
        value_add(&v, ", launches=%lld", (long long)s->launches);
    }
    value_end(&v, r, "Berth-Batch");
}

/* The headers of text-embeddings-inference: whole milliseconds, means over the request's inputs. */
static void add_tei(struct request *r) {
    int64_t tokens = 0, queue_ns = 0, infer_ns = 0;
    for (int i = 0; i < r->n_jobs; i++) {
        const struct job *j = &r->jobs[i];
        tokens += j->n_tokens;
        if (j->done_ns) { // else expired in the queue
            queue_ns += j->chosen_ns - j->queued_ns;
            infer_ns += j->done_ns - j->infer_ns;
        }
    }
    const int64_t total_ms = stage_clock_total_ns(&r->clock) / NS_PER_MS;
    const int64_t per_job_ms = r->n_jobs * NS_PER_MS;
    reply_header(r, "x-compute-type", "gpu+optimized"); // the one value that TEI ever sends
    add_integer(r, "x-compute-time", total_ms);
    add_integer(r, "x-total-time", total_ms);
    add_integer(r, "x-compute-characters", r->n_chars);
    add_integer(r, "x-compute-tokens", tokens);
    add_integer(r, "x-tokenization-time", stage_clock_ns(&r->clock, STAGE_TOKENIZE) / per_job_ms);
    add_integer(r, "x-queue-time", queue_ns / per_job_ms);
    add_integer(r, "x-inference-time", infer_ns / per_job_ms);
}

static bool is_timed(const struct request *r) {
    return r->route && (r->route->metric == ROUTE_PREDICT || r->route->metric == ROUTE_TOKENIZE);
}
/* A request that was refused while one of its jobs was still queued was in `queue` up to now. */
static bool ended_in_queue(const struct request *r) {
    for (int i = 0; i < r->n_jobs && r->reply.http_status >= 400; i++) {
        if (r->jobs[i].chosen_ns == 0) {
            return true;
        }
    }
    return false;
}
void reply_add_timing(struct request *r, const struct config *cfg) {
    const bool ran = r->n_jobs > 0 && r->reply.http_status == 200;
    if (ended_in_queue(r)) {
        stage_clock_end(&r->clock, STAGE_QUEUE, time_now_ns());
    }
    stage_clock_end(&r->clock, STAGE_WRITE, time_now_ns());
    reply_header(r, "X-Request-Id", r->id);
    if (!cfg->server.timing_headers || !is_timed(r)) {
        return;
    }
    if (cfg->server.timing_allow_origin[0]) {
        reply_header(r, "Timing-Allow-Origin", cfg->server.timing_allow_origin);
    }
    if (!ran) {
        add_server_timing(r, NULL);
        return;
    }
    const struct rides rides = rides_of(r);
    const bool profile = r->wants_profile && cfg->server.profile_header && rides.n_batches > 0;
    add_server_timing(r, profile ? &rides : NULL);
    if (rides.n_batches > 0) {
        add_batch(r, &rides, profile);
    }
    add_tei(r);
}
