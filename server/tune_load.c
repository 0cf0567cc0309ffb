/* tune_load.c - the load that a configuration is tried on.
 * A recorded trace is taken as it is; lengths become a trace by drawing arrivals at a rate. What is
 * longer than the model takes is treated as the server would: cut to the limit, or refused and so
 * left out (model.auto_truncate). */
#include "server/tune.h"

#include <stdlib.h>
#include <string.h>

#include "server/http_get.h"
#include "server/lengths_file.h"

static void fit_trace(struct tune_task *t) {
    int n = 0;
    for (int i = 0; i < t->trace.n; i++) {
        struct arrival a = t->trace.arrivals[i];
        if (a.n_tokens > t->max_input_tokens) {
            t->n_cut += t->cfg->model.auto_truncate;
            t->n_dropped += !t->cfg->model.auto_truncate;
            a.n_tokens = t->max_input_tokens;
            if (!t->cfg->model.auto_truncate) {
                continue;
            }
        }
        t->trace.arrivals[n++] = a;
    }
    t->trace.n = n;
}
static enum status read_trace(struct tune_task *t, struct error *err) {
    const enum status s = trace_read(&t->trace, t->request.trace, err);
    if (s) {
        return s;
    }
    if (t->trace.n == 0) {
        return error_set(err, STATUS_INVALID, "%s: no arrivals in it: nothing to tune for",
                         t->request.trace);
    }
    snprintf(t->load_text, sizeof(t->load_text), "%.200s: %d arrivals", t->request.trace,
             t->trace.n);
    return STATUS_OK;
}

static enum status read_server_lengths(struct lengths_file *out, const struct tune_task *t,
                                       struct error *err) {
    char *body = NULL;
    size_t len = 0;
    enum status s =
        http_get(&body, &len, t->request.url, "/debug/lengths", getenv("BERTH_ADMIN_KEY"), err);
    if (!s) {
        s = lengths_file_parse(out, body, len, "/debug/lengths", err);
    }
    free(body);
    return s;
}
/* A name that is known, else a file. */
static enum status read_lengths(struct lengths_file *out, const struct tune_task *t,
                                struct error *err) {
    const char *given = t->request.lengths;
    struct error unnamed = {.text = ""}, unread = {.text = ""};
    memset(out, 0, sizeof(*out));
    if (!given) {
        return read_server_lengths(out, t, err);
    }
    if (!lengths_named(&out->lengths, given, 1, t->max_input_tokens, &unnamed)) {
        return STATUS_OK;
    }
    const enum status s = lengths_file_read(out, given, &unread);
    if (s == STATUS_IO && !strpbrk(given, "./")) { // rather a name that is not known
        return error_set(err, STATUS_INVALID, "--lengths: %s; and no such file", unnamed.text);
    }
    return s ? error_set(err, s, "--lengths: %s", unread.text) : STATUS_OK;
}
static enum status make_trace(struct tune_task *t, struct error *err) {
    const struct tune_request *q = &t->request;
    struct lengths_file *f = xcalloc(1, sizeof(*f));
    enum status s = read_lengths(f, t, err);
    const double rate = q->rate > 0 ? q->rate : f->per_second;
    if (!s && rate <= 0) {
        s = error_set(err, STATUS_INVALID,
                      "--lengths says how long inputs are, not how often they come: give --rate");
    }
    if (!s) {
        trace_generate(&t->trace, q->arrivals, rate, q->n_arrivals, &f->lengths, q->seed);
        snprintf(t->load_text, sizeof(t->load_text), "lengths of %.200s, %d %s arrivals at %.6g/s",
                 q->lengths ? q->lengths : q->url, q->n_arrivals, arrival_kind_names[q->arrivals],
                 rate);
    }
    free(f);
    return s;
}
enum status tune_read_load(struct tune_task *t, struct error *err) {
    const enum status s = t->request.trace ? read_trace(t, err) : make_trace(t, err);
    if (s) {
        return s;
    }
    fit_trace(t);
    if (t->trace.n == 0) {
        return error_set(err, STATUS_INVALID,
                         "every input is longer than the limit of %d tokens, and "
                         "model.auto_truncate is false: the server would refuse them all",
                         t->max_input_tokens);
    }
    return STATUS_OK;
}
void tune_task_finish(struct tune_task *t) {
    trace_finish(&t->trace);
}
