#include "base/timing.h"
#include "tests/unit/test.h"

static int64_t sum(const struct stage_clock *c) {
    int64_t total = 0;
    for (int s = 0; s < N_STAGES; s++) {
        total += stage_clock_ns(c, (enum stage)s);
    }
    return total;
}
static void stages_add_up(void **state) {
    struct stage_clock c;
    stage_clock_start(&c, 100);
    stage_clock_end(&c, STAGE_READ, 110);
    stage_clock_end(&c, STAGE_PARSE, 115);
    stage_clock_end(&c, STAGE_WRITE, 150); // the ones between were never ended
    assert_int_equal(stage_clock_ns(&c, STAGE_READ), 10);
    assert_int_equal(stage_clock_ns(&c, STAGE_PARSE), 5);
    assert_int_equal(stage_clock_ns(&c, STAGE_INFER), 0);
    assert_int_equal(stage_clock_ns(&c, STAGE_WRITE), 35);
    assert_int_equal(stage_clock_total_ns(&c), 50);
    assert_int_equal(sum(&c), 50);
}
static void an_instant_before_its_stage_takes_no_time(void **state) {
    struct stage_clock c;
    stage_clock_start(&c, 100);
    stage_clock_end(&c, STAGE_QUEUE, 130);
    stage_clock_end(&c, STAGE_FORM, 120);
    stage_clock_end(&c, STAGE_INFER, 140);
    assert_int_equal(stage_clock_ns(&c, STAGE_FORM), 0);
    assert_int_equal(stage_clock_ns(&c, STAGE_INFER), 10);
    assert_int_equal(sum(&c), stage_clock_total_ns(&c));
}
static void the_clock_rises(void **state) {
    const int64_t a = time_now_ns(), b = time_now_ns();
    assert_true(a > 0 && b >= a);
}
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_add_up),
        cmocka_unit_test(an_instant_before_its_stage_takes_no_time),
        cmocka_unit_test(the_clock_rises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
