/* schedule.c - what scheduling costs: ns a job for admission, queueing, choosing and cancelling,
 * with a number of jobs waiting all the while.
 * The queues are real and the clock is made up, so nothing but their work is timed: CPU time of
 * this thread, the median of several repeats. Ranks are as irregular as clients can make them:
 * lengths from 4 to 512, random deadlines of the clients' own, all three classes. */
#include "batching/queues.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/timing.h"

enum {
    N_REPEATS = 5,
    N_JOBS = 20000,
    MAX_WAITING = 20000,
    MAX_CHOSEN = 64, // of a batch
    GROUP = 16,      // batches between two looks at the clock, which is slow
    N_VICTIMS = 64,
    BURST = GROUP * MAX_CHOSEN,
};

struct bench {
    struct queues *queues;
    struct job *jobs; // [MAX_WAITING + BURST], those that wait and those that do not
    struct job **free;
    int n_free, n_keys;
    int64_t now_ns;
    uint64_t rng;
};
struct times { // ns a job
    double submit, choose, cancel, job;
};

static int64_t cpu_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}
static int64_t random_in(struct bench *b, int64_t low, int64_t high) {
    b->rng ^= b->rng << 13;
    b->rng ^= b->rng >> 7;
    b->rng ^= b->rng << 17;
    return low + (int64_t)((b->rng >> 1) % (uint64_t)(high - low + 1));
}
static struct job *new_job(struct bench *b) {
    struct job *job = b->free[--b->n_free];
    *job = (struct job){.n_tokens = (int)random_in(b, 4, random_in(b, 0, 3) ? 64 : 512),
                        .key = (int)random_in(b, 0, b->n_keys - 1),
                        .priority = (enum priority)random_in(b, 0, N_PRIORITIES - 1)};
    job->deadline_ns = b->now_ns + NS_PER_S * 3600 + random_in(b, 0, 1000) * NS_PER_MS;
    job->wants_deadline = random_in(b, 0, 1);
    return job;
}
static void submit(struct bench *b, struct job *job) {
    if (queues_admit(b->queues, &job, 1, b->now_ns).status) {
        abort(); // the caps are above what waits, and deadlines are far
    }
    queues_push(b->queues, job, b->now_ns);
}
/* A burst is made, then submitted; only the second part is timed. */
static int64_t time_submit(struct bench *b, int n) {
    struct job *burst[BURST];
    for (int i = 0; i < n; i++) {
        burst[i] = new_job(b);
    }
    const int64_t start_ns = cpu_now_ns();
    for (int i = 0; i < n; i++) {
        b->now_ns += 1000;
        submit(b, burst[i]);
    }
    return cpu_now_ns() - start_ns;
}
static int64_t time_choose(struct bench *b, int *n_chosen) {
    struct job *chosen[BURST];
    int n = 0;
    const int64_t start_ns = cpu_now_ns();
    for (int i = 0; i < GROUP; i++) {
        queues_expire(b->queues, b->now_ns, chosen + n, MAX_CHOSEN);
        n += queues_choose(b->queues, 0, 0, b->now_ns, false, chosen + n, MAX_CHOSEN).n_jobs;
        queues_ran(b->queues, 0, (struct cost_shape){1, 1}, -1, b->now_ns);
    }
    const int64_t ns = cpu_now_ns() - start_ns;
    for (int i = 0; i < n; i++) {
        b->free[b->n_free++] = chosen[i];
    }
    *n_chosen = n;
    return ns;
}
static int64_t time_cancel(struct bench *b, int n_waiting) {
    const int n = N_VICTIMS;
    struct job *victims[N_VICTIMS];
    for (int found = 0; found < n;) {
        struct job *job = &b->jobs[random_in(b, 0, n_waiting + BURST - 1)];
        if (queues_remove(b->queues, job)) { // and back again, so that only cancelling is timed
            queues_push(b->queues, job, b->now_ns);
            victims[found++] = job;
        }
    }
    int n_cancelled = 0;
    const int64_t start_ns = cpu_now_ns();
    for (int i = 0; i < n; i++) {
        n_cancelled += queues_remove(b->queues, victims[i]);
    }
    const int64_t ns = cpu_now_ns() - start_ns;
    for (int i = 0; i < n; i++) { // a victim drawn twice is put back once
        if (!victims[i]->due_place) {
            queues_push(b->queues, victims[i], b->now_ns);
        }
    }
    return ns * n / n_cancelled;
}
static void open_bench(struct bench *b, int n_waiting, int n_keys, uint64_t seed) {
    static const double coef[COST_TERMS] = {200e3, 50e3, 250}; // about two AVX2 cores
    struct queues_config cfg = {
        .policy = {.mode = BATCH_PACKED,
                   .max_batch_ns = 25 * NS_PER_MS,
                   .rank_cost_factor = 5,
                   .priority_ns = {0, -100 * NS_PER_MS, 100 * NS_PER_MS},
                   .n_keys = n_keys,
                   .n_buckets = 6},
        .max_seq_len = 512,
        .max_queued_jobs = MAX_WAITING + BURST,
        .max_queued_tokens = INT64_MAX,
        .n_workers = 1,
    };
    for (int i = 0; i < cfg.policy.n_buckets; i++) {
        cfg.policy.buckets[i] = (struct bucket_limits){16 << i, 256, 64, 0};
    }
    for (int i = 0; i < n_keys; i++) {
        cfg.policy.key_weights[i] = i + 1;
    }
    struct error err;
    if (queues_create(&b->queues, &cfg, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    cost_set(queues_cost(b->queues), coef);
    b->n_keys = n_keys;
    b->now_ns = NS_PER_S;
    b->rng = seed;
    b->n_free = 0;
    for (int i = n_waiting + BURST - 1; i >= 0; i--) {
        b->jobs[i] = (struct job){.n_tokens = 0};
        b->free[b->n_free++] = &b->jobs[i];
    }
    for (int i = 0; i < n_waiting; i++) {
        b->now_ns += 1000;
        submit(b, new_job(b));
    }
}
static struct times measure(struct bench *b, int n_waiting, int n_keys, uint64_t seed) {
    int64_t submit_ns = 0, choose_ns = 0, cancel_ns = 0, n_chosen = 0, n_cancelled = 0;
    open_bench(b, n_waiting, n_keys, seed);
    while (n_chosen < N_JOBS) {
        int n;
        choose_ns += time_choose(b, &n);
        submit_ns += time_submit(b, n); // as many wait as before
        n_chosen += n;
        if (n_cancelled < N_JOBS / 10) {
            cancel_ns += time_cancel(b, n_waiting);
            n_cancelled += N_VICTIMS;
        }
    }
    queues_destroy(b->queues);
    return (struct times){.submit = (double)submit_ns / (double)n_chosen,
                          .choose = (double)choose_ns / (double)n_chosen,
                          .cancel = (double)cancel_ns / (double)n_cancelled,
                          .job = (double)(submit_ns + choose_ns) / (double)n_chosen};
}
static int by_job(const void *a, const void *b) {
    const double x = ((const struct times *)a)->job, y = ((const struct times *)b)->job;
    return (x > y) - (x < y);
}
int main(void) {
    static const int waiting[] = {100, 500, 2000, 20000}, keys[] = {1, 8, 64};
    struct bench b = {.jobs = xcalloc(MAX_WAITING + BURST, sizeof(struct job)),
                      .free = xcalloc(MAX_WAITING + BURST, sizeof(struct job *))};
    printf("| waiting | keys | submit | choose | cancel | a job in all |\n"
           "|---:|---:|---:|---:|---:|---:|\n");
    for (size_t k = 0; k < N_ITEMS(keys); k++) {
        for (size_t i = 0; i < N_ITEMS(waiting); i++) {
            struct times t[N_REPEATS];
            for (int r = 0; r < N_REPEATS; r++) {
                t[r] = measure(&b, waiting[i], keys[k], (uint64_t)r + 1);
            }
            qsort(t, N_REPEATS, sizeof(t[0]), by_job);
            const struct times *m = &t[N_REPEATS / 2];
            printf("| %d | %d | %.0f ns | %.0f ns | %.0f ns | %.0f ns |\n", waiting[i], keys[k],
                   m->submit, m->choose, m->cancel, m->job);
            fflush(stdout);
        }
    }
    free(b.jobs);
    free(b.free);
    return 0;
}
