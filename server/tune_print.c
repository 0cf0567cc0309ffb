/* tune_print.c - what `berth tune` shows: the load, the trade-off table, the proposed settings.
 * Settings go out through the config's own printer, so that they read back by construction. */
#include "server/tune.h"

#include <math.h>
#include <string.h>

#include "base/timing.h"

enum { MAX_FRONT = 8 };

static double ms(int64_t ns) {
    return (double)ns / NS_PER_MS;
}
static double share(int64_t n, int64_t of) {
    return of > 0 ? 100.0 * (double)n / (double)of : 0;
}
int tune_classes(int up_to[TUNE_CLASSES], int max_input_tokens) {
    static const int usual[] = {32, 128};
    int n = 0;
    for (size_t i = 0; i < N_ITEMS(usual); i++) {
        if (usual[i] < max_input_tokens) {
            up_to[n++] = usual[i];
        }
    }
    up_to[n++] = max_input_tokens;
    return n;
}

void tune_print_task(FILE *out, const struct tune_task *t) {
    const double *c = t->sim.coef;
    fprintf(out, "load  %s\n", t->load_text);
    if (t->n_cut > 0) {
        fprintf(out,
                "      %d of them are longer than %d tokens and cut there, as the server does\n",
                t->n_cut, t->max_input_tokens);
    }
    if (t->n_dropped > 0) {
        fprintf(out, "      %d longer than %d tokens are left out: the server refuses them\n",
                t->n_dropped, t->max_input_tokens);
    }
    fprintf(out, "cost  a pass takes %.1f us + %.3f us a row + %.5f us a squared token (%s)\n",
            c[0] / 1e3, c[1] / 1e3, c[2] / 1e3, t->cost_text);
    fprintf(out, "mode  %s, %d worker%s\n", batch_mode_names[t->sim.queues.policy.mode],
            t->sim.queues.n_workers, t->sim.queues.n_workers == 1 ? "" : "s");
}

void tune_print_head(FILE *out, const int *class_up_to, int n_classes) {
    char title[40];
    fprintf(out, "\n%-14s", "");
    for (int i = 0; i < n_classes; i++) {
        snprintf(title, sizeof(title), "%d to %d tokens", i ? class_up_to[i - 1] + 1 : 1,
                 class_up_to[i]);
        fprintf(out, "  %-25s", title);
    }
    fprintf(out, "  %-25s  %8s  %7s  %7s\n%-14s", "all", "at most", "", "not", "milliseconds");
    for (int i = 0; i <= n_classes; i++) {
        fprintf(out, "  %7s  %7s  %7s", "p50", "p95", "p99");
    }
    fprintf(out, "  %8s  %7s  %7s\n", "inputs/s", "padding", "served");
}
static void print_quantiles(FILE *out, const struct sim_class *c) {
    if (c->n_done > 0) {
        fprintf(out, "  %7.1f  %7.1f  %7.1f", ms(c->p50_ns), ms(c->p95_ns), ms(c->p99_ns));
    } else {
        fprintf(out, "  %7s  %7s  %7s", "-", "-", "-");
    }
}
void tune_print_line(FILE *out, const char *name, const struct sim_result *r, int n_classes,
                     double capacity) {
    fprintf(out, "%-14s", name);
    for (int i = 0; i < n_classes; i++) {
        print_quantiles(out, &r->classes[i]);
    }
    print_quantiles(out, &r->all);
    fprintf(out, "  %8.1f  %7.3f  %6.2f%%\n", capacity, r->padding_ratio,
            share(r->n_refused + r->n_expired, r->n_arrived));
}

static void print_policy(FILE *out, const struct policy_config *p) {
    const struct bucket_limits *b = &p->buckets[p->n_buckets - 1];
    fputs("up to", out);
    for (int i = 0; i < p->n_buckets; i++) {
        fprintf(out, " %d", p->buckets[i].up_to);
    }
    fprintf(out, "; %d tokens, %d inputs", b->max_batch_tokens, b->max_batch_requests);
    fprintf(out, p->max_batch_ns ? ", %g ms a batch" : ", batches of any time",
            ms(p->max_batch_ns));
    fprintf(out, ", wait %g ms, rank factor %g\n", ms(b->max_wait_ns), p->rank_cost_factor);
}
/* Others that were tried and that nothing beats in both p99 and throughput. */
static void print_front(FILE *out, const struct tune_report *r) {
    int front[MAX_FRONT];
    const int n = tune_report_front(r, front, MAX_FRONT);
    fprintf(out, "\nwhat can be had (of %d tried; p99 of all at this load, inputs/s at most):\n",
            r->n_rows);
    for (int i = 0; i < n; i++) {
        const struct tune_row *row = &r->rows[front[i]];
        fprintf(out, "%c %8.1f ms  %8.1f/s  ", front[i] == r->best ? '*' : ' ',
                ms(row->at_load.all.p99_ns), row->capacity);
        print_policy(out, &row->policy);
    }
}
static void print_verdict(FILE *out, const struct tune_task *t, const struct tune_report *r) {
    const struct tune_row *best = &r->rows[r->best];
    if (r->load > best->capacity) {
        fprintf(
            out,
            "\nThe load, %.1f/s, is more than the %.1f/s that can be served at most: queues grow "
            "without end, and\nthe longer it lasts the later answers come. Add devices, or "
            "limit the rate.\n",
            r->load, best->capacity);
    }
    if (!best->holds) {
        fprintf(
            out,
            "\np99=%gms cannot be held at this load by anything that was tried. The nearest: "
            "p99 %.1f ms, with %.2f%%\nof the inputs not served. The proposal is that; or ask for "
            "--slo p99=%.0fms.\n",
            ms(t->request.p99_ns), ms(best->at_load.all.p99_ns),
            share(best->at_load.n_refused + best->at_load.n_expired, best->at_load.n_arrived),
            ceil(ms(best->at_load.all.p99_ns)));
    } else if (r->best == 0) {
        fputs("\nNothing that was tried is better than the settings in force.\n", out);
    }
    if (r->cut_short) {
        fputs("\nThe search was cut short by --budget-s: more time may find more.\n", out);
    }
}
void tune_print_report(FILE *out, const struct tune_task *t, const struct tune_report *r) {
    int up_to[TUNE_CLASSES];
    const int n_classes = tune_classes(up_to, t->max_input_tokens);
    const struct tune_row *before = &r->rows[0], *best = &r->rows[r->best];
    if (r->n_arrivals < t->trace.n) {
        fprintf(out, "      tried on its busiest %d arrivals, %.1f/s\n", r->n_arrivals, r->load);
    }
    tune_print_head(out, up_to, n_classes);
    tune_print_line(out, "before", &before->at_load, n_classes, before->capacity);
    tune_print_line(out, "proposal", &best->at_load, n_classes, best->capacity);
    fputs("\nbefore    ", out);
    print_policy(out, &before->policy);
    fputs("proposal  ", out);
    print_policy(out, &best->policy);
    print_verdict(out, t, r);
    print_front(out, r);
}
