/* commands.h - how a benchmark's script drives a C program that stays: lines of words, parted by
 * tabs, on standard input; one line of answer each, "ok ..." or "error ...". */
#ifndef BERTH_BENCH_COMMON_COMMANDS_H
#define BERTH_BENCH_COMMON_COMMANDS_H
#include "base/status.h"
#include <stdbool.h>

enum { COMMAND_MAX_BYTES = 4200, COMMAND_MAX_WORDS = 4 };
struct command {
    char line[COMMAND_MAX_BYTES];
    char *words[COMMAND_MAX_WORDS]; // unused ones are ""
};
/* The next line of standard input; false at its end. What is too long is cut. */
bool command_read(struct command *c);
bool command_is(const struct command *c, const char *word);
void command_answer(const char *fmt, ...) PRINTF_LIKE(1, 2); // "ok" and this
void command_refuse(const char *fmt, ...) PRINTF_LIKE(1, 2); // "error" and this
void command_answer_times(const double *ms, int n);
/* Writes a file of n items; false, and refused, when that fails. */
bool command_write(const char *path, const void *items, size_t size, size_t n);
#endif
