/* commands.c - lines in, lines out. Every answer is flushed: the other side waits for it. */
#include "bench/common/commands.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool command_read(struct command *c) {
    if (!fgets(c->line, sizeof(c->line), stdin)) {
        return false;
    }
    c->line[strcspn(c->line, "\r\n")] = 0;
    char *at = c->line;
    for (int i = 0; i < COMMAND_MAX_WORDS; i++) {
        c->words[i] = at;
        at += strcspn(at, "\t");
        if (*at) {
            *at++ = 0;
        }
    }
    return true;
}
bool command_is(const struct command *c, const char *word) {
    return !strcmp(c->words[0], word);
}

static void say(const char *word, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
static void say(const char *word, const char *fmt, va_list args) {
    fputs(word, stdout);
    vprintf(fmt, args);
    putchar('\n');
    fflush(stdout);
}
void command_answer(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say("ok ", fmt, args);
    va_end(args);
}
void command_refuse(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    say("error ", fmt, args);
    va_end(args);
}
void command_answer_times(const double *ms, int n) {
    fputs("ok", stdout);
    for (int i = 0; i < n; i++) {
        printf(" %.5f", ms[i]);
    }
    putchar('\n');
    fflush(stdout);
}

bool command_write(const char *path, const void *items, size_t size, size_t n) {
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(items, size, n, f) == n;
    good = (!f || !fclose(f)) && good;
    if (!good) {
        command_refuse("%s: %s", path, strerror(errno));
    }
    return good;
}
