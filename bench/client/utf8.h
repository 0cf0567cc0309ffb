/* utf8.h - is this UTF-8? (RFC 3629: no surrogates, no overlong forms, nothing above U+10FFFF). */
#ifndef BERTH_BENCH_CLIENT_UTF8_H
#define BERTH_BENCH_CLIENT_UTF8_H
#include <stdbool.h>
#include <stddef.h>

bool utf8_is_valid(const char *bytes, size_t len);
#endif
