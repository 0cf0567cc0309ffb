/* report_files.h - the files that a run's reports go to: opened before anything runs, so that a
 * path that cannot be written is found early; written and closed when all is over. And JSON's
 * values, for all who write it. */
#ifndef BERTH_BENCH_CLIENT_REPORT_FILES_H
#define BERTH_BENCH_CLIENT_REPORT_FILES_H
#include "base/status.h"
#include <stdbool.h>
#include <stdio.h>

typedef void report_write_fn(FILE *out, const void *of);
struct report {
    const char *path;   // NULL: not asked for; "-": standard output; borrowed
    const char *option; // that named it
    report_write_fn *write;
    FILE *file; // owned, but for stdout; NULL: not open
};
/* STATUS_IO names option and path; what is open by then is for reports_close(). */
MUST_CHECK enum status reports_open(struct report *reports, int n, struct error *err);
/* Writes and closes them. `text` (NULL: none) goes to standard output unless a report does. False:
 * one could not be written whole, which was said on stderr. */
bool reports_write(struct report *reports, int n, report_write_fn *text, const void *of);
void reports_close(struct report *reports, int n); // of a run that came to nothing

void json_text(FILE *out, const char *text); // quoted; null for NULL
void json_number(FILE *out, double v);       // null for what is no number
#endif
