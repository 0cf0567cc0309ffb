/* serve.c - the same passes on command, so that a script can time them in turn with others':
 *   load FILE       sequences: int32 n, n lengths, then their token ids, in this machine's order
 *   rows all|first  hidden states of every row, or what a classifier needs
 *   time SECONDS    the loaded sequences as one batch, again and again: milliseconds of each call
 *   mix ROWS        all of them once, packed in their order, on all workers: milliseconds, batches
 *   output FILE     one pass; its floats into FILE
 *   peak            GFLOP/s of multiply-adds on as many threads as all workers have, now
 * Workers of `mix` take the next batch from one counter, as a server's workers take it from the
 * queue. */
#include "base/timing.h"
#include "bench/common/commands.h"
#include "bench/common/machine.h"
#include "bench/common/timed.h"
#include "bench/forward/engine.h"
#include "kernels/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_CALLS = 2000, MAX_TOKENS = 1 << 26 };
struct load {
    int *lens; // [n_seqs]
    int32_t *ids;
    int n_seqs, n_tokens;
};
struct session {
    struct engine g;
    struct load load;
    const char *isa; // that the peak is measured with
    int n_threads;
};

static void free_load(struct load *l) {
    free(l->lens);
    free(l->ids);
    *l = (struct load){0};
}

/* What encoder_forward() would take for a broken promise is refused here. */
static const char *read_load(struct load *l, FILE *f, const struct engine *g) {
    int32_t n;
    if (fread(&n, sizeof(n), 1, f) != 1 || n < 1 || n > MAX_LENGTHS) {
        return "not a number of sequences";
    }
    l->n_seqs = n;
    l->lens = xcalloc((size_t)n, sizeof(*l->lens));
    if (fread(l->lens, sizeof(*l->lens), (size_t)n, f) != (size_t)n) {
        return "not that many lengths";
    }
    for (int i = 0; i < n; i++) {
        if (l->lens[i] < 1 || l->lens[i] > g->limits.max_seq_len || l->n_tokens > MAX_TOKENS) {
            return "a length that the model does not take";
        }
        l->n_tokens += l->lens[i];
    }
    l->ids = xcalloc((size_t)l->n_tokens, sizeof(*l->ids));
    if (fread(l->ids, sizeof(*l->ids), (size_t)l->n_tokens, f) != (size_t)l->n_tokens) {
        return "not that many token ids";
    }
    for (int i = 0; i < l->n_tokens; i++) {
        if (l->ids[i] < 0 || l->ids[i] >= g->cfg.vocab_size) {
            return "a token id that the model does not have";
        }
    }
    return NULL;
}
static void load_file(struct session *s, const char *path) {
    FILE *f = fopen(path, "rb");
    free_load(&s->load);
    const char *fault = f ? read_load(&s->load, f, &s->g) : "cannot be opened";
    if (f) {
        fclose(f);
    }
    if (fault) {
        free_load(&s->load);
        command_refuse("%s: %s", path, fault);
    } else {
        command_answer("%d sequences, %d tokens", s->load.n_seqs, s->load.n_tokens);
    }
}

static double time_pass(void *arg) {
    const struct session *s = arg;
    return engine_pass(&s->g, &s->g.workers[0], s->load.ids, s->load.lens, s->load.n_seqs);
}
static void time_passes(struct session *s, const char *seconds) {
    double ms[MAX_CALLS];
    const int n = time_calls(ms, MAX_CALLS, strtod(seconds, NULL), time_pass, s);
    command_answer_times(ms, n);
}
static void write_output(struct session *s, const char *path) {
    time_pass(s);
    const int n = engine_out_floats(&s->g, s->load.lens, s->load.n_seqs);
    if (command_write(path, s->g.workers[0].out, sizeof(float), (size_t)n)) {
        command_answer("%d floats", n);
    }
}

struct cut { // where a batch begins
    int seq, token;
};
struct mix {
    struct session *s;
    struct cut *cuts; // [n_batches + 1]
    int n_batches;
    atomic_int next;
};
struct mix_thread {
    pthread_t thread;
    struct mix *mix;
    struct worker *worker;
};
static void *run_worker(void *arg) {
    struct mix_thread *t = arg;
    const struct session *s = t->mix->s;
    for (int i; (i = atomic_fetch_add(&t->mix->next, 1)) < t->mix->n_batches;) {
        const struct cut *c = &t->mix->cuts[i];
        engine_pass(&s->g, t->worker, s->load.ids + c->token, s->load.lens + c->seq,
                    c[1].seq - c->seq);
    }
    return NULL;
}
static void cut_batches(struct mix *m, int max_rows) {
    const struct load *l = &m->s->load;
    struct cut at = {0, 0};
    m->cuts = xcalloc((size_t)l->n_seqs + 1, sizeof(*m->cuts));
    while (at.seq < l->n_seqs) {
        const int n =
            engine_count_fitting(&m->s->g, l->lens + at.seq, l->n_seqs - at.seq, max_rows);
        for (int i = 0; i < n; i++) {
            at.token += l->lens[at.seq++];
        }
        m->cuts[++m->n_batches] = at;
    }
}
static void run_mix(struct session *s, const char *rows) {
    struct mix m = {.s = s};
    struct mix_thread threads[MAX_WORKERS];
    const int n = s->g.n_workers;
    const long max_rows = strtol(rows, NULL, 10);
    if (max_rows < 1 || max_rows > s->g.limits.max_rows) {
        command_refuse("%s rows a batch: from 1 to %d", rows, s->g.limits.max_rows);
        return;
    }
    cut_batches(&m, (int)max_rows);
    const int64_t start = time_now_ns();
    for (int i = 0; i < n; i++) {
        threads[i] = (struct mix_thread){.mix = &m, .worker = &s->g.workers[i]};
        if (pthread_create(&threads[i].thread, NULL, run_worker, &threads[i])) {
            die("workers", "a thread could not be started");
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i].thread, NULL);
    }
    command_answer("%.3f %d", (double)(time_now_ns() - start) / NS_PER_MS, m.n_batches);
    free(m.cuts);
}

/* As one batch the sequences have to fit the workspace; `mix` cuts them itself. */
static bool is_loaded(const struct session *s, bool as_one_batch) {
    const struct encoder_limits *l = &s->g.limits;
    if (!s->load.n_seqs) {
        command_refuse("nothing is loaded");
    } else if (as_one_batch && (s->load.n_seqs > l->max_seqs || s->load.n_tokens > l->max_rows)) {
        command_refuse("%d sequences, %d tokens: one batch has at most %d and %d (--rows)",
                       s->load.n_seqs, s->load.n_tokens, l->max_seqs, l->max_rows);
    } else {
        return true;
    }
    return false;
}
static void run_command(struct session *s, const struct command *c) {
    if (command_is(c, "load")) {
        load_file(s, c->words[1]);
    } else if (command_is(c, "rows")) {
        s->g.all_rows = c->words[1][0] == 'a';
        command_answer("%s rows", s->g.all_rows ? "all" : "first");
    } else if (command_is(c, "peak")) {
        command_answer("%.2f", machine_peak_gflops(s->isa, s->n_threads));
    } else if (command_is(c, "time")) {
        if (is_loaded(s, true)) {
            time_passes(s, c->words[1]);
        }
    } else if (command_is(c, "output")) {
        if (is_loaded(s, true)) {
            write_output(s, c->words[1]);
        }
    } else if (command_is(c, "mix")) {
        if (is_loaded(s, false)) {
            run_mix(s, c->words[1]);
        }
    } else {
        command_refuse("%s: load, rows, time, mix, output or peak is expected", c->words[0]);
    }
}

void run_commands(const struct options *o) {
    struct session s = {.isa = peak_isa(o), .n_threads = o->threads * o->workers};
    struct command c;
    const struct encoder_limits limits = {o->rows, o->rows < 512 ? o->rows : 512, 0, 0};
    engine_open(&s.g, o, &limits);
    command_answer("%s", s.g.workers[0].be->detail);
    while (command_read(&c)) {
        run_command(&s, &c);
    }
    free_load(&s.load);
    engine_close(&s.g);
}
