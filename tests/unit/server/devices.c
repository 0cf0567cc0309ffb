/* devices.c - what is decided and measured before the workers start: how cores are shared out, and
 * what passes cost. No test here looks at how fast anything is. */
#include "base/log.h"
#include "base/timing.h"
#include "kernels/backend.h"
#include "server/cores.h"
#include "server/split.h"
#include "server/sweep.h"
#include "tests/unit/test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char model_dir[] = MODELS "/base";
static struct config cfg;
static struct model_config model;
static struct model_weights weights;
static struct backend *loader;
static struct device_plan plan;
static struct tuning *tuning;
static struct cores_mask own_cores;

static int setup(void **state) {
    struct error err = {.text = ""};
    own_cores = cores_mask_get();
    config_defaults(&cfg);
    memset(&model, 0, sizeof(model));
    memset(&weights, 0, sizeof(weights));
    tuning = tuning_open("off");
    if (device_create_backend(&loader, &cfg, 1, -1, &err) ||
        model_config_read(&model, model_dir, &err) ||
        model_weights_load(&weights, loader, &model, model_dir, NULL, &err)) {
        return 1;
    }
    plan = (struct device_plan){.cfg = &cfg,
                                .model = &model,
                                .weights = &weights,
                                .loader = loader,
                                .batch = {.max_jobs = 16, .max_rows = 256},
                                .max_seq_len = model.max_position,
                                .measure = true};
    return 0;
}
static int teardown(void **state) {
    tuning_close(tuning);
    model_weights_finish(&weights);
    model_config_finish(&model);
    backend_destroy(loader);
    cores_mask_set(&own_cores);
    return 0;
}

static void candidates_share_all_cores(void **state) {
    for (int n_cores = 1; n_cores <= 256; n_cores++) {
        struct split c[SPLIT_MAX_CANDIDATES];
        const int n = split_candidates(c, n_cores);
        assert_true(n >= 1 && n <= SPLIT_MAX_CANDIDATES);
        for (int i = 0; i < n; i++) {
            assert_true(c[i].n_workers >= 1 && c[i].n_workers <= SPLIT_MAX_WORKERS);
            assert_true(c[i].n_threads >= 1 && c[i].n_threads <= SPLIT_MAX_THREADS);
            assert_true(c[i].n_workers * c[i].n_threads == n_cores || n == 1);
            assert_true(c[i].n_workers * c[i].n_threads <= n_cores);
            assert_true(i == 0 || c[i].n_workers > c[i - 1].n_workers);
        }
        if (n_cores <= SPLIT_MAX_THREADS) { // both ends are among them, in between what divides
            assert_int_equal(c[0].n_workers, 1);
            assert_true(n_cores == 12 || c[n - 1].n_threads == 1);
        }
    }
}
static struct split choose(void) {
    struct error err = {.text = ""};
    struct split s = {0};
    assert_int_equal(split_choose(&s, &plan, tuning, &err), STATUS_OK);
    return s;
}
static bool is_candidate(struct split s) {
    struct split c[SPLIT_MAX_CANDIDATES];
    const int n = split_candidates(c, cores_available());
    for (int i = 0; i < n; i++) {
        if (c[i].n_workers == s.n_workers && c[i].n_threads == s.n_threads) {
            return true;
        }
    }
    return false;
}
static bool is_in_cache(const char *what, struct split s, int n_values) {
    char key[TUNING_MAX_KEY + 1];
    double values[COST_TERMS];
    sweep_key(key, what, &plan, s);
    return tuning_get(tuning, key, values, n_values);
}
static void settings_go_first(void **state) {
    cfg.compute.workers = 3, cfg.compute.threads = 2;
    struct split s = choose();
    assert_true(s.n_workers == 3 && s.n_threads == 2);
    cfg.compute.workers = 0;
    s = choose();
    assert_true(s.n_workers == 1 && s.n_threads == 2);
    cfg.compute.workers = 1, cfg.compute.threads = 0;
    s = choose();
    const int n_cores = cores_available();
    assert_true(s.n_workers == 1 &&
                s.n_threads == (n_cores < SPLIT_MAX_THREADS ? n_cores : SPLIT_MAX_THREADS));
    assert_false(is_in_cache("split", (struct split){0, n_cores}, 2));
}
static void deterministic_measures_nothing(void **state) {
    struct split c[SPLIT_MAX_CANDIDATES];
    const int n_cores = cores_available();
    char key[TUNING_MAX_KEY + 1];
    split_candidates(c, n_cores);
    sweep_key(key, "split", &plan, (struct split){0, n_cores});
    tuning_set(tuning, key, (const double[]){n_cores, 1}, 2); // nor is it asked what was measured
    cfg.compute.deterministic = true;
    const struct split s = choose();
    assert_true(s.n_workers == 1 &&
                s.n_threads == (n_cores < SPLIT_MAX_THREADS ? n_cores : SPLIT_MAX_THREADS));
}
static void without_leave_to_measure_one_worker(void **state) {
    plan.measure = false;
    assert_int_equal(choose().n_workers, 1);
    assert_false(is_in_cache("split", (struct split){0, cores_available()}, 2));
}
static void a_measured_split_is_a_candidate(void **state) {
    const struct split first = choose();
    assert_true(is_candidate(first));
    if (is_in_cache("split", (struct split){0, cores_available()}, 2)) { // was not disturbed
        const struct split again = choose();
        assert_memory_equal(&first, &again, sizeof(first));
    }
}
static void a_split_from_the_cache(void **state) {
    struct split c[SPLIT_MAX_CANDIDATES];
    char key[TUNING_MAX_KEY + 1];
    const int n_cores = cores_available(), n = split_candidates(c, n_cores);
    sweep_key(key, "split", &plan, (struct split){0, n_cores});
    plan.measure = false;
    tuning_set(tuning, key, (const double[]){c[n - 1].n_workers, c[n - 1].n_threads}, 2);
    struct split s = choose();
    assert_memory_equal(&s, &c[n - 1], sizeof(s));
    static const double impossible[][2] = {{1e9, 1e9}, {-1, 2}, {0, 0}, {1.5, 1}, {7, 9}};
    for (size_t i = 0; i < N_ITEMS(impossible); i++) {
        tuning_set(tuning, key, impossible[i], 2);
        s = choose();
        assert_memory_equal(&s, &c[0], sizeof(s));
    }
}

static void open_one(struct device *d, struct split split) {
    struct error err = {.text = ""};
    assert_int_equal(device_open(d, &plan, 0, split, &err), STATUS_OK);
}
static void assert_model(const struct cost_model *m) {
    double sum = 0;
    for (int k = 0; k < COST_TERMS; k++) {
        assert_true(isfinite(m->coef[k]) && m->coef[k] >= 0);
        sum += m->coef[k];
    }
    assert_true(sum > 0 && m->n_updates == 0);
}
static enum cost_source sweep(struct cost_model *m, const struct device *d, struct split split) {
    struct error err = {.text = ""};
    enum cost_source from = N_COST_SOURCES;
    assert_int_equal(sweep_cost(m, &from, d, &plan, split, tuning, &err), STATUS_OK);
    return from;
}
static void a_sweep_gives_a_model(void **state) {
    static const struct batch_limits limits[] = {{16, 256}, {1, 64}, {1, 1}, {3, 7}, {64, 4096}};
    for (size_t i = 0; i < N_ITEMS(limits); i++) {
        const struct split split = {1, 1};
        struct device d;
        struct cost_model m;
        plan.batch = limits[i];
        plan.max_seq_len = limits[i].max_rows < 64 ? limits[i].max_rows : 64;
        open_one(&d, split);
        tuning_close(tuning);
        tuning = tuning_open("off");
        assert_int_equal(sweep(&m, &d, split), COST_SWEEP);
        assert_model(&m);
        device_close(&d);
    }
}
static void a_model_from_the_cache(void **state) {
    const struct split split = {1, 1};
    const double coef[COST_TERMS] = {1000, 100, 1};
    struct device d;
    struct cost_model m;
    char key[TUNING_MAX_KEY + 1];
    open_one(&d, split);
    sweep_key(key, "cost", &plan, split);
    tuning_set(tuning, key, coef, COST_TERMS);
    assert_int_equal(sweep(&m, &d, split), COST_CACHE);
    assert_memory_equal(m.coef, coef, sizeof(coef));
    static const double wrong[][COST_TERMS] = {{-1, 1, 1}, {0, 0, 0}, {1e300, 0, 0}, {0, 0, 15e3}};
    for (size_t i = 0; i < N_ITEMS(wrong); i++) {
        tuning_set(tuning, key, wrong[i], COST_TERMS);
        assert_int_equal(sweep(&m, &d, split), COST_SWEEP);
        assert_model(&m);
    }
    tuning_set(tuning, key, wrong[0], COST_TERMS);
    plan.measure = false;
    assert_int_equal(sweep(&m, &d, split), COST_NOTHING);
    assert_int_equal(cost_predict_ns(&m, (struct cost_shape){8, 64}), 0);
    device_close(&d);
}
/* What a loaded machine once gave: the second of two shapes was hit harder than the first. */
static void nonsense_is_no_model(void **state) {
    const int longest = 512;
    const struct model_config m = {.hidden = 384, .intermediate = 1536};
    static const double good[][COST_TERMS] = {
        {414e3, 38e3, 27.5}, // two AVX-512 cores
        {680e3, 99e3, 68},   // two AVX2 cores
        {300e3, 4e3, 30},    // fast products
        {900e3, 0, 0},       // all launch
        {900e3, 0, 1},       {0, 100e3, 0},
    };
    static const double wrong[][COST_TERMS] = {{0, 0, 15e3}, {0, 0, 42e3},     {400e3, 1, 20},
                                               {NAN, 1, 1},  {1, INFINITY, 1}, {0, -1, 5}};
    for (size_t i = 0; i < N_ITEMS(good); i++) {
        assert_null(sweep_fault(good[i], &m, longest));
    }
    for (size_t i = 0; i < N_ITEMS(wrong); i++) {
        assert_non_null(sweep_fault(wrong[i], &m, longest));
    }
    const struct cost_sample samples[] = {{{8, 8 * 8}, 1000000}, {{16, 16 * 16}, 4000000}};
    struct cost_model fitted;
    cost_fit(&fitted, samples, 2);
    assert_non_null(sweep_fault(fitted.coef, &m, longest));
    sweep_fit_tied(&fitted, samples, 2, &m);
    assert_null(sweep_fault(fitted.coef, &m, longest));
    const int64_t long_ns = cost_predict_ns(&fitted, (struct cost_shape){512, 512 * 512});
    assert_true(long_ns > 60 * NS_PER_MS && long_ns < 200 * NS_PER_MS); // 4 ms for 16: some 128
}
/* From times without a fault both fits are the same, near enough. */
static void a_tied_fit_is_near_the_free_one(void **state) {
    const struct model_config m = {.hidden = 384, .intermediate = 1536};
    const int shapes[][2] = {{1, 8}, {1, 16}, {4, 16}, {1, 128}, {8, 32}, {1, 512}};
    struct cost_sample samples[N_ITEMS(shapes)];
    struct cost_model fitted;
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        const int64_t rows = (int64_t)shapes[i][0] * shapes[i][1];
        const struct cost_shape s = {rows, rows * shapes[i][1]};
        samples[i] = (struct cost_sample){s, 400000 + 38000 * s.rows + 25 * s.sum_len2};
    }
    sweep_fit_tied(&fitted, samples, N_ITEMS(shapes), &m);
    for (size_t i = 0; i < N_ITEMS(shapes); i++) {
        const double ratio =
            (double)cost_predict_ns(&fitted, samples[i].shape) / (double)samples[i].ns;
        assert_true(ratio > 0.85 && ratio < 1.15);
    }
}
static void keys_tell_what_they_depend_on(void **state) {
    char a[TUNING_MAX_KEY + 1], b[TUNING_MAX_KEY + 1];
    sweep_key(a, "cost", &plan, (struct split){1, 2});
    sweep_key(b, "cost", &plan, (struct split){2, 1});
    assert_string_not_equal(a, b);
    cfg.batching.mode = BATCH_PADDED;
    sweep_key(b, "cost", &plan, (struct split){1, 2});
    assert_string_not_equal(a, b);
    cfg.batching.mode = BATCH_PACKED;
    model.n_layers++;
    sweep_key(b, "cost", &plan, (struct split){1, 2});
    assert_string_not_equal(a, b);
    model.n_layers--;
    sweep_key(b, "cost", &plan, (struct split){1, 2});
    assert_string_equal(a, b);
    char cpu[16];
    cores_model(cpu, sizeof(cpu));
    assert_true(strlen(cpu) > 0 && strlen(cpu) < sizeof(cpu));
}
/* Longer than the plan allows, more of them, more rows: cut, and what ran is told. */
static void a_probe_keeps_to_the_plan(void **state) {
    static const int lens[] = {1000, 1000, 1000, 1000, 1000, 5, 5, 5};
    struct error err = {.text = ""};
    struct device d;
    struct probe_pass pass;
    plan.batch = (struct batch_limits){.max_jobs = 5, .max_rows = 130};
    plan.max_seq_len = 60;
    open_one(&d, (struct split){1, 1});
    struct probe *p = probe_create(&plan);
    assert_int_equal(probe_run(p, &d, lens, 8, &pass, &err), STATUS_OK);
    assert_int_equal(pass.shape.rows, 130); // 60 + 60 + 10
    assert_int_equal(pass.shape.sum_len2, 60 * 60 + 60 * 60 + 10 * 10);
    assert_int_equal(probe_run(p, &d, lens + 5, 3, &pass, &err), STATUS_OK);
    assert_int_equal(pass.shape.rows, 15);
    assert_true(pass.ns > 0 && pass.cpu_ns >= 0);
    assert_int_equal(probe_warm_up(p, &d, &err), STATUS_OK);
    probe_destroy(p);
    device_close(&d);
}
static void a_device_that_cannot_be_is_told(void **state) {
    struct error err = {.text = ""};
    struct device d = {.be = NULL};
    struct split s = {0};
    snprintf(cfg.compute.isa, sizeof(cfg.compute.isa), "bogus");
    assert_int_equal(device_open(&d, &plan, 0, (struct split){1, 1}, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "bogus"));
    assert_null(d.be);
    if (cores_available() > 1) {
        assert_int_equal(split_choose(&s, &plan, tuning, &err), STATUS_INVALID);
    }
}

#define ON_MODEL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_share_all_cores),
        ON_MODEL(settings_go_first),
        ON_MODEL(deterministic_measures_nothing),
        ON_MODEL(without_leave_to_measure_one_worker),
        ON_MODEL(a_measured_split_is_a_candidate),
        ON_MODEL(a_split_from_the_cache),
        ON_MODEL(a_sweep_gives_a_model),
        ON_MODEL(a_model_from_the_cache),
        cmocka_unit_test(nonsense_is_no_model),
        cmocka_unit_test(a_tied_fit_is_near_the_free_one),
        ON_MODEL(keys_tell_what_they_depend_on),
        ON_MODEL(a_probe_keeps_to_the_plan),
        ON_MODEL(a_device_that_cannot_be_is_told),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
