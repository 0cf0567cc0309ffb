/* access.c - who may what, from headers and path alone. */
#include "server/access.h"
#include "base/timing.h"
#include "tests/unit/test.h"
#include <string.h>

static const struct route predict = {.path = "/predict", .metric = ROUTE_PREDICT};
static const struct route health = {.path = "/health", .metric = ROUTE_HEALTH};
static const struct route metrics = {.path = "/metrics", .metric = ROUTE_METRICS};
static const struct route debug = {.path = "/debug/buckets", .metric = ROUTE_DEBUG};
static struct keys *keys;

static int setup(void **state) {
    static const char text[] =
        "{\"keys\": [{\"name\": \"low\", \"key\": \"L\", \"priority\": \"low\"},"
        "{\"name\": \"norm\", \"key\": \"N\"},"
        "{\"name\": \"high\", \"key\": \"H\", \"priority\": \"high\"},"
        "{\"name\": \"ops\", \"key\": \"A\", \"admin\": true}]}";
    return keys_read(&keys, text, strlen(text), "k", NULL) != STATUS_OK;
}
static int teardown(void **state) {
    keys_close(keys);
    return 0;
}
static struct access judge(struct access_headers h, const struct route *route) {
    return access_judge(&h, route, keys, false, true);
}
#define WITH(...) ((struct access_headers){__VA_ARGS__})
static void assert_refused(struct access a, enum refusal why, const char *word) {
    assert_non_null(a.fault);
    assert_int_equal(a.why, why);
    assert_non_null(strstr(a.fault, word));
}

static void the_two_headers(void **state) {
    static const char *const good[] = {"Bearer N", "bearer N", "BEARER  N"};
    for (size_t i = 0; i < N_ITEMS(good); i++) {
        const struct access a = judge(WITH(.authorization = good[i]), &predict);
        assert_null(a.fault);
        assert_string_equal(a.caller.key_name, "norm");
        assert_int_equal(a.caller.key, 1);
    }
    assert_null(judge(WITH(.api_key = "N"), &predict).fault);
    assert_null(judge(WITH(.authorization = "Basic eDp5", .api_key = "N"), &predict).fault);
    assert_null(judge(WITH(.authorization = "Bearer N", .api_key = "N"), &predict).fault);
    assert_refused(judge(WITH(.authorization = "Bearer N", .api_key = "H"), &predict), REFUSE_KEY,
                   "different");
    assert_refused(judge(WITH(.authorization = "Bearer N", .api_key = "?"), &predict), REFUSE_KEY,
                   "different");
    assert_refused(judge(WITH(.authorization = "Bearer ?", .api_key = "N"), &predict), REFUSE_KEY,
                   "not known");
}
static void who_is_not_let_in(void **state) {
    static const char *const bad[] = {"N", "Bearer", "Bearer ", "BearerN", "Basic N", ""};
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        const struct access a = judge(WITH(.authorization = bad[i]), &predict);
        assert_non_null(a.fault);
        assert_int_equal(a.why, REFUSE_KEY);
    }
    assert_refused(judge(WITH(.api_key = NULL), &predict), REFUSE_KEY, "needed");
    assert_refused(judge(WITH(.api_key = ""), &predict), REFUSE_KEY, "not known");
    assert_refused(judge(WITH(.api_key = "n"), &predict), REFUSE_KEY, "not known");
}
static void what_each_path_needs(void **state) {
    const struct access_headers none = {.api_key = NULL}, normal = {.api_key = "N"},
                                admin = {.api_key = "A"};
    assert_null(judge(none, &health).fault);
    assert_refused(judge(none, &metrics), REFUSE_KEY, "needed");
    assert_null(judge(normal, &metrics).fault);
    assert_null(access_judge(&none, &metrics, keys, true, false).fault);
    assert_refused(judge(none, &debug), REFUSE_KEY, "needed");
    assert_refused(judge(normal, &debug), REFUSE_FORBIDDEN, "admin");
    assert_null(access_judge(&admin, &debug, keys, false, false).fault);
    /* Without keys: all of it, but /debug/ for this machine alone. */
    assert_null(access_judge(&none, &predict, NULL, false, false).fault);
    assert_null(access_judge(&none, &metrics, NULL, false, false).fault);
    assert_null(access_judge(&none, &debug, NULL, false, true).fault);
    assert_refused(access_judge(&none, &debug, NULL, false, false), REFUSE_FORBIDDEN, "machine");
}
static void deadlines(void **state) {
    static const char *const bad[] = {"",      "0",   "-1",      "+5",
                                      " 5",    "5.5", "1e3",     "0x5",
                                      "5, 50", "inf", "3600001", "99999999999999999999"};
    const struct access a = judge(WITH(.api_key = "N", .deadline = "250"), &predict);
    assert_int_equal(a.caller.deadline_ns, 250 * NS_PER_MS);
    assert_int_equal(judge(WITH(.api_key = "N"), &predict).caller.deadline_ns, 0);
    const struct access blank =
        judge(WITH(.api_key = "N \t", .deadline = "5 ", .priority = "low "), &predict);
    assert_null(blank.fault);
    assert_int_equal(blank.caller.deadline_ns, 5 * NS_PER_MS);
    assert_int_equal(blank.caller.priority, PRIORITY_LOW);
    assert_null(judge(WITH(.api_key = "N", .deadline = "3600000"), &predict).fault);
    for (size_t i = 0; i < N_ITEMS(bad); i++) {
        assert_refused(judge(WITH(.api_key = "N", .deadline = bad[i]), &predict),
                       REFUSE_BAD_REQUEST, "Berth-Deadline-Ms");
    }
    /* Who may not come in does not learn what else is wrong. */
    assert_refused(judge(WITH(.deadline = "x"), &predict), REFUSE_KEY, "needed");
}
static void a_key_caps_the_class(void **state) {
    static const struct {
        const char *key, *wanted;
        enum priority is;
    } cases[] = {
        {"N", NULL, PRIORITY_NORMAL},     {"N", "high", PRIORITY_NORMAL},
        {"N", "low", PRIORITY_LOW},       {"H", NULL, PRIORITY_HIGH},
        {"H", "high", PRIORITY_HIGH},     {"H", "low", PRIORITY_LOW},
        {"H", "normal", PRIORITY_NORMAL}, {"L", NULL, PRIORITY_LOW},
        {"L", "high", PRIORITY_LOW},
    };
    for (size_t i = 0; i < N_ITEMS(cases); i++) {
        const struct access a =
            judge(WITH(.api_key = cases[i].key, .priority = cases[i].wanted), &predict);
        assert_null(a.fault);
        assert_int_equal(a.caller.priority, cases[i].is);
    }
    const struct access_headers high = {.priority = "high"}, none = {.api_key = NULL},
                                junk = {.priority = "1"};
    assert_int_equal(access_judge(&high, &predict, NULL, false, true).caller.priority,
                     PRIORITY_HIGH);
    assert_int_equal(access_judge(&none, &predict, NULL, false, true).caller.priority,
                     PRIORITY_NORMAL);
    assert_refused(access_judge(&junk, &predict, NULL, false, true), REFUSE_BAD_REQUEST,
                   "Berth-Priority");
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_two_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_not_let_in, setup, teardown),
        cmocka_unit_test_setup_teardown(what_each_path_needs, setup, teardown),
        cmocka_unit_test_setup_teardown(deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_caps_the_class, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
