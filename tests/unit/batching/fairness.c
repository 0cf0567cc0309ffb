/* fairness.c - API keys share by tokens, and requests do not hold each other up. */
#include "batching/queues.h"
#include "tests/unit/batching/world.h"
#include <math.h>

enum { MAX_KEYS = 5 };
static struct world w;

static struct queues_config config_of(enum batch_mode mode, const int *weights, int n_keys) {
    struct queues_config cfg = world_config(mode);
    cfg.policy.n_keys = n_keys;
    memcpy(cfg.policy.key_weights, weights, (size_t)n_keys * sizeof(*weights));
    return cfg;
}
static void push_of_key(int key, int n_tokens, int n) {
    for (int i = 0; i < n; i++) {
        struct job *job = world_job(&w, n_tokens);
        job->key = key;
        queues_push(w.queues, job, w.now_ns);
    }
}
/* Runs until a key has nothing left; what each has had is then within a quantum, and a batch, of
 * its share. */
static void check_shares(const int *weights, const int *lens, const int *counts, int n_keys,
                         enum batch_mode mode) {
    const struct queues_config cfg = config_of(mode, weights, n_keys);
    int64_t tokens[MAX_KEYS] = {0}, left[MAX_KEYS];
    world_open(&w, &cfg);
    for (int key = n_keys - 1; key >= 0; key--) { // by rank alone, the last key would go first
        push_of_key(key, lens[key], counts[key]);
        w.now_ns += NS_PER_S;
        left[key] = counts[key];
    }
    for (bool all = true; all;) {
        struct job *chosen[WORLD_CHOSEN];
        const struct decision d = world_run(&w, chosen);
        assert_int_equal(d.kind, DECIDE_RUN);
        for (int i = 0; i < d.n_jobs; i++) {
            tokens[chosen[i]->key] += chosen[i]->n_tokens;
            left[chosen[i]->key]--;
        }
        for (int i = 0; i < n_keys; i++) {
            all = all && left[i] > 0;
        }
    }
    for (int i = 1; i < n_keys; i++) {
        const double a = (double)tokens[0] / weights[0], b = (double)tokens[i] / weights[i];
        print_message("  %s: key %d had %.0f a weight, key 0 %.0f\n", batch_mode_names[mode], i, b,
                      a);
        assert_true(fabs(a - b) <= POLICY_QUANTUM + 512);
    }
    world_close(&w);
}
static void keys_with_work_share_by_weight(void **state) {
    for (enum batch_mode mode = BATCH_NONE; mode < N_BATCH_MODES; mode++) {
        check_shares((const int[]){1, 1}, (const int[]){20, 20}, (const int[]){300, 900}, 2, mode);
        check_shares((const int[]){1, 1}, (const int[]){500, 10}, (const int[]){40, 1500}, 2, mode);
        check_shares((const int[]){1, 3, 2}, (const int[]){30, 60, 300},
                     (const int[]){300, 500, 80}, 3, mode);
    }
}
/* A key that is alone gets everything, whatever it had before; one that comes anew owes nothing and
 * is owed nothing. */
static void a_key_alone_is_not_held_back(void **state) {
    const struct queues_config cfg = config_of(BATCH_PACKED, (const int[]){1, 9}, 2);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    push_of_key(0, 64, 400);
    for (int i = 0; i < 50; i++) {
        const struct decision d = world_run(&w, chosen);
        assert_int_equal(d.kind, DECIDE_RUN);
        assert_int_equal(d.n_rows, 256); // as full as if there were no keys
    }
    push_of_key(1, 64, 400);
    int64_t tokens[2] = {0};
    for (int i = 0; i < 60; i++) {
        const struct decision d = world_run(&w, chosen);
        for (int k = 0; k < d.n_jobs; k++) {
            tokens[chosen[k]->key] += 64;
        }
    }
    assert_true(tokens[0] >= 60 * 256 / 10 - 512 && tokens[0] <= 60 * 256 / 10 + 2 * 512);
    world_close(&w);
}
/* One key floods; another sends one short text now and then, and each is in the next batch or the
 * one after it. */
static void a_flood_does_not_reach_the_neighbour(void **state) {
    const struct queues_config cfg = config_of(BATCH_PACKED, (const int[]){1, 1}, 2);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    push_of_key(0, 64, 2000);
    for (int i = 0; i < 40; i++) {
        w.now_ns += NS_PER_MS;
        push_of_key(1, 64, 1);
        const struct job *job = &w.jobs[w.n_jobs - 1];
        world_run(&w, chosen);
        if (!world_ends(&w, job)) {
            world_run(&w, chosen);
        }
        assert_true(world_ends(&w, job) > 0);
    }
    world_close(&w);
}
/* Short texts of one key use up its turns in the middle of batches, where another key's long text
 * never fits: it begins a batch of its own instead. */
static void a_long_text_gets_its_turn(void **state) {
    struct queues_config cfg = config_of(BATCH_PACKED, (const int[]){1, 1}, 2);
    struct job *chosen[WORLD_CHOSEN];
    cfg.policy.rank_cost_factor = 1000; // its rank comes late
    world_open(&w, &cfg);
    push_of_key(0, 30, 1000);
    push_of_key(1, 400, 1);
    const struct job *job = &w.jobs[w.n_jobs - 1];
    for (int i = 0; i < 6; i++) {
        world_run(&w, chosen);
    }
    assert_true(world_ends(&w, job) > 0);
    world_close(&w);
}
/* A list of a thousand texts, then a single one: it waits for what was begun, not for the list. */
static void a_list_does_not_hold_up_a_single_text(void **state) {
    static struct job *request[1000];
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    world_open(&w, &cfg);
    for (int i = 0; i < 1000; i++) {
        request[i] = world_job(&w, 16);
    }
    queues_push_request(w.queues, request, 1000, w.now_ns);
    world_run(&w, chosen);
    world_run(&w, chosen);
    const struct job *single = world_push(&w, 16);
    const int64_t came_ns = w.now_ns;
    world_run(&w, chosen);
    world_run(&w, chosen);
    assert_true(world_ends(&w, single) > 0 && world_ends(&w, single) - came_ns < 50 * NS_PER_MS);
    /* And the list goes on at its own pace under a steady load of others, none of it last for ever:
     * it was 0.86 s of work, and half of the device is taken. */
    const int64_t began_ns = w.now_ns;
    int64_t next_ns = w.now_ns;
    while (!world_ends(&w, request[999])) {
        for (; next_ns <= w.now_ns; next_ns += 1600000) {
            queues_push(w.queues, world_job(&w, 16), next_ns);
        }
        world_run(&w, chosen);
    }
    assert_true(w.now_ns - began_ns < 2 * NS_PER_S);
    for (int i = 1; i < 1000; i++) {
        assert_true(world_ends(&w, request[i]) >= world_ends(&w, request[i - 1]));
    }
    world_close(&w);
}
/* Lists that came at the same time are each ranked as if they were alone, and so are served late. A
 * single text waits for a small part of that; and the lists end, under a load that is a little more
 * than the device can do. */
static int64_t longest_single_ns(int n_lists, int64_t every_ns, int n_singles, int64_t *lists_ns) {
    enum { A_LIST = 250, MOST = 2000 };
    static struct job *request[A_LIST], *singles[MOST];
    const struct queues_config cfg = world_config(BATCH_PACKED);
    struct job *chosen[WORLD_CHOSEN];
    int64_t longest_ns = 0;
    int n = 0;
    assert_true(n_singles <= MOST);
    world_open(&w, &cfg);
    for (int k = 0; k < n_lists; k++) {
        for (int i = 0; i < A_LIST; i++) {
            request[i] = world_job(&w, 16);
        }
        queues_push_request(w.queues, request, A_LIST, w.now_ns);
    }
    const int64_t began_ns = w.now_ns;
    while (w.n_done < w.n_jobs || n < n_singles) {
        for (; n < n_singles && began_ns + n * every_ns <= w.now_ns; n++) {
            singles[n] = world_job(&w, 16);
            queues_push(w.queues, singles[n], began_ns + n * every_ns);
        }
        if (world_run(&w, chosen).kind != DECIDE_RUN) {
            w.now_ns += NS_PER_MS;
        }
        *lists_ns = world_ends(&w, request[A_LIST - 1]) ? *lists_ns : w.now_ns - began_ns;
    }
    for (int i = 0; i < n_singles; i++) {
        const int64_t ns = world_ends(&w, singles[i]) - singles[i]->queued_ns;
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    world_close(&w);
    return longest_ns;
}
static void lists_together_do_not_hold_up_a_single_text(void **state) {
    int64_t alone_ns = 0, beside_ns = 0, flooded_ns = 0;
    longest_single_ns(4, NS_PER_S, 0, &alone_ns);
    const int64_t longest_ns = longest_single_ns(4, 20 * NS_PER_MS, 40, &beside_ns);
    longest_single_ns(4, 800000, 2000, &flooded_ns);
    print_message("  lists alone %.0f ms, beside some %.0f, beside 1.1 x capacity %.0f; longest of "
                  "the singles %.0f ms\n",
                  (double)alone_ns / 1e6, (double)beside_ns / 1e6, (double)flooded_ns / 1e6,
                  (double)longest_ns / 1e6);
    assert_true(longest_ns < 250 * NS_PER_MS);
    assert_true(beside_ns < alone_ns + alone_ns / 5);
    assert_true(flooded_ns < 4 * alone_ns);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_with_work_share_by_weight),
        cmocka_unit_test(a_key_alone_is_not_held_back),
        cmocka_unit_test(a_flood_does_not_reach_the_neighbour),
        cmocka_unit_test(a_long_text_gets_its_turn),
        cmocka_unit_test(a_list_does_not_hold_up_a_single_text),
        cmocka_unit_test(lists_together_do_not_hold_up_a_single_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
