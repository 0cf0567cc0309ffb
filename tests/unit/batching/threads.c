/* threads.c - many producers, several workers, cancels at random and a close in the middle: each
 * job that was let in ends exactly once. Run under ThreadSanitizer it is the race check. */
#include "batching/batcher.h"
#include "base/timing.h"
#include "tests/unit/test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N_PRODUCERS = 6, N_WORKERS = 3, N_JOBS = 3000, MAX_BURST = 5, MAX_LEN = 200 };
enum fate { REFUSED, DONE, CANCELLED, EXPIRED, N_FATES };

struct slot { // a job and what became of it
    struct job job;
    float logit;
    atomic_int n_ends;
    enum fate fate;
};
struct producer {
    struct batcher *b;
    struct slot *slots; // [N_JOBS]
    int32_t *ids;       // [MAX_LEN], all of the producer's number
    uint64_t rng;
    bool closes;  // when it is half done
    bool hurries; // its jobs have deadlines, some too early, keys and classes
    int n_fates[N_FATES];
};
struct worker {
    struct batcher *b;
    struct batch batch, inner;
    int number;
    int64_t n_jobs, n_inner, n_wrong, last_id;
};

static int rand_below(uint64_t *rng, int n) {
    *rng = *rng * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (int)((*rng >> 33) % (uint64_t)n);
}
static void on_done(struct job *job) {
    struct slot *s = job->owner;
    s->fate = job->status == STATUS_TIMEOUT ? EXPIRED : DONE;
    atomic_fetch_add(&s->n_ends, 1);
}
static void cancel(struct producer *p, struct slot *s) {
    if (batcher_cancel(p->b, &s->job)) {
        s->fate = CANCELLED;
        atomic_fetch_add(&s->n_ends, 1);
    }
}
static void submit_burst(struct producer *p, int first, int n) {
    struct job *jobs[MAX_BURST];
    for (int i = 0; i < n; i++) {
        struct slot *s = &p->slots[first + i];
        s->job = (struct job){.token_ids = p->ids,
                              .token_type_ids = p->ids,
                              .n_tokens = 1 + rand_below(&p->rng, MAX_LEN),
                              .logits = &s->logit,
                              .done = on_done,
                              .owner = s};
        jobs[i] = &s->job;
        if (p->hurries) {
            s->job.deadline_ns = time_now_ns() + rand_below(&p->rng, 4) * NS_PER_MS / 4 + 1;
            s->job.wants_deadline = rand_below(&p->rng, 2);
            s->job.priority = (enum priority)rand_below(&p->rng, N_PRIORITIES);
            s->job.key = rand_below(&p->rng, 3);
        }
    }
    enum status status = batcher_submit(p->b, jobs, n, NULL);
    for (int tries = 0; status == STATUS_OVERLOADED && tries < 1000; tries++) {
        sched_yield();
        status = batcher_submit(p->b, jobs, n, NULL);
    }
    for (int i = 0; status && i < n; i++) {
        p->slots[first + i].fate = REFUSED;
        atomic_fetch_add(&p->slots[first + i].n_ends, 1);
    }
}
static void *produce(void *arg) {
    struct producer *p = arg;
    for (int at = 0; at < N_JOBS;) {
        int n = 1 + rand_below(&p->rng, MAX_BURST);
        n = n < N_JOBS - at ? n : N_JOBS - at;
        submit_burst(p, at, n);
        for (int i = rand_below(&p->rng, 3); i > 0; i--) {
            struct slot *s = &p->slots[at + rand_below(&p->rng, n)];
            cancel(p, s); // waiting, running, done, cancelled before, or refused
        }
        at += n;
        if (p->closes && at > N_JOBS / 2) {
            batcher_close(p->b);
        }
    }
    return NULL;
}
/* A stand-in for a pass: a job's logit is its own number. */
static void run_batch(struct worker *w, struct batch *batch) {
    const struct token_batch *t = &batch->tokens;
    float logits[64];
    const int64_t start_ns = time_now_ns();
    for (int i = 0; i < t->n_seqs; i++) {
        logits[i] = (float)t->token_ids[t->cu_seqlens[i] + t->seq_lens[i] - 1];
    }
    w->n_jobs += t->n_seqs;
    w->n_wrong += batch->ride.batch_id <= w->last_id; // ids rise
    w->last_id = batch->ride.batch_id;
    if (batch != &w->inner && batcher_interrupt(w->b, w->number, 1, 2, &w->inner)) {
        w->n_inner++;
        run_batch(w, &w->inner);
    }
    const int64_t now_ns = time_now_ns();
    w->n_wrong += batch_settle(batch, STATUS_OK, logits, 1, now_ns, now_ns) != t->n_seqs;
    batcher_ran(w->b, w->number, batch, now_ns - start_ns);
    batch_complete(batch);
}
static void *work(void *arg) {
    struct worker *w = arg;
    while (batcher_next(w->b, w->number, &w->batch) == STATUS_OK) {
        run_batch(w, &w->batch);
    }
    return NULL;
}
/* Somebody who cannot make up his mind about the policy, and looks at the figures in between. */
struct reloader {
    struct batcher *b;
    struct policy_config policies[3];
    atomic_bool stop;
    int n_reloads, n_wrong;
};
static void *reload(void *arg) {
    struct reloader *r = arg;
    while (!atomic_load(&r->stop)) {
        struct policy_config got;
        struct batcher_stats stats;
        const struct policy_config *next = &r->policies[r->n_reloads++ % 3];
        r->n_wrong += batcher_configure(r->b, next, NULL) != STATUS_OK;
        batcher_get_policy(r->b, &got);
        batcher_get_stats(r->b, &stats);
        r->n_wrong += got.mode != next->mode || stats.queues.n_jobs > 64;
        sched_yield();
    }
    return NULL;
}
static void settle_producer(struct producer *p, int number) {
    for (int i = 0; i < N_JOBS; i++) {
        const struct slot *s = &p->slots[i];
        assert_int_equal(atomic_load(&s->n_ends), 1);
        p->n_fates[s->fate]++;
        assert_true(s->fate != DONE || s->logit == (float)number);
        assert_true(s->fate != DONE || s->job.chosen_ns >= s->job.queued_ns);
    }
}
enum { CLOSE_EARLY = 1, HURRY = 2, RELOAD = 4 };
static struct batcher *make_batcher(enum batch_mode mode, int64_t max_wait_ns, bool hurry,
                                    struct policy_config *policy) {
    struct batcher_config cfg = {
        .queues = {.policy = {.mode = mode,
                              .n_keys = hurry ? 3 : 1,
                              .key_weights = {1, 2, 3},
                              .interrupt = true,
                              .buckets = {{200, 256, 16, max_wait_ns}, {200, 256, 16, max_wait_ns}},
                              .n_buckets = 1},
                   .max_seq_len = MAX_LEN,
                   .max_queued_jobs = 64,
                   .max_queued_tokens = 4000,
                   .n_workers = N_WORKERS},
    };
    if (mode == BATCH_BUCKETED || mode == BATCH_PACKED) {
        cfg.queues.policy.buckets[0].up_to = 50;
        cfg.queues.policy.n_buckets = 2;
    }
    struct batcher *b;
    assert_int_equal(batcher_create(&b, &cfg, NULL), STATUS_OK);
    *policy = cfg.queues.policy;
    return b;
}
static void start_worker(struct worker *w, pthread_t *thread, struct batcher *b, int number) {
    *w = (struct worker){.b = b, .number = number};
    assert_int_equal(batch_init(&w->batch, batcher_batch_limits(b), NULL), STATUS_OK);
    assert_int_equal(batch_init(&w->inner, batcher_batch_limits(b), NULL), STATUS_OK);
    pthread_create(thread, NULL, work, w);
}
static void start_producer(struct producer *p, pthread_t *thread, struct batcher *b, int number,
                           unsigned how) {
    *p = (struct producer){.b = b,
                           .rng = (uint64_t)number + 1,
                           .hurries = how & HURRY,
                           .closes = how & CLOSE_EARLY && number == 0};
    p->slots = calloc(N_JOBS, sizeof(struct slot));
    p->ids = calloc(MAX_LEN, sizeof(int32_t));
    for (int k = 0; k < MAX_LEN; k++) {
        p->ids[k] = number + 1;
    }
    pthread_create(thread, NULL, produce, p);
}
static void start_reloader(struct reloader *r, pthread_t *thread, struct batcher *b,
                           const struct policy_config *policy) {
    *r = (struct reloader){.b = b, .policies = {*policy, *policy}};
    r->policies[1].mode = BATCH_BUCKETED;
    r->policies[2] = (struct policy_config){.mode = BATCH_PADDED,
                                            .n_keys = 1,
                                            .key_weights = {1},
                                            .buckets = {{200, 256, 4, 0}},
                                            .n_buckets = 1};
    pthread_create(thread, NULL, reload, r);
}
static void stop_reloader(struct reloader *r, pthread_t thread) {
    atomic_store(&r->stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(r->n_wrong, 0);
    assert_true(r->n_reloads > 0);
}
/* What became of the jobs: each ended once, and those that were computed are those that are done.
 */
static void settle(enum batch_mode mode, struct worker *workers, struct producer *producers,
                   unsigned how) {
    int64_t n_run = 0, n_inner = 0;
    int n_fates[N_FATES] = {0};
    for (int i = 0; i < N_WORKERS; i++) {
        n_run += workers[i].n_jobs;
        n_inner += workers[i].n_inner;
        assert_int_equal(workers[i].n_wrong, 0);
        batch_finish(&workers[i].batch);
        batch_finish(&workers[i].inner);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        settle_producer(&producers[i], i + 1);
        for (int f = 0; f < N_FATES; f++) {
            n_fates[f] += producers[i].n_fates[f];
        }
        free(producers[i].slots);
        free(producers[i].ids);
    }
    print_message("  %s: %d done, %d cancelled, %d refused, %d expired, %d interruptions\n",
                  batch_mode_names[mode], n_fates[DONE], n_fates[CANCELLED], n_fates[REFUSED],
                  n_fates[EXPIRED], (int)n_inner);
    assert_int_equal(n_fates[DONE], n_run);
    assert_true(n_run > 0 && n_fates[CANCELLED] > 0);
    assert_true(!(how & CLOSE_EARLY) || n_fates[REFUSED] > 0);
    assert_true(!(how & HURRY) || n_fates[EXPIRED] + n_fates[REFUSED] > 0);
    assert_true(how & HURRY || n_fates[EXPIRED] == 0);
}
static void run(enum batch_mode mode, int64_t max_wait_ns, unsigned how) {
    static struct producer producers[N_PRODUCERS];
    static struct worker workers[N_WORKERS];
    static struct reloader reloader;
    pthread_t p_threads[N_PRODUCERS], w_threads[N_WORKERS], r_thread;
    struct policy_config policy;
    struct batcher *b = make_batcher(mode, max_wait_ns, how & HURRY, &policy);
    for (int i = 0; i < N_WORKERS; i++) {
        start_worker(&workers[i], &w_threads[i], b, i);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        start_producer(&producers[i], &p_threads[i], b, i, how);
    }
    if (how & RELOAD) {
        start_reloader(&reloader, &r_thread, b, &policy);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        pthread_join(p_threads[i], NULL);
    }
    if (how & RELOAD) {
        stop_reloader(&reloader, r_thread);
    }
    batcher_close(b);
    for (int i = 0; i < N_WORKERS; i++) {
        pthread_join(w_threads[i], NULL);
    }
    settle(mode, workers, producers, how);
    batcher_destroy(b);
}
static void every_job_ends_once(void **state) {
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        run(mode, 0, 0);
    }
}
static void every_job_ends_once_when_they_wait(void **state) {
    run(BATCH_PACKED, NS_PER_MS / 5, 0);
    run(BATCH_BUCKETED, NS_PER_MS / 5, 0);
}
static void every_job_ends_once_when_closed_under_load(void **state) {
    run(BATCH_PACKED, NS_PER_MS / 5, CLOSE_EARLY);
}
static void every_job_ends_once_with_deadlines_and_reloads(void **state) {
    run(BATCH_PACKED, 0, HURRY);
    run(BATCH_BUCKETED, NS_PER_MS / 5, HURRY);
    run(BATCH_PACKED, 0, RELOAD);
    run(BATCH_PACKED, NS_PER_MS / 5, HURRY | RELOAD | CLOSE_EARLY);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_ends_once),
        cmocka_unit_test(every_job_ends_once_when_they_wait),
        cmocka_unit_test(every_job_ends_once_when_closed_under_load),
        cmocka_unit_test(every_job_ends_once_with_deadlines_and_reloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
