/* test.h - cmocka with what it needs before it. Each test file lists its tests once, in main(). */
#ifndef BERTH_TESTS_TEST_H
#define BERTH_TESTS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#endif
