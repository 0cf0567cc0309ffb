/* trace.c - arrivals from and to files, made-up ones, and laws of lengths. */
#include "batching/trace.h"
#include "base/timing.h"
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum status read_text(struct trace *out, const char *text, struct error *err) {
    FILE *in = fmemopen((void *)text, strlen(text), "r"); // only read
    assert_non_null(in);
    const enum status s = trace_read_stream(out, in, "t.csv", err);
    fclose(in);
    return s;
}
static void a_trace_is_read(void **state) {
    struct trace t = {0};
    struct error err;
    assert_int_equal(read_text(&t,
                               "at_ms,tokens,priority,key\n0.000,8,normal,0\r\n"
                               "0.5,512,high,3\n1200.125,1,low,63",
                               &err),
                     STATUS_OK);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.arrivals[1].at_ns, 500000);
    assert_int_equal(t.arrivals[1].n_tokens, 512);
    assert_int_equal(t.arrivals[1].priority, PRIORITY_HIGH);
    assert_int_equal(t.arrivals[1].key, 3);
    assert_int_equal(t.arrivals[2].at_ns, INT64_C(1200125000));
    assert_int_equal(t.arrivals[2].priority, PRIORITY_LOW);
    trace_finish(&t);
}
static void columns_may_be_missing(void **state) {
    struct trace t = {0};
    struct error err;
    assert_int_equal(read_text(&t, "at_ms,tokens\n1,2\n1,3\n", &err), STATUS_OK);
    assert_int_equal(t.n, 2);
    assert_int_equal(t.arrivals[1].priority, PRIORITY_NORMAL);
    trace_finish(&t);
    assert_int_equal(read_text(&t, "at_ms,tokens\n", &err), STATUS_OK);
    assert_int_equal(t.n, 0);
    trace_finish(&t);
}
static void what_is_wrong_is_named(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"tokens,at_ms\n", "t.csv:1: the first line must be"},
        {"at_ms\n", "t.csv:1: the first line must be"},
        {"at_ms,tokens,priority,key,more\n", "t.csv:1: the first line must be"},
        {"at_ms,tokens\n1,2,3\n", "t.csv:2: 2 values are expected"},
        {"at_ms,tokens\n1,2\n\n", "t.csv:3: 2 values are expected"},
        {"at_ms,tokens\n-1,2\n", "t.csv:2: at_ms \"-1\" is no time"},
        {"at_ms,tokens\n1.,2\n", "t.csv:2: at_ms \"1.\" is no time"},
        {"at_ms,tokens\n1e3,2\n", "t.csv:2: at_ms \"1e3\" is no time"},
        {"at_ms,tokens\n99999999999999999999,2\n", "is no time"},
        {"at_ms,tokens\n2,2\n1.999,2\n", "t.csv:3: at_ms 1.999 is before the line above"},
        {"at_ms,tokens\n1,0\n", "t.csv:2: tokens \"0\" must be a number from 1 to 8192"},
        {"at_ms,tokens\n1,8193\n", "tokens \"8193\" must be"},
        {"at_ms,tokens\n1,99999999999999999999\n", "must be a number"},
        {"at_ms,tokens\n1, 2\n", "tokens \" 2\" must be"},
        {"at_ms,tokens,priority\n1,2,urgent\n", "must be high, normal or low"},
        {"at_ms,tokens,priority,key\n1,2,low,64\n", "key \"64\" must be a number from 0 to 63"},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        struct trace t = {0};
        struct error err = {.text = ""};
        assert_int_equal(read_text(&t, cases[i].text, &err), STATUS_INVALID);
        if (!strstr(err.text, cases[i].says)) {
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].says);
        }
        assert_null(t.arrivals);
    }
}
static void long_lines_are_refused(void **state) {
    char text[300];
    struct trace t = {0};
    struct error err = {.text = ""};
    memset(text, '1', sizeof(text));
    text[sizeof(text) - 1] = 0;
    assert_int_equal(read_text(&t, text, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "longer than"));
    assert_int_equal(trace_read(&t, "/no/such/file", &err), STATUS_IO);
}
static void written_is_read_back(void **state) {
    struct lengths *l = calloc(1, sizeof(*l));
    struct trace t = {0}, again = {0};
    struct error err;
    char *text = NULL;
    size_t size;
    assert_non_null(l);
    assert_int_equal(lengths_named(l, "chat", 3, 512, &err), STATUS_OK);
    trace_generate(&t, ARRIVE_BURSTS, 100, 1000, l, 7);
    FILE *out = open_memstream(&text, &size);
    trace_write_header(out);
    for (int i = 0; i < t.n; i++) {
        t.arrivals[i].priority = (enum priority)(i % N_PRIORITIES);
        t.arrivals[i].key = i % 64;
        trace_write(out, &t.arrivals[i]);
    }
    fclose(out);
    assert_int_equal(read_text(&again, text, &err), STATUS_OK);
    assert_int_equal(again.n, t.n);
    for (int i = 0; i < t.n; i++) {
        const struct arrival *a = &t.arrivals[i], *b = &again.arrivals[i];
        assert_true(b->at_ns <= a->at_ns && a->at_ns - b->at_ns < 1000);
        assert_true(a->n_tokens == b->n_tokens && a->priority == b->priority && a->key == b->key);
    }
    free(text);
    free(l);
    trace_finish(&t);
    trace_finish(&again);
}
/* Mean and squared coefficient of variation of the gaps: 0 constant, 1 Poisson, 4 bursts. */
static void gaps_follow_their_law(void **state) {
    static const double cv2_of[N_ARRIVAL_KINDS] = {0, 1, 4};
    struct lengths *l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->count[8] = 1;
    for (int kind = 0; kind < N_ARRIVAL_KINDS; kind++) {
        struct trace t = {0};
        double sum = 0, sum2 = 0;
        trace_generate(&t, (enum arrival_kind)kind, 50, 200000, l, 11);
        for (int i = 1; i < t.n; i++) {
            const double gap = (double)(t.arrivals[i].at_ns - t.arrivals[i - 1].at_ns) / 20e6;
            sum += gap;
            sum2 += gap * gap;
        }
        const double n = t.n - 1, mean = sum / n, cv2 = sum2 / n / (mean * mean) - 1;
        assert_true(fabs(mean - 1) < 0.02);
        assert_true(fabs(cv2 - cv2_of[kind]) < 0.05 * (1 + cv2_of[kind]));
        trace_finish(&t);
    }
    free(l);
}
/* Of bench/workload.py's law: round(lognormal(ln 24, ln(350 / 24) / z99)), at least 3, at most 512.
 */
static void mixed_is_the_workloads(void **state) {
    struct lengths *l = calloc(1, sizeof(*l));
    struct error err;
    double n = 0, upto = 0;
    int median = 0, p99 = 0;
    assert_non_null(l);
    assert_int_equal(lengths_named(l, "mixed", 3, 512, &err), STATUS_OK);
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        n += (double)l->count[i];
    }
    for (int i = 0; i <= TRACE_MAX_TOKENS; i++) {
        upto += (double)l->count[i];
        median = !median && upto >= 0.5 * n ? i : median;
        p99 = !p99 && upto >= 0.99 * n ? i : p99;
    }
    assert_int_equal(median, 24);
    assert_int_equal(p99, 350);
    assert_int_equal(l->count[2] + l->count[513], 0);
    /* The normal's tails beyond ln(3.5 / 24) and ln(511.5 / 24) sigmas. */
    assert_true(fabs((double)l->count[3] / n - 0.0473307) < 1e-6);
    assert_true(fabs((double)l->count[512] / n - 0.0039571) < 1e-6);
    free(l);
}
static void laws_by_name(void **state) {
    static const char *const names[] = {"chat",    "reviews", "queries", "documents",
                                        "bimodal", "mixed",   "fixed:8", "lognormal:100:0.5"};
    struct lengths *l = calloc(1, sizeof(*l));
    struct error err = {.text = ""};
    assert_non_null(l);
    for (size_t i = 0; i < N_ITEMS(names); i++) {
        assert_int_equal(lengths_named(l, names[i], 1, 512, &err), STATUS_OK);
        assert_true(lengths_mean(l) >= 1 && lengths_mean(l) <= 512);
    }
    assert_int_equal(lengths_named(l, "fixed:600", 1, 512, &err), STATUS_OK);
    assert_true(lengths_mean(l) == 512);
    static const char *const wrong[] = {"",         "mix",         "fixed:",         "fixed:0",
                                        "fixed:8x", "lognormal:8", "lognormal:8:-1", "fixed:nan"};
    for (size_t i = 0; i < N_ITEMS(wrong); i++) {
        assert_int_equal(lengths_named(l, wrong[i], 1, 512, &err), STATUS_INVALID);
        assert_non_null(strstr(err.text, "bimodal"));
    }
    assert_int_equal(lengths_named(l, "chat", 9, 8, &err), STATUS_INVALID);
    free(l);
}
static void traces_merge_in_order(void **state) {
    struct trace a = {0}, b = {0};
    for (int i = 0; i < 10; i++) {
        trace_add(i % 3 ? &a : &b, &(struct arrival){.at_ns = i, .n_tokens = 1 + i});
    }
    trace_merge(&a, &b);
    assert_int_equal(a.n, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(a.arrivals[i].n_tokens, 1 + i);
    }
    trace_finish(&a);
    trace_finish(&b);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_is_read),        cmocka_unit_test(columns_may_be_missing),
        cmocka_unit_test(what_is_wrong_is_named), cmocka_unit_test(long_lines_are_refused),
        cmocka_unit_test(written_is_read_back),   cmocka_unit_test(gaps_follow_their_law),
        cmocka_unit_test(mixed_is_the_workloads), cmocka_unit_test(laws_by_name),
        cmocka_unit_test(traces_merge_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
