/* worker.c - jobs through batcher and worker on a small model: their logits are those of a pass of
 * their own, whoever they rode with, and a device that fails takes down nothing but its passes.
 * Faults are put into the reference backend by replacing one entry of its table. */
#include "server/worker.h"
#include "kernels/backend.h"
#include "kernels/kernels.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/log.h"
#include "base/timing.h"

enum { N_WORKERS = 2, N_JOBS = 120, MAX_LEN = 64, MAX_LABELS = 8 };
static const char model_dir[] = MODELS "/base";

struct model {
    struct backend *loader;
    struct model_config cfg;
    struct model_weights weights;
};
static void model_open(struct model *m) {
    struct error err = {.text = ""};
    memset(m, 0, sizeof(*m));
    assert_int_equal(reference_backend_create(&m->loader, &err), STATUS_OK);
    assert_int_equal(model_config_read(&m->cfg, model_dir, &err), STATUS_OK);
    assert_int_equal(model_weights_load(&m->weights, m->loader, &m->cfg, model_dir, NULL, &err),
                     STATUS_OK);
    assert_true(m->cfg.n_labels <= MAX_LABELS && m->cfg.max_position >= MAX_LEN);
}
static void model_close(struct model *m) {
    model_weights_finish(&m->weights);
    model_config_finish(&m->cfg);
    backend_destroy(m->loader);
}

/* A job, its text and its answers. */
struct text {
    struct job job;
    int32_t ids[MAX_LEN], types[MAX_LEN];
    float logits[MAX_LABELS], alone[MAX_LABELS];
};
static atomic_int n_done;
static void on_done(struct job *job) {
    atomic_fetch_add(&n_done, 1);
}
static void wait_for_done(int n) {
    while (atomic_load(&n_done) < n) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    atomic_store(&n_done, 0);
}
static uint32_t rng = 12345;
static int rand_below(int n) {
    rng = rng * 1664525u + 1013904223u;
    return (int)((rng >> 8) % (uint32_t)n);
}
static void text_make(struct text *t, const struct model_config *cfg) {
    memset(t, 0, sizeof(*t));
    t->job = (struct job){.token_ids = t->ids,
                          .token_type_ids = t->types,
                          .n_tokens = 1 + rand_below(rand_below(4) ? 16 : MAX_LEN),
                          .logits = t->logits,
                          .done = on_done,
                          .owner = t};
    for (int i = 0; i < t->job.n_tokens; i++) {
        t->ids[i] = rand_below(cfg->vocab_size);
        t->types[i] = rand_below(cfg->type_vocab_size);
    }
}
static void submit(struct batcher *b, struct text *texts, int n) {
    for (int i = 0; i < n; i++) {
        assert_int_equal(batcher_submit(b, (struct job *const[]){&texts[i].job}, 1, NULL),
                         STATUS_OK);
    }
}

struct rig { // a batcher and its workers
    struct batcher *batcher;
    struct worker *workers[N_WORKERS];
    struct metrics *metrics;
    int n_workers;
};
static void rig_add_worker(struct rig *r, const struct model *m, const struct backend_fn *fn) {
    const struct batch_limits l = batcher_batch_limits(r->batcher);
    struct encoder_limits limits = {l.max_rows, l.max_jobs, MAX_LEN, 0};
    struct worker_parts parts = {.batcher = r->batcher,
                                 .metrics = r->metrics,
                                 .n_outputs = m->cfg.n_labels,
                                 .n_layers = m->cfg.n_layers,
                                 .index = r->n_workers};
    assert_int_equal(reference_backend_create(&parts.be, NULL), STATUS_OK);
    if (fn) {
        parts.be->fn = fn;
    }
    assert_int_equal(encoder_create(&parts.encoder, parts.be, &m->cfg, &m->weights, &limits, NULL),
                     STATUS_OK);
    limits.slot = 1;
    assert_int_equal(
        encoder_create(&parts.urgent_encoder, parts.be, &m->cfg, &m->weights, &limits, NULL),
        STATUS_OK);
    assert_int_equal(worker_start(&r->workers[r->n_workers++], &parts, NULL), STATUS_OK);
}
static void rig_open_with(struct rig *r, enum batch_mode mode, bool interrupt) {
    const struct bucket_limits whole = {MAX_LEN, 96, 12, 0}, half = {16, 96, 24, 0};
    struct batcher_config cfg = {.queues = {.policy = {.mode = mode,
                                                       .interrupt = interrupt,
                                                       .n_keys = 1,
                                                       .key_weights = {1},
                                                       .buckets = {whole},
                                                       .n_buckets = 1},
                                            .max_seq_len = MAX_LEN,
                                            .max_queued_jobs = N_JOBS,
                                            .max_queued_tokens = N_JOBS * MAX_LEN,
                                            .n_workers = N_WORKERS}};
    if (mode == BATCH_BUCKETED || mode == BATCH_PACKED) {
        cfg.queues.policy.buckets[0] = half;
        cfg.queues.policy.buckets[1] = whole;
        cfg.queues.policy.n_buckets = 2;
    }
    cost_set(&cfg.cost, (const double[COST_TERMS]){1e5, 1e6, 0}); // a millisecond a token
    memset(r, 0, sizeof(*r));
    assert_int_equal(batcher_create(&r->batcher, &cfg, NULL), STATUS_OK);
    r->metrics = xcalloc(1, sizeof(*r->metrics));
}
static void rig_open(struct rig *r, enum batch_mode mode) {
    rig_open_with(r, mode, false);
}
static void rig_close(struct rig *r) {
    batcher_close(r->batcher);
    for (int i = 0; i < r->n_workers; i++) {
        worker_join(r->workers[i]);
    }
    batcher_destroy(r->batcher);
    free(r->metrics);
}

static void run_alone(struct text *texts, int n, const struct model *m) {
    struct backend *be;
    struct encoder *encoder;
    const struct encoder_limits limits = {MAX_LEN, 1, MAX_LEN, 0};
    assert_int_equal(reference_backend_create(&be, NULL), STATUS_OK);
    assert_int_equal(encoder_create(&encoder, be, &m->cfg, &m->weights, &limits, NULL), STATUS_OK);
    for (int i = 0; i < n; i++) {
        const int32_t len = texts[i].job.n_tokens, cu_seqlens[] = {0, len};
        const struct token_batch batch = {.token_ids = texts[i].ids,
                                          .token_type_ids = texts[i].types,
                                          .cu_seqlens = cu_seqlens,
                                          .seq_lens = &len,
                                          .n_seqs = 1,
                                          .n_rows = len,
                                          .max_seq_len = len};
        assert_int_equal(encoder_forward(encoder, texts[i].alone, &batch, NULL, NULL), STATUS_OK);
    }
    encoder_destroy(encoder);
    backend_destroy(be);
}
static void check_metrics(const struct metrics *m, const struct text *texts, int n) {
    uint64_t n_tokens = 0, n_batches = 0, n_jobs = 0, n_waits = 0, op_ns = 0;
    for (int i = 0; i < n; i++) {
        n_tokens += (uint64_t)texts[i].job.n_tokens;
    }
    for (int i = 0; i < N_RELEASE_REASONS; i++) {
        n_batches += m->batches[i];
    }
    for (int i = 0; i < POLICY_MAX_BUCKETS; i++) {
        n_jobs += m->buckets[i].jobs;
        n_waits += m->buckets[i].wait.count;
    }
    for (int i = 0; i < N_OP_KINDS; i++) {
        op_ns += m->op_ns[i];
    }
    assert_int_equal(m->jobs_done, n);
    assert_int_equal(m->jobs_failed, 0);
    assert_int_equal(n_jobs, n);
    assert_int_equal(n_waits, n);
    assert_int_equal(m->tokens, n_tokens);
    assert_true(m->rows >= n_tokens);
    assert_int_equal(m->batch_rows.sum, m->rows);
    assert_int_equal(m->batch_jobs.sum, n);
    assert_int_equal(m->batch_ns.count, n_batches);
    assert_true(op_ns > 0);
}
static double largest_difference(const struct text *texts, int n, int n_labels) {
    double most = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n_labels; k++) {
            most = fmax(most, fabs((double)texts[i].logits[k] - (double)texts[i].alone[k]));
        }
    }
    return most;
}
static void check_rides(const struct text *texts, int n, enum batch_mode mode) {
    int most = 0;
    for (int i = 0; i < n; i++) {
        const struct job *job = &texts[i].job;
        assert_int_equal(job->status, STATUS_OK);
        assert_int_equal(job->ride.mode, mode);
        assert_true(job->ride.batch_id >= 1 && job->ride.longest >= job->n_tokens);
        assert_true(job->queued_ns <= job->chosen_ns && job->chosen_ns <= job->infer_ns &&
                    job->infer_ns <= job->done_ns);
        most = job->ride.n_jobs > most ? job->ride.n_jobs : most;
    }
    assert_true(mode == BATCH_NONE ? most == 1 : most > 1); // they did ride together
}
static void mates_do_not_change_an_answer(void **state) {
    static struct text texts[N_JOBS];
    struct model m;
    model_open(&m);
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        struct rig r;
        for (int i = 0; i < N_JOBS; i++) {
            text_make(&texts[i], &m.cfg);
        }
        run_alone(texts, N_JOBS, &m);
        rig_open(&r, mode);
        submit(r.batcher, texts, N_JOBS); // they wait before there is a worker
        for (int i = 0; i < N_WORKERS; i++) {
            rig_add_worker(&r, &m, NULL);
        }
        wait_for_done(N_JOBS);
        const double most = largest_difference(texts, N_JOBS, m.cfg.n_labels);
        print_message("  %s: at most %.1e apart, %d batches\n", batch_mode_names[mode], most,
                      (int)r.metrics->batch_ns.count);
        assert_true(most <= 1e-5);
        check_rides(texts, N_JOBS, mode);
        check_metrics(r.metrics, texts, N_JOBS);
        rig_close(&r);
    }
    model_close(&m);
}

/* The reference backend with a fault: n_faults passes fail. */
static atomic_int n_faults;
static const struct backend_fn *reference_fn;
static bool batch_end_faulty(struct backend *be, int slot, bool wait, enum status *status,
                             struct op_times *times, struct error *err) {
    const bool over = reference_fn->batch_end(be, slot, wait, status, times, err);
    if (atomic_load(&n_faults) > 0) {
        atomic_fetch_sub(&n_faults, 1);
        *status = error_set(err, STATUS_BACKEND, "the device was pulled out");
    }
    return over;
}
static void fetch_not_finite(struct lane *ln, float *out, const struct tensor *t) {
    reference_fn->fetch(ln, out, t);
    out[t->cols] = NAN; // the second sequence's first logit
}
static struct backend_fn faulty_table(void) {
    struct backend *be;
    assert_int_equal(reference_backend_create(&be, NULL), STATUS_OK);
    reference_fn = be->fn;
    backend_destroy(be);
    return *reference_fn;
}
static void run_one(struct rig *r, struct text *t, const struct model *m) {
    text_make(t, &m->cfg);
    submit(r->batcher, t, 1);
    wait_for_done(1);
}
static void a_failing_device_is_told_and_goes_on(void **state) {
    struct text t;
    struct model m;
    struct rig r;
    struct backend_fn fn = faulty_table();
    fn.batch_end = batch_end_faulty;
    model_open(&m);
    rig_open(&r, BATCH_PACKED);
    rig_add_worker(&r, &m, &fn);
    atomic_store(&n_faults, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(worker_is_healthy(r.workers[0]));
        run_one(&r, &t, &m);
        assert_int_equal(t.job.status, STATUS_BACKEND);
    }
    assert_false(worker_is_healthy(r.workers[0]));
    assert_int_equal(r.metrics->jobs_failed, 3);
    run_one(&r, &t, &m);
    assert_int_equal(t.job.status, STATUS_OK);
    assert_true(worker_is_healthy(r.workers[0]));
    atomic_store(&n_faults, 2); // two in a row, twice: not yet
    for (int i = 0; i < 6; i++) {
        run_one(&r, &t, &m);
        assert_true(worker_is_healthy(r.workers[0]));
        if (i == 2) {
            atomic_store(&n_faults, 2);
        }
    }
    assert_int_equal(r.metrics->jobs_failed, 7);
    assert_int_equal(r.metrics->jobs_done, 3);
    rig_close(&r);
    model_close(&m);
}
static void one_bad_row_is_one_failed_job(void **state) {
    struct text texts[3];
    struct model m;
    struct rig r;
    struct backend_fn fn = faulty_table();
    fn.fetch = fetch_not_finite;
    model_open(&m);
    rig_open(&r, BATCH_PACKED);
    for (int i = 0; i < 3; i++) {
        text_make(&texts[i], &m.cfg);
        texts[i].job.n_tokens = 3;
        memset(texts[i].ids, 0, sizeof(texts[i].ids));
    }
    submit(r.batcher, texts, 3);
    rig_add_worker(&r, &m, &fn);
    wait_for_done(3);
    assert_int_equal(texts[0].job.status, STATUS_OK);
    assert_int_equal(texts[1].job.status, STATUS_RESULT);
    assert_int_equal(texts[2].job.status, STATUS_OK);
    assert_int_equal(r.metrics->jobs_done, 2);
    assert_int_equal(r.metrics->jobs_failed, 1);
    assert_true(worker_is_healthy(r.workers[0]));
    rig_close(&r);
    model_close(&m);
}

/* A device on which a short text comes in as soon as a long one's pass has begun; what runs at a
 * border takes INNER_MS. */
enum { INNER_MS = 300 };
static struct rig *rig_under_load;
static struct text *short_text;
static void submit_and_add(struct backend *be, int slot, program_fn *program, const void *arg) {
    if (slot == 0 && short_text) {
        struct text *t = short_text;
        short_text = NULL;
        submit(rig_under_load->batcher, t, 1);
    } else if (slot == 1) {
        nanosleep(&(struct timespec){.tv_nsec = INNER_MS * NS_PER_MS}, NULL);
    }
    reference_fn->batch_submit(be, slot, program, arg);
}
/* The cost model was told of both passes, of the long one its own time. */
static void check_learnt(const struct rig *r) {
    struct batcher_stats stats;
    batcher_get_stats(r->batcher, &stats);
    assert_int_equal(stats.cost.n_updates, 2);
    const double told_ms = stats.cost.ratios[1] * (0.1 + MAX_LEN); // by the model as it was set
    assert_true(told_ms > 0 && told_ms < INNER_MS);
}
static void check_interrupted(bool interrupt) {
    struct text texts[2];
    struct model m;
    struct rig r;
    struct backend_fn fn = faulty_table();
    fn.batch_submit = submit_and_add;
    model_open(&m);
    rig_open_with(&r, BATCH_PACKED, interrupt);
    for (int i = 0; i < 2; i++) {
        text_make(&texts[i], &m.cfg);
        texts[i].job.n_tokens = i ? 4 : MAX_LEN;
        memset(texts[i].types, 0, sizeof(texts[i].types));
        memset(texts[i].ids, 0, sizeof(texts[i].ids));
    }
    run_alone(texts, 2, &m);
    rig_under_load = &r, short_text = &texts[1];
    submit(r.batcher, &texts[0], 1);
    rig_add_worker(&r, &m, &fn);
    wait_for_done(2);
    const struct job *outer = &texts[0].job, *inner = &texts[1].job;
    assert_true(largest_difference(texts, 2, m.cfg.n_labels) == 0);
    assert_true(outer->ride.batch_id == 1 && inner->ride.batch_id == 2);
    assert_true(outer->ride.n_jobs == 1 && inner->ride.n_jobs == 1);
    assert_int_equal(inner->done_ns < outer->done_ns, interrupt);
    assert_int_equal(inner->infer_ns < outer->done_ns, interrupt);
    assert_int_equal(r.metrics->batches[RELEASE_URGENT], interrupt);
    assert_int_equal(r.metrics->jobs_done, 2);
    check_learnt(&r);
    rig_close(&r);
    model_close(&m);
}
static void an_urgent_text_passes_a_long_one(void **state) {
    check_interrupted(true);
    check_interrupted(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mates_do_not_change_an_answer),
        cmocka_unit_test(a_failing_device_is_told_and_goes_on),
        cmocka_unit_test(one_bad_row_is_one_failed_job),
        cmocka_unit_test(an_urgent_text_passes_a_long_one),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
