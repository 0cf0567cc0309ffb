/* report_files.c - each report is a path and a function; a full disk shows at the flush or at the
 * close, so both are looked at. */
#include "bench/client/report_files.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum status reports_open(struct report *reports, int n, struct error *err) {
    for (int i = 0; i < n; i++) {
        struct report *r = &reports[i];
        if (!r->path) {
            continue;
        }
        r->file = strcmp(r->path, "-") ? fopen(r->path, "w") : stdout;
        if (!r->file) {
            return error_set(err, STATUS_IO, "%s %s: %s", r->option, r->path, strerror(errno));
        }
    }
    return STATUS_OK;
}
static bool close_one(struct report *r) {
    const bool is_well = !ferror(r->file) && fflush(r->file) == 0;
    const bool is_closed = r->file == stdout || fclose(r->file) == 0;
    r->file = NULL;
    return is_well && is_closed;
}
static bool write_one(struct report *r, const void *of) {
    r->write(r->file, of);
    if (close_one(r)) {
        return true;
    }
    fprintf(stderr, "berth: bench: %s %s: %s\n", r->option, r->path, strerror(errno));
    return false;
}
bool reports_write(struct report *reports, int n, report_write_fn *text, const void *of) {
    bool is_well = true, has_stdout = !text;
    for (int i = 0; i < n; i++) {
        has_stdout = has_stdout || reports[i].file == stdout;
    }
    if (!has_stdout) {
        text(stdout, of);
        is_well = fflush(stdout) == 0;
    }
    for (int i = 0; i < n; i++) {
        is_well = (!reports[i].file || write_one(&reports[i], of)) && is_well;
    }
    return is_well;
}
void reports_close(struct report *reports, int n) {
    for (int i = 0; i < n; i++) {
        if (reports[i].file) {
            (void)close_one(&reports[i]); // nothing was written that could be lost
        }
    }
}

void json_text(FILE *out, const char *text) {
    if (!text) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(out, "\\%c", *c);
        } else if (*c < ' ') {
            fprintf(out, "\\u%04x", *c);
        } else {
            fputc(*c, out);
        }
    }
    fputc('"', out);
}
void json_number(FILE *out, double v) {
    if (isfinite(v)) {
        fprintf(out, "%.9g", v);
    } else {
        fputs("null", out);
    }
}
