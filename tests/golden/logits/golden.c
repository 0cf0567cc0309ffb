/* golden.c - one model, one backend: every case alone, then all of them packed into batches, then
 * padded into batches. The three must agree with each other more closely than with the golden
 * file, because who shares a batch must never change an answer. */
#include "tests/golden/logits/golden.h"

#include "kernels/kernels.h"
#include "kernels/plugin.h"
#include "model/encoder.h"
#include "model/json_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1024, MAX_SEQS = 64 };

static void must(bool ok, const char *what, const char *why) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
    }
}

static int read_ids(int32_t **out, const cJSON *list, const char *path) {
    const int n = cJSON_GetArraySize(list);
    const cJSON *item;
    int i = 0;
    must(n > 0, path, "a case without ids");
    *out = xcalloc((size_t)n, sizeof(**out));
    cJSON_ArrayForEach (item, list) {
        (*out)[i++] = item->valueint;
    }
    return n;
}

static void read_case(struct golden *g, struct golden_case *c, const cJSON *item,
                      const char *path) {
    const cJSON *logits = cJSON_GetObjectItem(item, "logits"), *x;
    c->n_tokens = read_ids(&c->token_ids, cJSON_GetObjectItem(item, "token_ids"), path);
    const int n = read_ids(&c->token_type_ids, cJSON_GetObjectItem(item, "token_type_ids"), path);
    must(n == c->n_tokens, path, "ids and type ids differ in number");
    must(!g->n_labels || g->n_labels == cJSON_GetArraySize(logits), path, "logits are missing");
    g->n_labels = cJSON_GetArraySize(logits);
    c->logits = xcalloc((size_t)g->n_labels, sizeof(*c->logits));
    int i = 0;
    cJSON_ArrayForEach (x, logits) {
        c->logits[i++] = (float)x->valuedouble;
    }
}

void golden_read(struct golden *g, const char *path) {
    char *text = NULL;
    size_t len = 0;
    struct error err;
    cJSON *root = NULL;
    memset(g, 0, sizeof(*g));
    must(!file_read(&text, &len, path, 1 << 24, &err), path, "cannot be read");
    must(!json_parse_object(&root, text, len, path, &err), path, "is not JSON");
    const cJSON *cases = cJSON_GetObjectItem(root, "cases"), *item;
    must(cJSON_GetArraySize(cases) > 0, path, "no cases");
    g->cases = xcalloc((size_t)cJSON_GetArraySize(cases), sizeof(*g->cases));
    cJSON_ArrayForEach (item, cases) {
        read_case(g, &g->cases[g->n_cases++], item, path);
    }
    cJSON_Delete(root);
    free(text);
}

static void free_case(struct golden_case *c) {
    free(c->token_ids);
    free(c->token_type_ids);
    free(c->logits);
}
void golden_finish(struct golden *g) {
    for (int i = 0; i < g->n_cases; i++) {
        free_case(&g->cases[i]);
    }
    free(g->cases);
    memset(g, 0, sizeof(*g));
}

void golden_keep(struct golden *g, int max_tokens, int step) {
    int kept = 0, fitting = 0;
    for (int i = 0; i < g->n_cases; i++) {
        if (g->cases[i].n_tokens <= max_tokens && fitting++ % step == 0) {
            g->cases[kept++] = g->cases[i];
        } else {
            free_case(&g->cases[i]);
        }
    }
    g->n_cases = kept;
}

/* A batch under construction. */
struct batch {
    int32_t token_ids[MAX_ROWS], token_type_ids[MAX_ROWS], cu_seqlens[MAX_SEQS + 1],
        seq_lens[MAX_SEQS];
    int n_seqs, n_rows, longest;
};

/* Adds a sequence that takes `rows` rows; those beyond its tokens hold the id `pad`. */
static void add_sequence(struct batch *b, const struct golden_case *c, int rows, int pad) {
    for (int t = 0; t < rows; t++) {
        const bool real = t < c->n_tokens;
        b->token_ids[b->n_rows + t] = real ? c->token_ids[t] : pad;
        b->token_type_ids[b->n_rows + t] = real ? c->token_type_ids[t] : 0;
    }
    b->seq_lens[b->n_seqs++] = c->n_tokens;
    b->cu_seqlens[b->n_seqs] = b->n_rows += rows;
    b->longest = c->n_tokens > b->longest ? c->n_tokens : b->longest;
}

/* How many cases from `first` on fit a batch, and the longest of them. */
static int count_fitting(const struct golden *g, int first, bool padded, int *longest) {
    int n = 0, rows = 0, most = 0;
    for (; first + n < g->n_cases && n < MAX_SEQS; n++) {
        const int tokens = g->cases[first + n].n_tokens, now = tokens > most ? tokens : most;
        rows += tokens;
        if ((padded ? (n + 1) * now : rows) > MAX_ROWS) {
            break;
        }
        most = now;
    }
    *longest = most;
    return n;
}

enum mode { ALONE, PACKED, PADDED, N_MODES };
static const char *const mode_names[] = {"alone", "packed", "padded"};

static void run_mode(float *logits, struct encoder *e, const struct golden *g, enum mode mode,
                     const struct model_config *cfg) {
    static struct batch b;
    struct error err;
    int n = 0;
    for (int first = 0; first < g->n_cases; first += n) {
        int longest;
        n = count_fitting(g, first, mode == PADDED, &longest);
        n = mode == ALONE ? 1 : n;
        b.n_seqs = b.n_rows = b.longest = 0;
        for (int i = first; i < first + n; i++) {
            add_sequence(&b, &g->cases[i], mode == PADDED ? longest : g->cases[i].n_tokens,
                         cfg->pad_token_id);
        }
        const struct token_batch batch = {b.token_ids, b.token_type_ids, b.cu_seqlens, b.seq_lens,
                                          b.n_seqs,    b.n_rows,         b.longest};
        must(!encoder_forward(e, logits + first * g->n_labels, &batch, NULL, &err),
             "encoder_forward", err.text);
    }
}

static double worst_difference(const float *a, const float *b, int n) {
    double worst = 0;
    for (int i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (isnan(d)) {
            return d; // as far as can be: it passes no limit
        }
        worst = fmax(worst, d);
    }
    return worst;
}

static double cosine(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}
static bool compare_directions(float *const got[N_MODES], const float *want, int n,
                               const char *model_dir, const char *backend, enum dtype dtype) {
    const double least = dtype == DTYPE_BF16 ? 0.9998 : 0.9999;
    bool ok = true;
    for (int m = 0; m < N_MODES; m++) {
        const double golden = cosine(got[m], want, n), mates = cosine(got[m], got[ALONE], n);
        const bool good = golden >= least && mates >= least;
        printf("%s %s, %s: %s, cosine %.7f with the golden logits, %.7f with alone (%d logits)\n",
               good ? "ok" : "FAILED", backend, model_dir, mode_names[m], golden, mates, n);
        ok = ok && good;
    }
    return ok;
}
static bool compare(float *const got[N_MODES], const float *want, int n, const char *model_dir,
                    const char *backend) {
    bool ok = true;
    for (int m = 0; m < N_MODES; m++) {
        const double off = worst_difference(got[m], want, n);
        const double mates = worst_difference(got[m], got[ALONE], n);
        const bool good = off <= 1e-4 && mates <= 1e-5;
        printf("%s %s, %s: %s by %.2g from the golden logits, %.2g from alone (%d logits)\n",
               good ? "ok" : "FAILED", backend, model_dir, mode_names[m], off, mates, n);
        ok = ok && good;
    }
    return ok;
}

/* "cuda-PRECISION"; NULL where there is none. */
static struct backend *make_accelerated(const char *name) {
    const struct accelerator *a = NULL;
    struct backend *be = NULL;
    struct error err;
    char plugin[16];
    struct accelerator_options opt = {.graph_max_rows = 256,
                                      .pass_timeout_ns = INT64_C(60000000000)};
    snprintf(plugin, sizeof(plugin), "%.4s", name);
    while (opt.precision < PRECISION_AUTO &&
           strcmp(name + 5, precision_names[opt.precision]) != 0) {
        opt.precision++;
    }
    if (plugin_open(&a, plugin, &err) || a->create(&be, &opt, &err)) {
        fprintf(stderr, "skipped: %s: %s\n", name, err.text);
    }
    return be;
}
static bool is_accelerated(const char *name) {
    return !strncmp(name, "cuda-", 5) || !strncmp(name, "simt-", 5);
}
bool golden_backend_is_there(const char *backend) {
    struct backend *be = is_accelerated(backend) ? make_accelerated(backend) : NULL;
    const bool is_there = be || !is_accelerated(backend);
    backend_destroy(be);
    return is_there;
}

/* "reference", or "cpu-ISA-LANES"; the ISA `best` is the best of this machine. */
static struct backend *make_backend(const char *name) {
    struct backend *be = NULL;
    struct error err;
    if (!strcmp(name, "reference")) {
        must(!reference_backend_create(&be, &err), name, err.text);
        return be;
    }
    if (is_accelerated(name)) {
        be = make_accelerated(name);
        must(be != NULL, name, "is not there");
        return be;
    }
    const char *isa = strchr(name, '-'), *lanes = strrchr(name, '-');
    must(!strncmp(name, "cpu-", 4) && lanes > isa, name, "no such backend");
    char isa_name[32];
    snprintf(isa_name, sizeof(isa_name), "%.*s", (int)(lanes - isa - 1), isa + 1);
    const struct cpu_options opt = {.n_lanes = (int)strtol(lanes + 1, NULL, 10),
                                    .first_core = -1,
                                    .isa = strcmp(isa_name, "best") ? isa_name : NULL};
    must(!cpu_backend_create(&be, &opt, &err), name, err.text);
    return be;
}

bool golden_check(const struct golden *g, const char *backend, const char *model_dir) {
    struct backend *be = make_backend(backend);
    struct model_config cfg;
    struct model_weights w;
    struct encoder *e;
    struct error err;
    must(!model_config_read(&cfg, model_dir, &err), "model_config_read", err.text);
    must(cfg.n_labels == g->n_labels, model_dir, "another number of labels");
    must(!model_weights_load(&w, be, &cfg, model_dir, NULL, &err), "model_weights_load", err.text);
    const struct encoder_limits limits = {MAX_ROWS, MAX_SEQS,
                                          cfg.max_position < 512 ? cfg.max_position : 512, 0};
    must(!encoder_create(&e, be, &cfg, &w, &limits, &err), "encoder_create", err.text);

    const int n = g->n_cases * g->n_labels;
    float *want = xcalloc((size_t)n, sizeof(*want)), *got[N_MODES];
    for (int i = 0; i < n; i++) {
        want[i] = g->cases[i / g->n_labels].logits[i % g->n_labels];
    }
    for (int m = 0; m < N_MODES; m++) {
        got[m] = xcalloc((size_t)n, sizeof(*got[m]));
        run_mode(got[m], e, g, (enum mode)m, &cfg);
    }
    const bool ok = be->dtype == DTYPE_F32
                        ? compare(got, want, n, model_dir, backend)
                        : compare_directions(got, want, n, model_dir, backend, be->dtype);
    for (int m = 0; m < N_MODES; m++) {
        free(got[m]);
    }
    free(want);
    encoder_destroy(e);
    model_weights_finish(&w);
    model_config_finish(&cfg);
    backend_destroy(be);
    return ok;
}
