/* cmd_models.c - `berth models check`: is a faster precision good enough for this model, on these
 * texts?
 * The texts go through the engine twice, in fp32 and in the precision that is asked about, one
 * after the other, so that the weights of one alone are in memory. A text alone gives the same bits
 * as in any batch, so they go one by one. The file is read anew each time: nothing of it is kept.
 */
#include "server/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/agreement.h"
#include "server/engine.h"
#include "server/line_output.h"
#include "server/lines.h"

enum { OPT_TEXTS, OPT_LABELS, OPT_AGREEMENT, OPT_ACCURACY, OPT_DIFFERENCE, N_OPTS };
static const struct own_option rows[N_OPTS] = {
    [OPT_TEXTS] = {"texts", "FILE",
                   "A text a line; or LABEL, a tab, and the text, which also gives accuracies."},
    [OPT_LABELS] = {"labels", "FILE", "The texts' labels, one a line, when they stand apart."},
    [OPT_AGREEMENT] = {"min-agreement", "SHARE",
                       "Exit code 1 when fewer texts get the same label; default 0.99."},
    [OPT_ACCURACY] = {"max-accuracy-loss", "POINTS",
                      "Or when accuracy falls by more, in points of 100; default 0.5."},
    [OPT_DIFFERENCE] = {"max-mean-difference", "SCORE",
                        "Or when scores differ by more on average; default: any."},
};
const struct own_options models_options = {rows, N_OPTS};

struct limits {
    double agreement, accuracy_loss, mean_difference;
};
struct check {
    const struct options *opt;
    struct limits limits;
    struct engine *engine; // of the run in the works
    struct arena scratch, unused;
    sem_t done;
    bool is_labelled; // texts begin with LABEL and a tab
    int n, n_room;
    int *labels;      // [n_room]
    float *logits[2]; // [n_room, n_labels], of the precision and of fp32
    char detail[224], dtype[16];
};

static enum status read_number(double *out, const struct check *c, int opt, double standard,
                               double max, struct error *err) {
    const char *text = c->opt->own[opt];
    char *end = NULL;
    *out = text ? strtod(text, &end) : standard;
    if (text && (end == text || *end || !(*out >= 0 && *out <= max))) {
        return error_set(err, STATUS_INVALID,
                         "--%s: \"%.40s\", where a number, 0 to %g is expected", rows[opt].name,
                         text, max);
    }
    return STATUS_OK;
}
static enum status read_limits(struct check *c, struct error *err) {
    enum status s = read_number(&c->limits.agreement, c, OPT_AGREEMENT, 0.99, 1, err);
    s = s ? s : read_number(&c->limits.accuracy_loss, c, OPT_ACCURACY, 0.5, 100, err);
    return s ? s : read_number(&c->limits.mean_difference, c, OPT_DIFFERENCE, 1e30, 1e30, err);
}

static enum status open_lines(struct lines *l, const struct check *c, const char *path,
                              struct error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    }
    lines_init(l, NULL, 0, fd, (size_t)c->opt->cfg.server.max_body_bytes);
    return STATUS_OK;
}
static void close_lines(struct lines *l) {
    close(l->fd);
    lines_finish(l);
}
static enum status next_line(struct lines *l, bool *more, struct text *out, const char *path,
                             struct error *err) {
    const enum status s = lines_next(l, more, out, err);
    if (s == STATUS_IO) {
        return error_prefix(err, s, "%s", path);
    }
    return s ? error_prefix(err, s, "%s: line %lld", path, (long long)l->number) : s;
}

static int find_label(const struct model_config *m, const char *name, size_t len) {
    for (int i = 0; i < m->n_labels; i++) {
        if (strlen(m->labels[i]) == len && !memcmp(m->labels[i], name, len)) {
            return i;
        }
    }
    return -1;
}
/* The first line decides whether labels stand before tabs; the others must then do as it does. */
static enum status split_label(struct check *c, struct text *line, int i, struct error *err) {
    const char *tab = memchr(line->bytes, '\t', line->len);
    const size_t len = tab ? (size_t)(tab - line->bytes) : 0;
    const int label = tab ? find_label(engine_model(c->engine), line->bytes, len) : -1;
    if (i == 0) {
        c->is_labelled = label >= 0 && !c->opt->own[OPT_LABELS];
    }
    if (!c->is_labelled) {
        return STATUS_OK;
    }
    if (label < 0 || len + 1 == line->len) {
        return error_set(err, STATUS_INVALID,
                         "the first line begins with a label of the model and a tab, this one does "
                         "not, or has no text");
    }
    c->labels[i] = label;
    line->bytes += len + 1, line->len -= len + 1;
    return STATUS_OK;
}

static void on_done(struct job *job) {
    sem_post(job->owner);
}
static enum status classify(struct check *c, const struct text *text, float *logits,
                            struct error *err) {
    const struct encode_options opt = {.max_tokens = engine_get_info(c->engine)->max_input_tokens,
                                       .truncate = c->opt->cfg.model.auto_truncate,
                                       .side = TRUNCATE_RIGHT,
                                       .add_special_tokens = true};
    struct encoding enc = {0};
    enum status s =
        tokenizer_encode(engine_tokenizer(c->engine), &enc, text, NULL, &opt, &c->scratch, err);
    struct job job = {.token_ids = enc.token_ids,
                      .token_type_ids = enc.token_type_ids,
                      .n_tokens = enc.n_tokens,
                      .logits = logits,
                      .done = on_done,
                      .owner = &c->done};
    struct job *jobs = &job;
    s = s ? s : batcher_submit(engine_batcher(c->engine), &jobs, 1, NULL);
    if (!s) {
        while (sem_wait(&c->done)) { // a signal came
        }
        s = job.status ? error_set(err, job.status, "the model's result is faulty (%s)",
                                   status_name(job.status))
                       : STATUS_OK;
    }
    arena_reset(&c->scratch);
    return s;
}

static void grow(struct check *c, int n_labels) {
    const size_t room = c->n_room ? 2 * (size_t)c->n_room : 1024, old = (size_t)c->n_room;
    int *labels = xcalloc(room, sizeof(*labels));
    memcpy(labels, c->labels ? c->labels : labels, old * sizeof(*labels));
    free(c->labels);
    c->labels = labels;
    for (int i = 0; i < 2; i++) {
        float *logits = xcalloc(room * (size_t)n_labels, sizeof(*logits));
        memcpy(logits, c->logits[i] ? c->logits[i] : logits,
               old * (size_t)n_labels * sizeof(*logits));
        free(c->logits[i]);
        c->logits[i] = logits;
    }
    c->n_room = (int)room;
}
/* All texts, into logits[run]; the first run counts them. */
static enum status classify_all(struct check *c, int run, struct error *err) {
    enum { MAX_TEXTS = 1 << 20 };
    const char *path = c->opt->own[OPT_TEXTS];
    const int n_labels = engine_model(c->engine)->n_labels;
    struct lines in;
    bool more = true;
    int n = 0;
    enum status s = open_lines(&in, c, path, err);
    if (s) {
        return s;
    }
    while (!s) {
        struct text text = {NULL, 0};
        s = next_line(&in, &more, &text, path, err);
        if (s || !more) {
            break;
        }
        if (n == (run ? c->n : MAX_TEXTS)) {
            s = error_set(err, STATUS_INVALID, "%s: more texts than %d", path, n);
            break;
        }
        if (n == c->n_room) {
            grow(c, n_labels);
        }
        s = split_label(c, &text, n, err);
        s = s ? s : classify(c, &text, c->logits[run] + (size_t)n * (size_t)n_labels, err);
        s = s ? error_prefix(err, s, "%s: line %lld", path, (long long)in.number) : s;
        n++;
    }
    close_lines(&in);
    if (!s && n == 0) {
        s = error_set(err, STATUS_INVALID, "%s: there are no texts in it", path);
    }
    c->n = n;
    return s;
}

static enum status read_labels(struct check *c, struct error *err) {
    const char *path = c->opt->own[OPT_LABELS];
    struct lines in;
    bool more = true;
    int n = 0;
    enum status s = open_lines(&in, c, path, err);
    if (s) {
        return s;
    }
    for (; !s; n++) {
        struct text text = {NULL, 0};
        s = next_line(&in, &more, &text, path, err);
        if (s || !more) {
            break;
        }
        const int label = find_label(engine_model(c->engine), text.bytes, text.len);
        if (label < 0 || n == c->n) {
            s = error_set(err, STATUS_INVALID, "%s: line %d: %s", path, n + 1,
                          label < 0 ? "not a label of this model" : "more labels than texts");
            break;
        }
        c->labels[n] = label;
    }
    close_lines(&in);
    if (!s && n < c->n) {
        s = error_set(err, STATUS_INVALID, "%s: %d labels for %d texts", path, n, c->n);
    }
    return s;
}

static enum status run_precision(struct check *c, enum precision precision, int run,
                                 struct metrics *metrics, struct error *err) {
    struct config cfg = c->opt->cfg;
    cfg.compute.precision = precision;
    enum status s = engine_open_unmeasured(&c->engine, &cfg, metrics, err);
    if (s) {
        return s;
    }
    struct engine_device device;
    engine_get_device(c->engine, &device);
    if (run == 0) {
        snprintf(c->detail, sizeof(c->detail), "%s, %s", device.backend, device.detail);
        snprintf(c->dtype, sizeof(c->dtype), "%s", device.dtype);
    }
    if (precision != PRECISION_FLOAT32 && !strcmp(device.dtype, "float32")) {
        s = error_set(err, STATUS_INVALID,
                      "compute.precision %s means float32 on this machine (%s): there is nothing "
                      "to compare",
                      precision_names[precision], c->detail);
    }
    return s ? s : classify_all(c, run, err);
}

static void print_report(const struct check *c, const struct agreement *a, bool passed) {
    printf("%d texts, float32 beside %s (%s)\n", a->n, c->dtype, c->detail);
    if (a->has_labels) {
        printf("same label       %.4f of texts (at least %g)\n", a->same_label,
               c->limits.agreement);
    } else {
        printf("same label       a regression has none\n");
    }
    printf("score difference max %.6f (text %d), mean %.6f\n", a->max_difference, a->worst_text + 1,
           a->mean_difference);
    printf("cosine of logits worst %.6f, mean %.6f\n", a->worst_cosine, a->mean_cosine);
    if (a->has_accuracy) {
        printf("accuracy         %.4f, %s %.4f: %+.2f points (at least -%g)\n", a->accuracy_exact,
               c->dtype, a->accuracy_other, 100 * (a->accuracy_other - a->accuracy_exact),
               c->limits.accuracy_loss);
    }
    printf("%s\n", passed ? "passed" : "failed");
}
static bool is_good(const struct check *c, const struct agreement *a) {
    const double loss = 100 * (a->accuracy_exact - a->accuracy_other);
    return (!a->has_labels || a->same_label >= c->limits.agreement) &&
           (!a->has_accuracy || loss <= c->limits.accuracy_loss + 1e-9) &&
           a->mean_difference <= c->limits.mean_difference;
}

static enum status run_check(struct check *c, struct metrics *metrics, bool *passed,
                             struct error *err) {
    const enum precision wanted = c->opt->cfg.compute.precision;
    enum status s = read_limits(c, err);
    s = s ? s
          : line_arenas_init(&c->scratch, &c->unused, (size_t)c->opt->cfg.server.max_body_bytes,
                             err);
    /* The precision first: where it is not to be had, nobody waits for the other. */
    s = s ? s
          : run_precision(c, wanted == PRECISION_FLOAT32 ? PRECISION_INT8 : wanted, 0, metrics,
                          err);
    s = s || !c->opt->own[OPT_LABELS] ? s : read_labels(c, err);
    engine_close(c->engine);
    c->engine = NULL;
    s = s ? s : run_precision(c, PRECISION_FLOAT32, 1, metrics, err);
    if (s) {
        return s;
    }
    const struct agreement_input in = {engine_model(c->engine), c->logits[1], c->logits[0],
                                       c->is_labelled || c->opt->own[OPT_LABELS] ? c->labels : NULL,
                                       c->n};
    const struct agreement a = agreement_of(&in);
    *passed = is_good(c, &a);
    print_report(c, &a, *passed);
    return STATUS_OK;
}
int cmd_models(const struct options *opt) {
    struct check c = {.opt = opt};
    struct metrics *metrics = xcalloc(1, sizeof(*metrics)); // the workers count; nobody asks
    struct error err = {.text = ""};
    bool passed = false;
    if (!opt->own[OPT_TEXTS]) {
        fputs("berth: models: no --texts FILE to compare precisions on\n", stderr);
        free(metrics);
        return EXIT_USAGE;
    }
    sem_init(&c.done, 0, 0);
    const enum status s = run_check(&c, metrics, &passed, &err);
    engine_close(c.engine);
    arena_finish(&c.scratch), arena_finish(&c.unused);
    free(c.labels), free(c.logits[0]), free(c.logits[1]), free(metrics);
    if (s) {
        fprintf(stderr, "berth: models: %s\n", err.text);
    }
    return s || !passed ? EXIT_FAULT : 0;
}
